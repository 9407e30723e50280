package verify

import (
	"context"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"
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

func (s *session) callREST(ctx context.Context) {
	if first, later := s.callWithKey(ctx, "rest", s.rest); first.status == http.StatusOK {
		s.row("rest-decided", first.notDegraded())
		s.row("rest-latency", timely(first, later))
		s.row("rest-context", first.hasContext(false))
	}
	s.row("rest-headers", s.open(ctx, s.rest, large).is(http.StatusRequestHeaderFieldsTooLarge))
	s.row("rest-401-wrong", s.open(ctx, s.rest, badKey).is(http.StatusUnauthorized))
	ask := s.open(ctx, s.rest, preflight)
	s.row("rest-preflight", all(ask.is(http.StatusOK, http.StatusNoContent), ask.allowsKey()))
	open := s.open(ctx, s.rest, asBrowser)
	if s.row("rest-401", open.is(http.StatusUnauthorized)) {
		s.row("rest-401-authenticate", open.has("WWW-Authenticate", bearer))
		s.row("rest-401-body", all(open.has("Content-Type", problemJSON), open.hasProblem(false)))
		s.row("rest-401-cors", open.readable())
	}
	if s.examplePaths("rest-path", "rest-long-path", "rest-long-arn") {
		s.callPath(ctx, "rest-path", s.rest)
		s.row("rest-long-path", s.below(ctx, s.rest, long(1_000)).is(http.StatusOK))
		s.row("rest-long-arn", s.below(ctx, s.rest, long(1_700)).is(http.StatusRequestURITooLong))
	}
	over, usable := s.useUp(ctx, "rest-429", s.rest)
	if !usable || !s.row("rest-429", over.is(tooMany)) {
		return
	}
	s.row("rest-429-retry-after", over.waits(s.quota))
	s.row("rest-429-fields", over.hasFields(usedUp))
	s.row("rest-429-type", over.has("Content-Type", problemJSON))
	s.row("rest-429-body", over.hasProblem(true))
	s.row("rest-429-cors", over.readable())
	s.callAgain(ctx)
}

func (s *session) callHTTP(ctx context.Context) {
	if first, _ := s.callWithKey(ctx, "http", s.http); first.status == http.StatusOK {
		s.row("http-context", first.hasContext(true))
		s.row("http-cors", first.readable())
	}
	s.row("http-headers", s.open(ctx, s.http, large).is(http.StatusRequestHeaderFieldsTooLarge))
	s.row("http-403-wrong", s.open(ctx, s.http, badKey).is(http.StatusForbidden))
	ask := s.open(ctx, s.http, preflight)
	s.row("http-preflight", all(ask.is(http.StatusOK, http.StatusNoContent), ask.allowsKey()))
	open := s.open(ctx, s.http, asBrowser)
	if s.row("http-403", open.is(http.StatusForbidden)) {
		s.row("http-403-cors", open.readableOrNot())
	}
	if s.examplePaths("http-path") {
		s.callPath(ctx, "http-path", s.http)
	}
	over, usable := s.useUp(ctx, "http-over", s.http)
	if !usable || !s.row("http-over", over.is(http.StatusForbidden, tooMany)) {
		return
	}
	if over.status == http.StatusForbidden { // valid too, and without fields
		for _, id := range []string{"retry-after", "body", "fields", "cors"} {
			s.row("http-429-"+id, skip("denials are 403: set check.HTTP_API_DENY=context for a true 429"))
		}
		return
	}
	s.row("http-429-retry-after", over.waits(s.quota))
	s.row("http-429-body", all(over.has("Content-Type", problemJSON), over.hasProblem(false)))
	s.row("http-429-fields", over.hasFields(usedUp))
	s.row("http-429-cors", over.readable())
}

func long(n int) string { return "/" + strings.Repeat("l", n) }

// open makes a call without the key on the path, with the method and the body of the
// flags. A preflight asks for them.
func (s *session) open(ctx context.Context, base string, c call) answer {
	c.url = base + s.path
	if c.method == http.MethodOptions {
		c.header = maps.Clone(c.header)
		c.header["Access-Control-Request-Method"] = s.method
	} else {
		c.method, c.body = s.method, s.body
	}
	return s.do(ctx, c)
}

// below makes one call with the key, to a path below the path.
func (s *session) below(ctx context.Context, base, path string) answer {
	s.makeRoom(ctx, 1)
	return s.withKeyAt(ctx, base+s.path+path)
}

// examplePaths reports whether the backend takes paths below the path. If it need not,
// the rows are skipped.
func (s *session) examplePaths(rows ...string) bool {
	for _, id := range rows {
		if s.path != examplePath {
			s.row(id, skip("-path is set: its backend need not take other paths"))
		}
	}
	return s.path == examplePath
}

func (s *session) callPath(ctx context.Context, id, base string) {
	a := s.below(ctx, base, "/a%20b")
	s.row(id, all(a.is(http.StatusOK), a.pathEndsIn("/verify/a%20b", "/verify/a b")))
}

// callWithKey makes callsWithKey calls in a row with the key, reads its limit, and fills
// the rows of both APIs. If the first call is denied, since an earlier run used up the
// limit, it waits and begins again.
func (s *session) callWithKey(ctx context.Context, api, base string) (first answer, later []answer) {
	s.makeRoom(ctx, callsWithKey)
	first = s.withKey(ctx, base)
	if wait, denied := first.wait(); denied && wait <= maxWindow {
		s.sleep(ctx, wait)
		first = s.withKey(ctx, base)
	}
	if !s.row(api+"-allowed", first.is(http.StatusOK)) {
		return first, nil
	}
	s.readKeyLimit(first)
	for range callsWithKey - 1 {
		later = append(later, s.withKey(ctx, base))
	}
	fell, known, seen := remainingFalls(slices.Concat([]answer{first}, later))
	s.cached[base] = known && !fell
	if known {
		s.row(api+"-counts", judged(fell, seen))
	} else {
		s.row(api+"-counts", skip("no answer has the remaining calls"))
	}
	s.row(api+"-fields", first.hasFields(rateLimit))
	return first, later
}

const slowest = 10 * time.Second // an HTTP API's time-out for its authorizer

// timely expects that every answer came in time.
func timely(first answer, later []answer) outcome {
	worst := first.took
	seen := fmt.Sprintf("first %s", first.took.Round(time.Millisecond))
	for _, a := range later {
		worst = max(worst, a.took)
		seen += fmt.Sprintf(", %s", a.took.Round(time.Millisecond))
	}
	return judged(worst <= slowest, seen)
}

// wait returns the time to wait after a denial, and whether the answer may be a denial.
// An HTTP API's 403 may be one, and has no Retry-After.
func (a answer) wait() (time.Duration, bool) {
	seconds, err := strconv.Atoi(a.header.Get("Retry-After"))
	switch {
	case a.status == tooMany && err == nil:
		return time.Duration(seconds) * time.Second, true
	case a.status == tooMany, a.status == http.StatusForbidden:
		return defaultQuota.window + time.Second, true
	}
	return 0, false
}

// usable reports whether the key's limit can be checked on an API. If it cannot, the row
// says why.
func (s *session) usable(id, base string) bool {
	reason := s.quota.reason()
	if s.cached[base] {
		reason = "the API caches the authorizer's results: see the row on counting"
	}
	if reason != "" {
		s.row(id, skip(reason))
	}
	return reason == ""
}

// callAgain waits for a denial's Retry-After, and calls again.
func (s *session) callAgain(ctx context.Context) {
	s.used = s.quota.requests // still used up
	denied := s.withKey(ctx, s.rest)
	if denied.status == http.StatusOK { // the window has passed
		denied, _ = s.useUp(ctx, "rest-again", s.rest)
	}
	seconds, err := strconv.Atoi(denied.header.Get("Retry-After"))
	wait := time.Duration(seconds) * time.Second
	if denied.status != tooMany || err != nil || wait > maxWindow {
		s.row("rest-again", skip("there was no denial with a Retry-After of at most a minute"))
		return
	}
	s.sleep(ctx, wait)
	s.row("rest-again", s.withKey(ctx, s.rest).is(http.StatusOK))
}

// useUp makes calls with the key until one is denied. It returns the denial, or the last
// answer if no call was denied.
func (s *session) useUp(ctx context.Context, id, base string) (last answer, usable bool) {
	if !s.usable(id, base) {
		return answer{}, false
	}
	for range burstTries {
		s.makeRoom(ctx, s.quota.requests)
		began := s.now()
		last = s.burst(ctx, s.quota.requests+1, func() answer { return s.withKey(ctx, base) })
		if last.err != nil || last.status != http.StatusOK || s.now().Sub(began) < s.quota.window {
			break // else the calls took longer than the window
		}
	}
	return last, true
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
