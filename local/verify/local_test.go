//go:build unix

package verify

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"tidegate/functions/admin/auth/token"
	"tidegate/internal/apikey"
	"tidegate/internal/policy"
	"tidegate/internal/testing/built"
	"tidegate/internal/testing/registrytest"
	"tidegate/internal/testing/storetest"
	"tidegate/internal/testing/tier"
	"tidegate/internal/testing/valkeytest"
	"tidegate/internal/testing/waiting"
	"tidegate/local/process"
)

const localPepper = "a pepper of at least thirty-two bytes, for tests"

// programs are the built functions and the program of ./scripts/run.
var programs = map[string]string{
	"check/bootstrap": "tidegate/functions/check", "admin/bootstrap": "tidegate/functions/admin",
	"tidegate": "tidegate/local",
}

// site has the addresses of a running program of ./scripts/run.
type site struct {
	REST  string `json:"rest"`
	HTTP  string `json:"http"`
	Admin string `json:"admin"`
	key   string // of a plan of 5 per second
	token string
}

// startLocal runs the gateways on a new Valkey server until the test ends.
func startLocal(t *testing.T, flags ...string) *site {
	t.Helper()
	tier.Two(t, "waits for windows of 10 s")
	valkey, dir, data := valkeytest.Start(t), built.Folder(t, programs), t.TempDir()
	ready := filepath.Join(t.TempDir(), "ready.json")
	flags = append([]string{"run", "-bin", dir, "-ready-file", ready, "-rest", "127.0.0.1:0",
		"-http", "127.0.0.1:0", "-admin", "127.0.0.1:0", "-valkey", valkey, "-data", data}, flags...)
	cmd := exec.Command(filepath.Join(dir, "tidegate"), flags...)
	cmd.Env = append(os.Environ(), "KEY_PEPPER="+localPepper)
	var log waiting.Buffer
	cmd.Stdout, cmd.Stderr = &log, &log
	p, err := process.Start(cmd)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		p.Terminate(waiting.Timeout)
		if p.Kill(); p.Err() != nil {
			t.Errorf("the gateways ended with %v\n%s", p.Err(), log.String())
		}
	})
	var s site
	waiting.Until(t, "the ready file", func() bool {
		select {
		case <-p.Done():
			t.Fatal("the gateways ended before they were ready")
		default:
		}
		text, err := os.ReadFile(ready)
		return err == nil && json.Unmarshal(text, &s) == nil
	})
	s.prepare(t, valkey, data)
	return &s
}

// prepare creates the key and a machine token.
func (s *site) prepare(t *testing.T, url, data string) {
	t.Helper()
	client := storetest.Connect(t, url)
	keys := registrytest.Open(t, client, data, apikey.Pepper(localPepper))
	_, secret, err := token.NewStore(keys, client, apikey.Pepper(localPepper)).Create(t.Context(), token.New{
		Name: "verify", Scope: token.Write, Expires: time.Now().Add(time.Hour), By: registrytest.Edit.By,
	})
	if err != nil {
		t.Fatal(err)
	}
	s.token = secret.Reveal()
	registrytest.Save(t, keys, registrytest.Edit, func(set *policy.Set) {
		set.Plans = append(set.Plans, policy.Plan{Name: "second",
			Limits: registrytest.Limits(fmt.Sprint(minRequests, " per second"))})
	})
	_, key, err := keys.Create(t.Context(), policy.NewKey{Name: "verify", Env: "test", Plan: "second"},
		registrytest.Edit)
	if err != nil {
		t.Fatal(err)
	}
	s.key = key.Reveal()
}

// run runs verify on the addresses of the REST API, the HTTP API and the dashboard.
func (s *site) run(t *testing.T, addresses [3]string,
	flags ...string) (progress string, r *report, code int) {
	t.Helper()
	file := filepath.Join(t.TempDir(), "report.json")
	var table, plan bytes.Buffer
	flags = append(flags, "-rest", addresses[0], "-http", addresses[1], "-dashboard", addresses[2],
		"-json", file)
	code = Run(t.Context(), flags,
		func(name string) string {
			return map[string]string{keyVariable: s.key, tokenVariable: s.token}[name]
		}, &table, &plan)
	if code == 2 {
		t.Fatal(plan.String())
	}
	t.Logf("%s%s", &plan, &table)
	return plan.String(), readReport(t, file), code
}

// notLocal reports whether a row needs a person.
func notLocal(id string) bool { return strings.HasPrefix(id, "hand-") }

// proxy returns the URL of a proxy to an address that notes the calls which are no GET, and
// changes the answers.
func proxy(t *testing.T, address string, note func(string), change func(*http.Response)) string {
	t.Helper()
	target, err := url.Parse(address)
	if err != nil {
		t.Fatal(err)
	}
	server := httptest.NewServer(&httputil.ReverseProxy{
		Rewrite: func(r *httputil.ProxyRequest) {
			r.SetURL(target)
			if r.In.Method != http.MethodGet {
				note(r.In.Method + " " + path.Base(r.In.URL.Path))
			}
		},
		ModifyResponse: func(r *http.Response) error { change(r); return nil },
	})
	t.Cleanup(server.Close)
	return server.URL
}

// The gateways of ./scripts/run, with the built functions behind them, meet this
// repository's expectations of AWS. verify makes at most as many calls as it announces,
// and changes only an override of the key.
func TestLocalGateways(t *testing.T) {
	t.Parallel()
	s := startLocal(t)
	var changes []string // no two calls other than GET are made at the same time
	note := func(call string) { changes = append(changes, call) }
	same := func(*http.Response) {}
	progress, r, code := s.run(t, [3]string{proxy(t, s.REST, note, same), proxy(t, s.HTTP, note, same),
		proxy(t, s.Admin, note, same)})
	if code != allAsExpected {
		t.Errorf("got exit status %d, %q differ, want none", code, r.with(differs))
	}
	for _, row := range r.Rows {
		true429 := strings.HasPrefix(row.ID, "http-429-")
		if skips := notLocal(row.ID) || true429; (row.Verdict == skipped) != skips {
			t.Errorf("%s: got %s %s, want skipped: %t", row.ID, row.Verdict, row.Reason, skips)
		}
	}
	var most int64
	if _, err := fmt.Sscanf(progress, "verify makes at most %d", &most); err != nil || r.Calls > most ||
		r.Calls == 0 {
		t.Errorf("got %d calls, announced at most %d, %v", r.Calls, most, err)
	}
	if want := []string{"OPTIONS verify", "OPTIONS verify", "PUT override",
		"DELETE override"}; !slices.Equal(changes, want) {
		t.Errorf("got %q, want %q", changes, want)
	}
}

// On an own path, method and body the same rows hold but those on other paths, which are
// skipped with the reason.
func TestLocalGatewaysOnOwnPath(t *testing.T) {
	t.Parallel()
	s := startLocal(t)
	var lock sync.Mutex
	calls := map[string]bool{}
	note := func(call string) {
		lock.Lock()
		defer lock.Unlock()
		calls[call] = true
	}
	same := func(*http.Response) {}
	progress, r, code := s.run(t,
		[3]string{proxy(t, s.REST, note, same), proxy(t, s.HTTP, note, same), s.Admin},
		"-path", "/shop/orders", "-method", "POST", "-body", `{"item":1}`)
	if code != allAsExpected {
		t.Errorf("got exit status %d, %q differ, want none", code, r.with(differs))
	}
	for _, row := range r.Rows {
		onOtherPaths := []string{"rest-path", "rest-long-path", "rest-long-arn", "http-path"}
		skips := notLocal(row.ID) || strings.HasPrefix(row.ID, "http-429-") ||
			slices.Contains(onOtherPaths, row.ID)
		if (row.Verdict == skipped) != skips {
			t.Errorf("%s: got %s %s, want skipped: %t", row.ID, row.Verdict, row.Reason, skips)
		}
	}
	if !calls["POST orders"] || calls["POST verify"] || len(calls) != 2 ||
		!strings.Contains(progress, "Calls with the key reach the backend of POST /shop/orders") {
		t.Errorf("got calls %v, want POST and OPTIONS on orders, announced in\n%s", calls, progress)
	}
}

// Without CORS and with three faults in front of the built functions only the rows on them
// differ: the 429 loses a header, denials of the HTTP API lose their type, and cookies are
// not Secure.
func TestLocalGatewaysWithFaults(t *testing.T) {
	t.Parallel()
	s := startLocal(t, "-cors-origin", "none", "-http-deny", "context")
	quiet := func(string) {}
	rest := proxy(t, s.REST, quiet, func(r *http.Response) {
		if r.StatusCode == tooMany {
			r.Header.Del("RateLimit")
		}
	})
	api := proxy(t, s.HTTP, quiet, func(r *http.Response) {
		if r.StatusCode == tooMany {
			r.Header.Set("Content-Type", "text/plain")
		}
	})
	dashboard := proxy(t, s.Admin, quiet, func(r *http.Response) {
		for i, cookie := range r.Header["Set-Cookie"] {
			r.Header["Set-Cookie"][i] = strings.Replace(cookie, "; Secure", "", 1)
		}
	})
	_, r, code := s.run(t, [3]string{rest, api, dashboard})
	want := []string{
		"rest-401-cors", "rest-preflight", "rest-429-fields", "rest-429-cors", "http-preflight",
		"http-cors", "http-429-body", "http-429-cors", "dash-cookie",
	}
	if code != somethingDiffers || !slices.Equal(r.with(differs), want) {
		t.Errorf("got exit status %d, differences %q, want %q", code, r.with(differs), want)
	}
	for _, row := range r.Rows {
		if (row.Verdict == skipped) != notLocal(row.ID) {
			t.Errorf("%s: got %s %s, want skipped: %t", row.ID, row.Verdict, row.Reason, notLocal(row.ID))
		}
	}
}
