//go:build unix

package main

import (
	"bytes"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"tidegate/internal/limiter"
	"tidegate/internal/limits"
	"tidegate/internal/testing/rolling"
)

// startTarget starts a target that limits by the model. If open, it does not limit.
func startTarget(t *testing.T, open bool) []string {
	t.Helper()
	var mu sync.Mutex
	model := limiter.Model{}
	step, err := limiter.NewStep(
		[]limiter.Applied{{Limit: per(10, 2*time.Second).Step(), Count: "good", Cost: 1}})
	if err != nil {
		t.Fatal(err)
	}
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("X-Api-Key") != "good" {
			w.WriteHeader(http.StatusUnauthorized)
			return
		}
		w.Header().Set("RateLimit-Policy", `"10 per 2 seconds";q=10;w=2`)
		mu.Lock()
		defer mu.Unlock()
		decision, _ := model.Take(step, time.Now()) // a model's reply fits its step
		if !decision.Allowed && !open {
			w.WriteHeader(http.StatusTooManyRequests)
			_, _ = io.WriteString(w, `{"type":"about:quota-exceeded"}`)
		}
	}))
	t.Cleanup(s.Close)
	return []string{"-target", s.URL, "-key", "good", "-rate", "40", "-duration", "1s"}
}

// A target that keeps its limit passes. A target that does not fails.
func TestVerdictOnTarget(t *testing.T) {
	for name, c := range map[string]struct {
		open bool
		more []string
		code int
		want string
	}{
		"exact":       {false, nil, 0, "No rolling window was above its limit"},
		"boundary":    {false, []string{"-scenario", "boundary", "-duration", "3s"}, 0, "No rolling window"},
		"open":        {true, nil, 1, "BROKEN: 1 of 1 limits of callers had a rolling window above"},
		"refused key": {false, []string{"-key", "tg_other"}, 1, "answers 401 to key 2"},
		"no scenario": {false, []string{"-scenario", "storm"}, 2, "-scenario storm: must be steady, hot"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var out bytes.Buffer
			code := run(t.Context(), append(startTarget(t, c.open), c.more...), &out, &out)
			if text := out.String(); code != c.code || !strings.Contains(text, c.want) ||
				strings.Contains(text, "tg_other") {
				t.Errorf("got exit status %d, want %d, %q and no key:\n%s", code, c.code, c.want, &out)
			}
		})
	}
}

// at returns a call that was decided between two times in milliseconds.
func at(first, last int, k kind) call {
	const ms = time.Millisecond
	return call{0, k, rolling.Span{First: time.Duration(first) * ms, Last: time.Duration(last) * ms}}
}

// Only windows that are certainly above the limit, and denials while every limit certainly
// had room, contradict the limits.
func TestProof(t *testing.T) {
	callers := []caller{{name: "key 1", plan: "p", limits: []limits.Limit{per(2, time.Second)}}}
	first, second := at(0, 10, admitted), at(400, 410, admitted)
	for name, c := range map[string]struct {
		made            []call
		over, unfounded int
	}{
		"three in a second":          {[]call{first, second, at(900, 910, admitted)}, 1, 0},
		"perhaps more than a second": {[]call{first, second, at(990, 1010, admitted)}, 0, 0},
		"denied with room":           {[]call{first, at(500, 510, denied)}, 0, 1},
		"denied while perhaps full":  {[]call{first, at(400, 410, failed), at(500, 510, denied)}, 0, 0},
		"denied while full":          {[]call{first, second, at(500, 510, denied)}, 0, 0},
		"denied after the window":    {[]call{first, first, at(1100, 1110, denied)}, 0, 1},
	} {
		p := prove(callers, c.made)
		if p.windows[0].over != c.over || p.unfounded != c.unfounded ||
			p.holds() != (c.over+c.unfounded == 0) {
			t.Errorf("%s: got %d windows over and %d denials unfounded, want %d and %d", name,
				p.windows[0].over, p.unfounded, c.over, c.unfounded)
		}
	}
}

// A stall shows in the latency of every call that was due meanwhile, since it counts from
// when a call was due.
func TestStallShows(t *testing.T) {
	var mu sync.Mutex // one call at a time
	first := true
	s := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {
		mu.Lock()
		defer mu.Unlock()
		if first {
			first = false
			time.Sleep(time.Second)
		}
	}))
	defer s.Close()
	l := &load{options: options{rate: 100, duration: 2 * time.Second}, url: s.URL, callers: make([]caller, 1),
		codes: map[uint16]int{}, workers: 1, began: time.Now()}
	l.pick = evenly
	l.attack(t.Context(), constant(100), io.Discard)
	due, sent := l.due.Quantile(.75), l.sent.Quantile(.75)
	if len(l.made) != 200 || due < 300*time.Millisecond || sent > due/2 {
		t.Errorf("got %d calls, p75 %s from when due and %s from when sent, want 200 and at least 300ms",
			len(l.made), due, sent)
	}
}
