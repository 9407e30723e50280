package docker

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"tidegate/internal/testing/waiting"
)

// answer is the response that a client got.
type answer struct {
	status int
	header http.Header
	body   string
}

func (a answer) String() string { return fmt.Sprintf("%d %v %s", a.status, a.header, a.body) }

// client keeps no connections, since one may lead to a gateway that no longer runs.
var client = &http.Client{
	Transport:     &http.Transport{DisableKeepAlives: true},
	Timeout:       40 * time.Second,
	CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
}

func try(ctx context.Context, url, key string) (answer, error) {
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, url, http.NoBody)
	if err != nil {
		return answer{}, fmt.Errorf("call: %w", err)
	}
	if key != "" {
		r.Header.Set("X-Api-Key", key)
	}
	return send(r)
}

func send(r *http.Request) (answer, error) {
	response, err := client.Do(r)
	if err != nil {
		return answer{}, fmt.Errorf("call: %w", err)
	}
	defer func() { _ = response.Body.Close() }()
	body, err := io.ReadAll(response.Body)
	if err != nil {
		return answer{}, fmt.Errorf("call: %w", err)
	}
	return answer{response.StatusCode, response.Header, string(body)}, nil
}

func get(t *testing.T, url, key string) answer {
	t.Helper()
	a, err := try(t.Context(), url, key)
	if err != nil {
		t.Fatal(err)
	}
	return a
}

// decidedCall calls until Valkey decides. An environment without a connection may answer
// before it has one.
func decidedCall(t *testing.T, url, key string) answer {
	t.Helper()
	var a answer
	waiting.Until(t, "a call that Valkey decides", func() bool {
		a = get(t, url, key)
		return !a.degraded()
	})
	return a
}

// problem is a problem document.
type problem struct {
	Type, Detail string
	Status       int
	Violated     []string `json:"violated-policies"`
}

func (a answer) problem() problem {
	var p problem
	_ = json.Unmarshal([]byte(a.body), &p) // any other body gives the zero value
	return p
}

// context returns the authorizer's context as the backend echoed it.
func (a answer) context() map[string]string {
	var echo struct{ Authorizer map[string]any }
	_ = json.Unmarshal([]byte(a.body), &echo)
	fields := map[string]string{}
	for name, value := range echo.Authorizer {
		fields[name] = fmt.Sprint(value)
	}
	return fields
}

// degraded reports whether the call was decided without Valkey. A denial's problem type
// says so.
func (a answer) degraded() bool {
	switch a.status {
	case http.StatusOK:
		return a.context()["degraded"] == "true"
	case http.StatusTooManyRequests:
		return strings.HasSuffix(a.problem().Type, "#temporary-reduced-capacity") &&
			a.header.Get("Retry-After") == "1"
	}
	return false
}

// pause is the mean time between two calls of a worker. The time is random: with equal
// pauses and 12 workers, the gateway gave all calls of a worker to the same one of three
// environments.
const pause = 100 * time.Millisecond

// target is a call that a worker repeats.
type target struct {
	name, key string
	url       *atomic.Pointer[string]
	statuses  []int // statuses that its client may see
}

// load makes calls until it is stopped.
type load struct {
	targets []target
	stop    context.CancelFunc
	workers sync.WaitGroup

	lock     sync.Mutex
	tallies  map[string]tally // by the target's name
	log      []answered       // every answer, as they came
	failures []string         // errors and answers that no client should get
}

// tally counts the answers to one target.
type tally struct {
	calls, allowed, refused     int // refused: no connection
	degradedAllow, degradedDeny int
	decidedInARow               int
}

// answered is the time of an answer, its target, and whether the answer is degraded.
type answered struct {
	at       time.Time
	to       string
	degraded bool
}

// newLoad starts two workers for each target, so that every environment is busy at times.
func newLoad(t *testing.T, targets ...target) *load {
	t.Helper()
	ctx, stop := context.WithCancel(t.Context())
	l := &load{targets: targets, stop: stop, tallies: map[string]tally{}}
	for _, each := range targets {
		for range 2 {
			l.workers.Go(func() { l.work(ctx, each) })
		}
	}
	t.Cleanup(func() { l.end() })
	return l
}

func (l *load) work(ctx context.Context, to target) {
	pace := time.NewTimer(0)
	defer pace.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-pace.C:
			pace.Reset(rand.N(2 * pause))
			a, err := try(context.WithoutCancel(ctx), *to.url.Load(), to.key)
			l.count(to, a, err)
		}
	}
}

func (l *load) count(to target, a answer, err error) {
	l.lock.Lock()
	defer l.lock.Unlock()
	one := l.tallies[to.name]
	one.calls++
	if err == nil {
		l.log = append(l.log, answered{time.Now(), to.name, a.degraded()})
	}
	switch {
	case err != nil:
		one.refused++
		l.failures = append(l.failures, to.name+": "+err.Error())
	case !slices.Contains(to.statuses, a.status):
		l.failures = append(l.failures, to.name+": "+a.String())
	case a.status < http.StatusBadRequest:
		one.allowed++
	}
	switch {
	case err != nil:
		one.decidedInARow = 0
	case !a.degraded():
		one.decidedInARow++
	case a.status == http.StatusOK:
		one.degradedAllow, one.decidedInARow = one.degradedAllow+1, 0
	default:
		one.degradedDeny, one.decidedInARow = one.degradedDeny+1, 0
	}
	l.tallies[to.name] = one
}

// now returns the counts of a target so far.
func (l *load) now(name string) tally {
	l.lock.Lock()
	defer l.lock.Unlock()
	return l.tallies[name]
}

// forgetDenials sets the number of degraded denials so far to 0.
func (l *load) forgetDenials() {
	l.lock.Lock()
	defer l.lock.Unlock()
	for name, one := range l.tallies {
		one.degradedDeny = 0
		l.tallies[name] = one
	}
}

// valkeyDecides reports whether the last decidedCalls answers to each target were all
// decided by Valkey.
func (l *load) valkeyDecides() bool {
	l.lock.Lock()
	defer l.lock.Unlock()
	return !slices.ContainsFunc(l.targets, func(to target) bool {
		return l.tallies[to.name].decidedInARow < decidedCalls
	})
}

// decidedCalls is so many calls that each of three environments gets one of them: one
// gets none in fewer than 1 of 10^10 runs.
const decidedCalls = 60

// end waits for the running calls, and returns the answers that no client should get.
func (l *load) end() []string {
	l.stop()
	l.workers.Wait()
	return l.failures
}
