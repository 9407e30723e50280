package verify

import (
	"cmp"
	"context"
	"fmt"
	"net/http"
	"regexp"
	"strconv"
	"sync/atomic"
	"time"
)

// session makes the calls of one run. Its fields are set before the first call.
type session struct {
	options
	client *http.Client
	now    func() time.Time
	sleep  func(context.Context, time.Duration) // returns early if the context ends
	began  time.Time
	calls  atomic.Int64
	quota  quota
	used   int             // calls with the key since the last wait for a new window
	cached map[string]bool // by URL: whether the API caches the authorizer's results
	keyID  string

	outcomes map[string]outcome // by row
}

// row notes a row's outcome, and reports whether it is a pass.
func (s *session) row(id string, o outcome) bool {
	s.outcomes[id] = o
	return o.verdict == ok
}

func newSession(o options) *session {
	transport, ok := http.DefaultTransport.(*http.Transport)
	if !ok {
		transport = &http.Transport{}
	}
	transport = transport.Clone()
	transport.DisableCompression = true // so that answers stay as they were sent
	transport.MaxIdleConnsPerHost = burstWorkers
	o.path, o.method = cmp.Or(o.path, examplePath), cmp.Or(o.method, http.MethodGet)
	return &session{
		options: o,
		client: &http.Client{
			Transport:     transport,
			Timeout:       callTimeout,
			CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
		},
		now: time.Now, sleep: pause, began: time.Now(), quota: defaultQuota, cached: map[string]bool{},
		outcomes: map[string]outcome{},
	}
}

func (s *session) close() { s.client.CloseIdleConnections() }

// pause waits for a time. It returns early if ctx ends.
func pause(ctx context.Context, d time.Duration) {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-ctx.Done():
	}
}

// quota is the limit of the key with the fewest requests.
type quota struct {
	requests int
	window   time.Duration
}

// defaultQuota is assumed until an answer has the key's limits.
var defaultQuota = quota{10, 10 * time.Second}

// Bounds of a key's limit that verify can use: large enough for its calls in a row, small
// enough to be used up, and with a short wait.
const (
	minRequests = 5
	maxRequests = 20
	maxWindow   = time.Minute
)

// reason returns why verify cannot use up the key's limit; "" if it can.
func (q quota) reason() string {
	if q.requests < minRequests || q.requests > maxRequests || q.window > maxWindow {
		return fmt.Sprintf("the key's limit is %d per %s: use a key with %d to %d calls in at most %s",
			q.requests, q.window, minRequests, maxRequests, maxWindow)
	}
	return ""
}

var policyItem = regexp.MustCompile(`;q=(\d{1,9});w=(\d{1,9})`)

// parseQuota returns the limit with the fewest requests of a RateLimit-Policy field.
func parseQuota(policy string) (quota, bool) {
	smallest, found := quota{}, false
	for _, item := range policyItem.FindAllStringSubmatch(policy, -1) {
		requests, _ := strconv.Atoi(item[1]) // digits
		seconds, _ := strconv.Atoi(item[2])
		if !found || requests < smallest.requests {
			smallest, found = quota{requests, time.Duration(seconds) * time.Second}, true
		}
	}
	return smallest, found
}

// makeRoom waits, if necessary, until the key's limit has room for n more calls. It
// counts only verify's own calls.
func (s *session) makeRoom(ctx context.Context, n int) {
	if s.used+n > s.quota.requests {
		s.sleep(ctx, s.quota.window+time.Second)
		s.used = 0
	}
	s.used += n
}

// readKeyLimit reads the key's limit and id from an allowed call.
func (s *session) readKeyLimit(a answer) {
	authorizer := a.context()
	policy := a.header.Get("RateLimit-Policy")
	if policy == "" {
		policy = fmt.Sprint(authorizer["rateLimitPolicy"])
	}
	if q, found := parseQuota(policy); found {
		s.quota = q
	}
	if id, ok := authorizer["keyId"].(string); ok {
		s.keyID = id
	}
}
