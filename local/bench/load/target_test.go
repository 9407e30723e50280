//go:build unix

package main

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"tidegate/internal/limiter"
)

const overBody = `{"type":"https://iana.org/assignments/http-problem-types#quota-exceeded"}`

// modelTarget is a target that limits by the model. If open, it does not limit.
type modelTarget struct {
	mu     sync.Mutex
	model  limiter.Model
	limit  limiter.Limit
	open   bool
	calls  atomic.Int64
	called func() // runs at each call of the load; nil does nothing
}

func (g *modelTarget) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if g.calls.Add(1) > 1 && g.called != nil { // the first is of probe
		g.called()
	}
	if r.Header.Get("x-api-key") != "good" {
		w.WriteHeader(http.StatusUnauthorized)
		return
	}
	w.Header().Set("RateLimit-Policy", `"10 per 2 seconds";q=10;w=2`)
	g.mu.Lock()
	decision, _ := g.model.Take(time.Now(), []limiter.Limit{g.limit}, 1) // a cost of 1 is in range
	g.mu.Unlock()
	if !decision.Allowed && !g.open {
		w.WriteHeader(http.StatusTooManyRequests)
		_, _ = io.WriteString(w, overBody)
	}
}

func startModelTarget(t *testing.T, g *modelTarget) []string {
	t.Helper()
	g.limit = per(10, 2*time.Second)
	s := httptest.NewServer(g)
	t.Cleanup(s.Close)
	return []string{"-target", s.URL, "-key", "good", "-rate", "40", "-duration", "1s"}
}

// A target that keeps its limit passes. A target that does not fails, in the output and
// the figures.
func TestVerdictOnTarget(t *testing.T) {
	for name, c := range map[string]struct {
		open bool
		code int
		want string
	}{
		"exact": {false, 0, "No rolling window was above its limit"},
		"open":  {true, 1, "BROKEN: 1 of 1 limits of callers had a rolling window above the limit"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			figures := filepath.Join(t.TempDir(), "load.json")
			flags := append(startModelTarget(t, &modelTarget{open: c.open}), "-json", figures)
			var out, errOut bytes.Buffer
			if code := run(t.Context(), flags, &out, &errOut); code != c.code ||
				!strings.Contains(out.String(), c.want) {
				t.Fatalf("got exit status %d, want %d and %q:\n%s%s", code, c.code, c.want, &out, &errOut)
			}
			text, err := os.ReadFile(figures)
			if err != nil {
				t.Fatal(err)
			}
			var r result
			if err := json.Unmarshal(text, &r); err != nil || r.Proof.holds() == c.open || r.Rate != 40 ||
				r.Calls != 40 {
				t.Errorf("got %+v, %v, want 40 calls and a proof that holds: %t", r, err, !c.open)
			}
		})
	}
}

// With -target the script needs no program but go and a few of every system: no Valkey, no
// Node.js and no C compiler.
func TestScriptBuildsOnlyTheToolForTarget(t *testing.T) {
	path := t.TempDir()
	for _, name := range []string{"go", "sh", "awk", "dirname"} {
		program, err := exec.LookPath(name)
		if err != nil {
			t.Fatal(err)
		}
		if err := os.Symlink(program, filepath.Join(path, name)); err != nil {
			t.Fatal(err)
		}
	}
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
	defer cancel()
	cmd := exec.CommandContext(ctx, "../../../scripts/load", startModelTarget(t, &modelTarget{})...)
	cmd.Env = append(os.Environ(), "PATH="+path)
	out, err := cmd.CombinedOutput()
	if err != nil || !bytes.Contains(out, []byte("No rolling window was above its limit")) {
		t.Errorf("%v:\n%s", err, out)
	}
}

// A key that the target refuses ends the program before any load.
func TestTargetThatRefusesTheKey(t *testing.T) {
	g := &modelTarget{}
	flags := startModelTarget(t, g)
	flags[3] = "tg_other"
	var out, errOut bytes.Buffer
	if code := run(t.Context(), flags, &out, &errOut); code != 1 ||
		!strings.Contains(errOut.String(), "answers 401 to key 1") {
		t.Errorf("got exit status %d, want 1 and an error on key 1: %s", code, &errOut)
	}
	if strings.Contains(errOut.String(), "tg_other") || g.calls.Load() != 1 {
		t.Errorf("got %d calls, want 1, and no API key in: %s", g.calls.Load(), &errOut)
	}
}

// Ctrl-C ends a long load at once, with a result so far.
func TestInterrupted(t *testing.T) {
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	flags := append(startModelTarget(t, &modelTarget{called: stop}), "-duration", "1h")
	var out, errOut bytes.Buffer
	if code := run(ctx, flags, &out, &errOut); code != 0 || !strings.Contains(out.String(), ", interrupted") {
		t.Errorf("got exit status %d, want 0 and a result:\n%s%s", code, &out, &errOut)
	}
}

// read returns the kind of an answer, for both kinds of API.
func TestRead(t *testing.T) {
	for _, c := range []struct {
		status int
		body   string
		http   bool
		want   kind
	}{
		{200, "", false, admitted},
		{204, "", true, admitted},
		{200, `{"authorizer":{"degraded":true}}`, false, undecided},
		{429, overBody, false, denied},
		{429, `{"type":"about:blank"}`, false, undecided},
		{403, "", true, denied},
		{403, "", false, failed},
		{401, "", false, unauthorized},
		{500, "", false, failed},
		{302, "", false, failed},
	} {
		if got := (&target{http: c.http}).read(answer{status: c.status,
			body: []byte(c.body)}); got != c.want {
			t.Errorf("%d %s: got %v, want %v", c.status, c.body, got, c.want)
		}
	}
}

// A registered caller may be admitted or denied. An unregistered caller may only be
// refused.
func TestExpects(t *testing.T) {
	target := &target{callers: []caller{{}, {unregistered: true}}}
	for _, c := range []struct {
		caller int32
		kind   kind
		http   bool
		want   bool
	}{
		{0, admitted, false, true}, {0, denied, false, true}, {0, unauthorized, false, false},
		{0, undecided, false, false}, {0, broken, false, false},
		{1, unauthorized, false, true}, {1, admitted, false, false}, {1, denied, false, false},
		{1, denied, true, true},
	} {
		target.http = c.http
		if got := target.expects(outcome{caller: c.caller, kind: c.kind}); got != c.want {
			t.Errorf("%+v: got %t", c, got)
		}
	}
}
