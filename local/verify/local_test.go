//go:build unix

package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"tidegate/functions/admin/auth/token"
	"tidegate/internal/apikey"
	"tidegate/internal/audit"
	"tidegate/internal/store"
	"tidegate/internal/testing/built"
	"tidegate/internal/testing/tier"
	"tidegate/internal/testing/valkeytest"
	"tidegate/internal/testing/waiting"
)

const localPepper = "a pepper of at least thirty-two bytes, for tests"

// programs returns a folder with the built functions and the program of ./scripts/run.
var programs = sync.OnceValues(func() (string, error) {
	dir, err := os.MkdirTemp("", "verify")
	if err != nil {
		return "", err
	}
	return dir, built.Link(context.Background(), dir, map[string]string{
		"check/bootstrap": "tidegate/functions/check", "admin/bootstrap": "tidegate/functions/admin",
		"local": "tidegate/local",
	})
})

func TestMain(m *testing.M) {
	code := m.Run()
	if started.Load() {
		dir, _ := programs()
		_ = os.RemoveAll(dir)
	}
	os.Exit(code)
}

var started atomic.Bool

// site has the addresses and keys of a running program of ./scripts/run.
type site struct {
	REST  string            `json:"rest"`
	HTTP  string            `json:"http"`
	Admin string            `json:"admin"`
	Keys  map[string]string `json:"keys"`
	token string
}

// startLocal runs the gateways on a new Valkey server until the test ends.
func startLocal(t *testing.T, flags ...string) site {
	t.Helper()
	tier.Two(t, "waits for windows of 10 s")
	valkey := valkeytest.Start(t)
	g := &gateways{}
	s, err := g.start(t, append(flags, "-valkey", valkey)...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { g.stop(t) })
	s.token = machineToken(t, valkey)
	return s
}

// gateways is a running program of ./scripts/run.
type gateways struct {
	process *os.Process
	log     bytes.Buffer  // complete when ended is closed
	ended   chan struct{} // closed when the process ends
	err     error         // of the process, when ended is closed
}

// start starts the program. It returns when the program is ready, or an error if it ends
// before.
func (g *gateways) start(t *testing.T, flags ...string) (site, error) {
	t.Helper()
	started.Store(true)
	dir, err := programs()
	if err != nil {
		return site{}, err
	}
	ready := filepath.Join(t.TempDir(), "ready.json")
	cmd := exec.Command(filepath.Join(dir, "local"), append(flags, "-bin", dir, "-ready-file", ready,
		"-rest", "127.0.0.1:0", "-http", "127.0.0.1:0", "-admin", "127.0.0.1:0")...)
	cmd.Env = append(os.Environ(), "KEY_PEPPER="+localPepper)
	cmd.Stdout, cmd.Stderr = &g.log, &g.log
	if err := cmd.Start(); err != nil {
		return site{}, err
	}
	g.process, g.ended = cmd.Process, make(chan struct{})
	go func() {
		g.err = cmd.Wait()
		close(g.ended)
	}()
	var s site
	waiting.Until(t, "the ready file", func() bool {
		text, err := os.ReadFile(ready)
		return g.hasEnded() || err == nil && json.Unmarshal(text, &s) == nil
	})
	if g.hasEnded() {
		return site{}, fmt.Errorf("the gateways ended before they were ready: %w\n%s", g.err, g.log.Bytes())
	}
	return s, nil
}

func (g *gateways) hasEnded() bool {
	select {
	case <-g.ended:
		return true
	default:
		return false
	}
}

func (g *gateways) stop(t *testing.T) {
	_ = g.process.Signal(syscall.SIGTERM)
	kill := time.AfterFunc(waiting.Timeout, func() { _ = g.process.Kill() })
	defer kill.Stop()
	<-g.ended
	if g.err != nil {
		t.Errorf("the gateways ended with %v\n%s", g.err, g.log.Bytes())
	}
}

// start returns at once, with the program's output, if the program ends before it is
// ready.
func TestGatewaysThatEnd(t *testing.T) {
	t.Parallel()
	g := &gateways{}
	const why = "exit status 2\nrun: -http-deny 429: must be"
	if _, err := g.start(t, "-http-deny", "429"); err == nil || !strings.Contains(err.Error(), why) {
		t.Errorf("got %v, want %q", err, why)
	}
}

func machineToken(t *testing.T, url string) string {
	t.Helper()
	client, err := store.Open(t.Context(), url,
		store.Options{Dial: waiting.Timeout, Write: waiting.Timeout})
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	tokens := token.NewStore(client, apikey.Pepper(localPepper))
	_, secret, err := tokens.Create(t.Context(), token.New{
		Name: "verify", Scope: token.Write, Expires: time.Now().Add(time.Hour),
		By: audit.Actor{Kind: "system", Name: "test"},
	})
	if err != nil {
		t.Fatal(err)
	}
	return secret.Reveal()
}

// run runs verify on the addresses of the REST API, the HTTP API and the dashboard.
func (s site) run(t *testing.T, addresses [3]string) (out string, r *report, code int) {
	t.Helper()
	file := filepath.Join(t.TempDir(), "report.json")
	var table, progress bytes.Buffer
	code = run(t.Context(), []string{"-rest", addresses[0], "-http", addresses[1], "-dashboard", addresses[2],
		"-json", file},
		func(name string) string {
			return map[string]string{keyVariable: s.Keys["free"], tokenVariable: s.token}[name]
		}, &table, &progress)
	if code == badUsage {
		t.Fatal(progress.String())
	}
	t.Logf("%s%s", &progress, &table)
	return table.String(), readReport(t, file), code
}

// notLocal reports whether a row needs AWS or a person.
func notLocal(id string) bool {
	p := checks[id].probe
	return p == nil || p.needs&(needThrottle|needAWS) != 0
}

// The gateways of ./scripts/run, with the built functions behind them, meet this
// repository's expectations of AWS.
func TestLocalGateways(t *testing.T) {
	t.Parallel()
	s := startLocal(t)
	_, r, code := s.run(t, [3]string{s.REST, s.HTTP, s.Admin})
	if code != allAsExpected {
		t.Errorf("got exit status %d, %q differ, want none", code, r.with(differs))
	}
	for _, row := range r.Rows {
		true429 := strings.HasPrefix(row.ID, "http-429-")
		if skips := notLocal(row.ID) || true429; (row.Verdict == skipped) != skips {
			t.Errorf("%s: got %s %s, want skipped: %t", row.ID, row.Verdict, row.Reason, skips)
		}
	}
}

// With CORS off, the rows about browsers differ, and no others.
func TestLocalGatewaysWithoutCORS(t *testing.T) {
	t.Parallel()
	s := startLocal(t, "-cors-origin", "none", "-http-deny", "context")
	out, r, _ := s.run(t, [3]string{s.REST, s.HTTP, s.Admin})
	want := []string{
		"rest-401-cors", "rest-preflight", "rest-429-cors", "http-preflight", "http-cors", "http-429-cors",
	}
	if got := r.with(differs); !slices.Equal(got, want) {
		t.Errorf("got differences %q, want %q\n%s", got, want, out)
	}
}

// proxy returns the URL of a proxy to an address that changes the answers.
func proxy(t *testing.T, address string, change func(*http.Response)) string {
	t.Helper()
	target, err := url.Parse(address)
	if err != nil {
		t.Fatal(err)
	}
	p := &httputil.ReverseProxy{
		Rewrite:        func(r *httputil.ProxyRequest) { r.SetURL(target) },
		ModifyResponse: func(r *http.Response) error { change(r); return nil },
	}
	server := httptest.NewServer(p)
	t.Cleanup(server.Close)
	return server.URL
}

// Three faults in front of the built functions: the 429 loses a header, denials of the
// HTTP API lose their type, and cookies are not Secure. Only the rows on them differ.
func TestLocalGatewaysWithFaults(t *testing.T) {
	t.Parallel()
	s := startLocal(t, "-http-deny", "context")
	rest := proxy(t, s.REST, func(r *http.Response) {
		if r.StatusCode == tooMany {
			r.Header.Del("RateLimit")
		}
	})
	api := proxy(t, s.HTTP, func(r *http.Response) {
		if r.StatusCode == tooMany {
			r.Header.Set("Content-Type", "text/plain")
		}
	})
	dashboard := proxy(t, s.Admin, func(r *http.Response) {
		for i, cookie := range r.Header["Set-Cookie"] {
			r.Header["Set-Cookie"][i] = strings.Replace(cookie, "; Secure", "", 1)
		}
	})
	out, r, code := s.run(t, [3]string{rest, api, dashboard})
	if want := []string{"rest-429-ratelimit", "http-429-body", "dash-cookie"}; code != somethingDiffers ||
		!slices.Equal(r.with(differs), want) {
		t.Errorf("got exit status %d, differences %q, want %q\n%s", code, r.with(differs), want, out)
	}
	for _, row := range r.Rows {
		if (row.Verdict == skipped) != notLocal(row.ID) {
			t.Errorf("%s: got %s %s, want skipped: %t", row.ID, row.Verdict, row.Reason, notLocal(row.ID))
		}
	}
}
