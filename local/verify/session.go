package main

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"regexp"
	"strconv"
	"strings"
	"sync/atomic"
	"time"
)

// Bounds of one call.
const (
	callTimeout = 35 * time.Second // longer than every timeout of API Gateway
	maxAnswer   = 1 << 20
)

// session makes the calls of one run. Its fields are set before the first call.
type session struct {
	options
	local  bool // every URL is of this machine, without API Gateway's own quotas
	client *http.Client
	aws    awsCommand // nil without the AWS CLI or a stack
	now    func() time.Time
	sleep  func(context.Context, time.Duration) // returns early if the context ends
	began  time.Time
	calls  atomic.Int64
	quota  quota
	used   int             // calls with the key since the last wait for a new window
	cached map[string]bool // by URL: whether the API caches the authorizer's results
	keyID  string
}

func newSession(o options, aws awsCommand) *session {
	transport, ok := http.DefaultTransport.(*http.Transport)
	if !ok {
		transport = &http.Transport{}
	}
	transport = transport.Clone()
	transport.DisableCompression = true // so that answers stay as they were sent
	transport.MaxIdleConnsPerHost = burstWorkers
	s := &session{
		options: o,
		local:   isLocal(o.rest) && isLocal(o.http) && isLocal(o.dashboard),
		client: &http.Client{
			Transport:     transport,
			Timeout:       callTimeout,
			CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
		},
		now: time.Now, sleep: pause, began: time.Now(), quota: defaultQuota, cached: map[string]bool{},
	}
	if o.stack != "" {
		s.aws = aws
	}
	return s
}

func (s *session) close() { s.client.CloseIdleConnections() }

// isLocal reports whether a URL is of this machine, or empty.
func isLocal(text string) bool {
	u, err := url.Parse(text)
	if err != nil || u.Hostname() == "" || u.Hostname() == "localhost" {
		return true
	}
	ip := net.ParseIP(u.Hostname())
	return ip != nil && ip.IsLoopback()
}

// pause waits for a time. It returns early if ctx ends.
func pause(ctx context.Context, d time.Duration) {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-ctx.Done():
	}
}

// call is a request to make.
type call struct {
	method, url string
	header      map[string]string
	body        string
}

func (s *session) get(ctx context.Context, url string) answer { return s.do(ctx, call{url: url}) }

// withKey makes a GET with the key, as a script of another site does. Its caller must
// have called makeRoom.
func (s *session) withKey(ctx context.Context, url string) answer {
	return s.do(ctx, call{url: url, header: map[string]string{"X-Api-Key": s.key, "Origin": someOrigin}})
}

// do makes a call. It does not follow redirects and does not retry.
func (s *session) do(ctx context.Context, c call) answer {
	method := cmp.Or(c.method, http.MethodGet)
	request, err := http.NewRequestWithContext(ctx, method, c.url, strings.NewReader(c.body))
	if err != nil {
		return answer{err: err}
	}
	request.Header.Set("User-Agent", "tidegate-verify")
	for name, value := range c.header {
		request.Header.Set(name, value)
	}
	s.calls.Add(1)
	began := s.now()
	response, err := s.client.Do(request)
	if err != nil {
		return answer{err: err}
	}
	defer func() { _ = response.Body.Close() }()
	body, err := io.ReadAll(io.LimitReader(response.Body, maxAnswer))
	return answer{status: response.StatusCode, header: response.Header, body: string(body),
		took: s.now().Sub(began), err: err}
}

// answer is the result of one call. err is set if there was no answer.
type answer struct {
	status int
	header http.Header
	body   string
	took   time.Duration
	err    error
}

// echoed is the answer of the example APIs' backend.
type echoed struct {
	Path       string         `json:"path"`
	Authorizer map[string]any `json:"authorizer"`
}

func (a answer) echo() (echoed, bool) {
	var e echoed
	err := json.Unmarshal([]byte(a.body), &e)
	return e, err == nil && e.Authorizer != nil
}

// context returns the authorizer context that the backend got; nil if the answer does not
// have it.
func (a answer) context() map[string]any {
	e, _ := a.echo()
	return e.Authorizer
}

var remainingItem = regexp.MustCompile(`;r=(\d{1,18})`)

// remaining returns the remaining calls of the tightest limit, from the context or else
// from the header.
func (a answer) remaining() (int64, bool) {
	text := fmt.Sprint(a.context()["remaining"])
	if item := remainingItem.FindStringSubmatch(a.header.Get("RateLimit")); item != nil &&
		a.context() == nil {
		text = item[1]
	}
	n, err := strconv.ParseFloat(text, 64) // a number of JSON, or digits
	return int64(n), err == nil
}

// remainingFalls reports whether the remaining calls decrease from one answer to the
// next. known is whether any answer has them, and seen lists them.
func remainingFalls(answers []answer) (fell, known bool, seen string) {
	last := int64(-1)
	for _, a := range answers {
		n, found := a.remaining()
		if !found {
			continue
		}
		if seen != "" {
			seen += ", "
		}
		seen += strconv.FormatInt(n, 10)
		fell = fell || known && n < last
		known, last = true, n
	}
	return fell, known, "remaining " + seen
}

// policy returns the RateLimit-Policy of an answer.
func (a answer) policy() string {
	if text, found := a.context()["rateLimitPolicy"].(string); found {
		return text
	}
	return strings.Join(a.header.Values("RateLimit-Policy"), ", ")
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
