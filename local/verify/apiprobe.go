package verify

import (
	"context"
	"maps"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"time"
)

// callsWithKey is the number of calls that callWithKey makes in a row.
const callsWithKey = 4

var (
	restKey = &probe{
		what: "GET REST/verify with the key", needs: needREST, calls: callsWithKey + 1,
		run: func(ctx context.Context, s *session) evidence { return s.callWithKey(ctx, s.rest) },
	}
	httpKey = &probe{
		what: "GET HTTP/verify with the key", needs: needHTTP, calls: callsWithKey + 1,
		run: func(ctx context.Context, s *session) evidence { return s.callWithKey(ctx, s.http) },
	}
	restOver = &probe{
		what: "GET REST/verify with the key until it is over its limit", needs: needREST, calls: maxToDenial,
		run: func(ctx context.Context, s *session) evidence { return s.useUp(ctx, s.rest) },
	}
	httpOver = &probe{
		what: "GET HTTP/verify with the key until it is over its limit", needs: needHTTP, calls: maxToDenial,
		run: func(ctx context.Context, s *session) evidence { return s.useUp(ctx, s.http) },
	}
	restAgain = &probe{
		what: "GET REST/verify with the key after Retry-After", needs: needREST, calls: maxToDenial + 2,
		run: afterRetryAfter,
	}
	restPath     = keyProbe("GET REST/verify/a%20b with the key", needREST|needExample, "/a%20b")
	httpPath     = keyProbe("GET HTTP/verify/a%20b with the key", needHTTP|needExample, "/a%20b")
	restLongPath = keyProbe("GET REST/verify and 1,000 characters with the key", needREST|needExample,
		long(1_000))
	restLongARN = keyProbe("GET REST/verify and 1,700 characters with the key", needREST|needExample,
		long(1_700))

	restOpen    = openProbe("GET REST/verify without a credential", needREST, asBrowser)
	httpOpen    = openProbe("GET HTTP/verify without a credential", needHTTP, asBrowser)
	restBadKey  = openProbe("GET REST/verify with a wrong key", needREST, badKey)
	httpBadKey  = openProbe("GET HTTP/verify with a wrong key", needHTTP, badKey)
	restHeaders = openProbe("GET REST/verify with a header of 11,000 bytes", needREST, large)
	httpHeaders = openProbe("GET HTTP/verify with a header of 11,000 bytes", needHTTP, large)

	restPreflight = openProbe("OPTIONS REST/verify, a browser's preflight for a call with a key",
		needREST, preflight)
	httpPreflight = openProbe("OPTIONS HTTP/verify, a browser's preflight for a call with a key",
		needHTTP, preflight)
)

// someOrigin is the origin of another site.
const someOrigin = "https://verify.example"

// Calls without a valid credential.
var (
	asBrowser = call{header: map[string]string{"Origin": someOrigin}}
	badKey    = call{header: map[string]string{"X-Api-Key": "tg_verify_wrong"}}
	large     = call{header: map[string]string{"A": strings.Repeat("a", 11_000)}}
	preflight = call{method: http.MethodOptions, header: map[string]string{
		"Origin":                         someOrigin,
		"Access-Control-Request-Headers": "x-api-key",
	}}
)

func long(n int) string { return "/" + strings.Repeat("l", n) }

// base returns the URL of the API that a probe needs.
func (s *session) base(n need) string {
	if n&needHTTP != 0 {
		return s.http
	}
	return s.rest
}

// openProbe returns a probe that makes one call without the key.
func openProbe(what string, n need, c call) *probe {
	return &probe{what: what, needs: n, calls: 1, run: func(ctx context.Context, s *session) evidence {
		return evidence{answers: []answer{s.do(ctx, s.onPath(c, s.base(n)))}}
	}}
}

// onPath returns a call on the path, with the method and the body of the flags, unless it
// is a preflight for them.
func (s *session) onPath(c call, base string) call {
	c.url = base + s.path
	if c.method == http.MethodOptions {
		c.header = maps.Clone(c.header)
		c.header["Access-Control-Request-Method"] = s.method
		return c
	}
	c.method, c.body = s.method, s.body
	return c
}

// keyProbe returns a probe that makes one call with the key, to a path below the path.
func keyProbe(what string, n need, path string) *probe {
	return &probe{what: what, needs: n, calls: 1, run: func(ctx context.Context, s *session) evidence {
		s.makeRoom(ctx, 1)
		return evidence{answers: []answer{s.withKeyAt(ctx, s.base(n)+s.path+path)}}
	}}
}

// callWithKey makes callsWithKey calls in a row with the key. If the first is denied,
// since an earlier run used up the limit, it waits and begins again.
func (s *session) callWithKey(ctx context.Context, base string) evidence {
	s.makeRoom(ctx, callsWithKey)
	first := s.withKey(ctx, base)
	if wait, denied := first.wait(); denied && wait <= maxWindow {
		s.sleep(ctx, wait)
		first = s.withKey(ctx, base)
	}
	answers := []answer{first}
	if first.err != nil || first.status != http.StatusOK {
		return evidence{answers: answers}
	}
	s.readKeyLimit(first)
	for range callsWithKey - 1 {
		answers = append(answers, s.withKey(ctx, base))
	}
	fell, known, _ := remainingFalls(answers)
	s.cached[base] = known && !fell
	return evidence{answers: answers}
}

// wait returns the time to wait after a denial, and whether the answer may be a denial.
// An HTTP API's 403 may be one, and has no Retry-After.
func (a answer) wait() (time.Duration, bool) {
	seconds, err := strconv.Atoi(a.header.Get("Retry-After"))
	switch {
	case a.status == http.StatusTooManyRequests && err == nil:
		return time.Duration(seconds) * time.Second, true
	case a.status == http.StatusTooManyRequests, a.status == http.StatusForbidden:
		return defaultQuota.window + time.Second, true
	}
	return 0, false
}

// unusable returns the reason for which the key's limit cannot be checked on an API; ""
// if it can.
func (s *session) unusable(base string) string {
	if s.cached[base] {
		return "the API caches the authorizer's results: see the row on counting"
	}
	return s.quota.reason()
}

// afterRetryAfter calls once, waits for that answer's Retry-After, and calls again.
func afterRetryAfter(ctx context.Context, s *session) evidence {
	if reason := s.unusable(s.rest); reason != "" {
		return evidence{reason: reason}
	}
	s.used = s.quota.requests // still used up
	denied := s.withKey(ctx, s.rest)
	if denied.status == http.StatusOK { // the window has passed
		denied = s.useUp(ctx, s.rest).last()
	}
	seconds, err := strconv.Atoi(denied.header.Get("Retry-After"))
	wait := time.Duration(seconds) * time.Second
	if denied.status != tooMany || err != nil || wait > maxWindow {
		return evidence{reason: "there was no denial with a Retry-After of at most a minute"}
	}
	s.sleep(ctx, wait)
	return evidence{answers: []answer{s.withKey(ctx, s.rest)}}
}

const (
	burstWorkers = 10
	burstTries   = 3
	// maxToDenial bounds the calls of useUp.
	maxToDenial = burstTries * (maxRequests + 1)
)

// The number of calls of the floods: above the bursts of 400 and 20 that infra sets.
const (
	restFloodCalls = 1000
	dashFloodCalls = 100
	floodWorkers   = 100
)

// useUp makes calls with the key until one is denied. The evidence is the denial, or the
// last answer if no call was denied.
func (s *session) useUp(ctx context.Context, base string) evidence {
	if reason := s.unusable(base); reason != "" {
		return evidence{reason: reason}
	}
	var last answer
	for range burstTries {
		s.makeRoom(ctx, s.quota.requests)
		began := s.now()
		last = s.burst(ctx, s.quota.requests+1, func() answer { return s.withKey(ctx, base) })
		if last.err != nil || last.status != http.StatusOK || s.now().Sub(began) < s.quota.window {
			break // the calls took longer than the window
		}
	}
	return evidence{answers: []answer{last}}
}

// burst makes up to n calls, burstWorkers at a time, and stops at the first status that
// is not 200. It returns that answer, or the last one.
func (s *session) burst(ctx context.Context, n int, do func() answer) answer {
	var (
		lock  sync.Mutex
		group sync.WaitGroup
		last  answer
		left  = n
		ended bool
	)
	next := func() bool {
		lock.Lock()
		defer lock.Unlock()
		left--
		return left >= 0 && !ended && ctx.Err() == nil
	}
	for range min(burstWorkers, n) {
		group.Go(func() {
			for next() {
				a := do()
				lock.Lock()
				if !ended {
					last, ended = a, a.err != nil || a.status != http.StatusOK
				}
				lock.Unlock()
			}
		})
	}
	group.Wait()
	return last
}

// flood makes n calls, floodWorkers at a time. The evidence is one answer of each status.
func (s *session) flood(ctx context.Context, n int, url string) evidence {
	work := make(chan struct{}, n)
	for range n {
		work <- struct{}{}
	}
	close(work)
	answers := make(chan answer, n)
	for range floodWorkers {
		go func() {
			for range work {
				answers <- s.get(ctx, url)
			}
		}()
	}
	e, known := evidence{}, map[int]bool{}
	for range n {
		if a := <-answers; !known[a.status] {
			known[a.status] = true
			e.answers = append(e.answers, a)
		}
	}
	return e
}
