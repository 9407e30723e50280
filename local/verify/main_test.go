package verify

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"
)

func readReport(t *testing.T, file string) *report {
	t.Helper()
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	var r report
	if err := json.Unmarshal(text, &r); err != nil {
		t.Fatal(err)
	}
	return &r
}

// with returns the ids of rows with a verdict.
func (r *report) with(v verdict) []string {
	var ids []string
	for _, row := range r.Rows {
		if row.Verdict == v {
			ids = append(ids, row.ID)
		}
	}
	return ids
}

// Every row has a text in each column and an id of its own. It has a probe among probes
// and a check, or neither if a person checks it. Every check has a row.
// A script in a browser can read an answer that exposes the fields to its origin. No
// browser accepts any origin together with credentials.
func TestReadable(t *testing.T) {
	for _, c := range []struct {
		origin, credentials, exposed string
		want                         verdict
	}{
		{"*", "", "Retry-After,RateLimit,RateLimit-Policy", ok},
		{"https://app.example", "true", "ratelimit, ratelimit-policy, retry-after", ok},
		{"*", "true", "Retry-After,RateLimit,RateLimit-Policy", differs},
		{"https://app.example", "true", "Retry-After", differs},
		{"", "", "Retry-After,RateLimit,RateLimit-Policy", differs},
	} {
		h := http.Header{}
		h.Set("Access-Control-Allow-Origin", c.origin)
		h.Set("Access-Control-Allow-Credentials", c.credentials)
		h.Set("Access-Control-Expose-Headers", c.exposed)
		if got := readable(evidence{answers: []answer{{header: h}}}); got.verdict != c.want {
			t.Errorf("%+v: got %+v", c, got)
		}
	}
}

func TestRows(t *testing.T) {
	known := map[string]bool{}
	for _, r := range rows {
		for _, text := range []string{r.id, r.what, r.source, r.how, r.expected, r.advice} {
			if text == "" || strings.HasPrefix(text, "|") || known[r.id] {
				t.Errorf("got %+v, want an id of its own and a text in each column", r)
			}
		}
		known[r.id] = true
		if byHand := strings.HasPrefix(r.id, "hand-"); (r.check == nil) != byHand ||
			slices.Contains(probes, r.probe) == byHand {
			t.Errorf("%s: want a probe and a check, or neither for a row by hand", r.id)
		}
	}
	for id := range checks {
		if !known[id] {
			t.Errorf("want row %s in rows.md", id)
		}
	}
	for _, p := range probes {
		if !slices.ContainsFunc(rows, func(r row) bool { return r.probe == p }) {
			t.Errorf("probe %q: want a row that uses it", p.what)
		}
	}
	var out, errOut bytes.Buffer
	if code := Run(t.Context(), []string{"-list"}, environment(), &out, &errOut); code != allAsExpected ||
		strings.Count(out.String(), "\n\n") != len(rows) || errOut.Len() > 0 {
		t.Errorf("-list: got exit status %d, want %d and all rows: %s%s", code, allAsExpected, &out, &errOut)
	}
}

// A row is skipped with the reason if its needs are not met.
func TestSkips(t *testing.T) {
	s := newSession(options{}, nil)
	for need, reason := range map[need]string{
		needREST: "-rest is not set", needHTTP: "-http is not set", needDashboard: "-dashboard is not set",
		needToken: "-token is not set", needThrottle: "-throttle is not set", needAWS: "the stack is unknown",
		needRESTID: "not a URL of execute-api", needHTTPID: "not a URL of execute-api",
	} {
		if got := s.missing(need); !strings.Contains(got, reason) {
			t.Errorf("got %q, want %q", got, reason)
		}
	}
	const tooLarge = "the key's limit is 1000 per 10s"
	if got := (quota{1000, 10 * time.Second}).reason(); !strings.Contains(got, tooLarge) {
		t.Errorf("got %q, want %q", got, tooLarge)
	}
	e := evidence{answers: []answer{{status: http.StatusForbidden}}}
	if o := onTrue429(retryAfter)(e); o.verdict != skipped ||
		!strings.Contains(o.seen, "HTTP_API_DENY=context") {
		t.Errorf("denials of an HTTP API are 403: got %+v", o)
	}
}

// What commands of the AWS CLI print passes if it is as expected, and else differs.
func TestAWSOutputs(t *testing.T) {
	const header = `"gatewayresponse.header.`
	for id, c := range map[string]struct{ good, bad string }{
		"stack":      {`"UPDATE_COMPLETE"`, `"UPDATE_ROLLBACK_COMPLETE"`},
		"cache-user": {`"active"`, `"modifying"`},
		"pepper":     {`"` + strings.Repeat("aB3d", 16) + `"`, `"{{resolve:secretsmanager:x}}"`},
		"log-key":    {`[["/tidegate/dev/check", "arn:aws:kms:key"]]`, `[["/tidegate/dev/check", null]]`},
		"log-lines": {`["{\"msg\":\"REPORT of nothing\"}"]`,
			`["{\"time\":\"now\",\"type\":\"platform.start\"}"]`},
		"rest-authorizer": {`[{"ttl": 0, "source": "context.accountId"}, {"ttl": 0, "source": ""}]`,
			`[{"ttl": 300, "source": ""}]`},
		"http-authorizer": {`[{"ttl": 0, "source": []}]`, `[{"ttl": 0, "source": ["$request.header.X-Api-Key"]}]`},
		"rest-gateway-response": {`{` + header + `Retry-After": "context.authorizer.retryAfter",` +
			header + `RateLimit": "context.authorizer.rateLimit",` +
			header + `RateLimit-Policy": "context.authorizer.rateLimitPolicy"}`, `{}`},
		"usage-plan": {`["Starting authorizer: a for request: 0-a", "Verifying Usage Plan for request: 0-a"]`,
			`["Verifying Usage Plan for request: 0-a", "Starting authorizer: a for request: 0-a"]`},
		"cache-metric": {`[["clusterId", "tidegate-dev"]]`, `[["CacheName", "tidegate-dev"]]`},
		"alarm":        {`"OK"`, `"ALARM"`},
	} {
		for output, want := range map[string]verdict{c.good: ok, c.bad: differs} {
			if o := checks[id].check(evidence{output: output}); o.verdict != want {
				t.Errorf("%s: got %+v for %s, want %s", id, o, output, want)
			}
		}
	}
}

// The AWS CLI gets commands that only read, with the API's region. A missing log group
// skips its row.
func TestAWSCommands(t *testing.T) {
	ran := 0
	const rest = "https://rest123.execute-api.eu-west-1.amazonaws.com/prod"
	s := newSession(options{stack: "tidegate-dev", rest: rest},
		func(_ context.Context, args ...string) ([]byte, error) {
			ran++
			verb, _, _ := strings.Cut(args[1], "-")
			if !slices.Contains([]string{"describe", "get", "list", "filter"}, verb) ||
				!slices.Equal(args[len(args)-2:], []string{"--region", "eu-west-1"}) {
				t.Errorf("got command aws %q, want one that only reads, in the API's region", args)
			}
			return nil, errors.New("ResourceNotFoundException")
		})
	for _, p := range probes {
		if p.commands > 0 {
			p.run(t.Context(), s)
		}
	}
	if ran < 10 {
		t.Errorf("%d commands ran", ran)
	}
	if e := awsUsagePlan.run(t.Context(), s); !strings.Contains(e.reason, "writes no execution log") {
		t.Errorf("got %+v, want the reason", e)
	}
}

// The override is removed if the call with it fails, and if verify is interrupted during
// this call.
func TestOverrideIsRemoved(t *testing.T) {
	for _, end := range []string{"a failed call", "an interrupt"} {
		t.Run(end, func(t *testing.T) {
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			var mu sync.Mutex
			var edits []string
			server := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
				mu.Lock()
				defer mu.Unlock()
				switch {
				case r.Method != http.MethodGet:
					edits = append(edits, r.Method)
				case r.URL.Path == "/verify" && len(edits) == 1:
					if end == "an interrupt" {
						cancel()
					}
					panic(http.ErrAbortHandler)
				}
			}))
			s := newSession(options{rest: server.URL, dashboard: server.URL, token: "t"}, nil)
			s.keyID = "key-id"
			editLimits(ctx, s)
			server.Close() // waits for the handlers
			if want := []string{http.MethodPut, http.MethodDelete}; !slices.Equal(edits, want) {
				t.Errorf("got edits %q, want %q", edits, want)
			}
		})
	}
}

// Neither the key nor the token is in any output, whatever an API echoes.
func TestSecretsAreNotShown(t *testing.T) {
	const key, token = "tg_live_the-key", "tga_the-token"
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Location", token)
		w.WriteHeader(http.StatusInternalServerError)
		_, _ = io.WriteString(w, key+" "+r.Header.Get("Authorization"))
	}))
	defer server.Close()
	file := filepath.Join(t.TempDir(), "report.json")
	var out, progress bytes.Buffer
	s := newSession(options{rest: server.URL, http: server.URL, dashboard: server.URL, key: key, token: token,
		json: file}, nil)
	s.sleep = func(context.Context, time.Duration) {}
	code := verify(t.Context(), s, &out, &progress)
	written, err := os.ReadFile(file)
	if err != nil || code != somethingDiffers {
		t.Fatalf("exit status %d, %v", code, err)
	}
	for name, shown := range map[string]string{"table": out.String(), "progress": progress.String(),
		"JSON": string(written)} {
		if strings.Contains(shown, key) || strings.Contains(shown, token) {
			t.Errorf("got a secret in the %s:\n%s", name, shown)
		}
	}
	if !strings.Contains(out.String(), "[secret]") {
		t.Errorf("want [secret] in the output, or the test proves nothing:\n%s", &out)
	}
}

// An interrupted run prints no table and does not exit with 0.
func TestInterrupt(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	var out, progress bytes.Buffer
	code := verify(ctx, newSession(options{rest: "http://127.0.0.1:1"}, nil), &out, &progress)
	if code != somethingDiffers || !strings.Contains(progress.String(), "interrupted") || out.Len() > 0 {
		t.Errorf("got exit status %d, want %d: %s%s", code, somethingDiffers, &progress, &out)
	}
}

func environment(pairs ...string) func(string) string {
	return func(name string) string {
		for i := 0; i < len(pairs); i += 2 {
			if pairs[i] == name {
				return pairs[i+1]
			}
		}
		return ""
	}
}

func write(t *testing.T, name, text string, mode os.FileMode) string {
	t.Helper()
	file := filepath.Join(t.TempDir(), name)
	if err := os.WriteFile(file, []byte(text), mode); err != nil {
		t.Fatal(err)
	}
	return file
}

// Bad usage gives exit status 2 and an error that names the flag, without a table.
func TestBadUsage(t *testing.T) {
	two := write(t, "two.json", `{"a": {}, "b": {}}`, 0o600)
	for _, c := range []struct {
		name, want string
		flags      []string
	}{
		{"nothing", "no URL to check", nil},
		{"an unknown flag", "-wrong", []string{"-wrong"}},
		{"an argument", `"x"`, []string{"x"}},
		{"no key", "-key is missing", []string{"-rest", "https://api.example"}},
		{"no scheme", "-rest: must be a URL", []string{"-rest", "api.example", "-key", "k"}},
		{"a query", "-http: must be a URL", []string{"-http", "https://api.example?x", "-key", "k"}},
		{"a user", "-dashboard: must be a URL", []string{"-dashboard", "https://a:b@c.example"}},
		{"a key with a line break", "-key: must be",
			[]string{"-rest", "https://api.example", "-key", "a\nb"}},
		{"a long token", "-token: must be", []string{"-token", strings.Repeat("a", maxSecret+1)}},
		{"a token alone", "-token needs",
			[]string{"-rest", "https://api.example", "-key", "k", "-token", "t"}},
		{"a stack that is a flag", "-stack: must be", []string{"-stack", "--profile"}},
		{"a path without a slash", "-path: must be", []string{"-path", "orders"}},
		{"a host as path", "-path: must be", []string{"-path", "//other.example/a"}},
		{"a line break in the path", "-path: must be", []string{"-path", "/a\nb"}},
		{"a preflight as method", "-method: must be", []string{"-method", "OPTIONS"}},
		{"a body of a GET", "-body: needs -method", []string{"-body", "{}"}},
		{"a body that is no JSON", "-body: must be JSON", []string{"-method", "POST", "-body", "{"}},
		{"no folder", "-json", []string{"-json", "/no/folder/x.json"}},
		{"no outputs", "-outputs", []string{"-outputs", "/no/file"}},
		{"outputs of two stacks", "set -stack to one of them", []string{"-outputs", two}},
	} {
		t.Run(c.name, func(t *testing.T) {
			var out, errOut bytes.Buffer
			code := Run(t.Context(), c.flags, environment(), &out, &errOut)
			if code != 2 || !strings.Contains(errOut.String(), c.want) || out.Len() > 0 {
				t.Errorf("got exit status %d, want %d and %q: %s%s", code, 2, c.want, &errOut, &out)
			}
		})
	}
}

// The URLs without a flag come from the file of cdk deploy. If none has a flag, they can
// come from the stack.
func TestOutputs(t *testing.T) {
	file := write(t, "outputs.json",
		`{"tidegate-dev": {"ExampleRestUrl": "https://r.example/prod/", "ExampleHttpUrl": "https://h.example",
		"DashboardUrl": "https://d.example/", "CacheHost": "x"}}`, 0o600)
	listed := `[{"OutputKey": "ExampleRestUrl", "OutputValue": "https://r.example/prod/"},
		{"OutputKey": "ExampleHttpUrl", "OutputValue": "https://h.example"}, {"OutputKey": "DashboardUrl", "OutputValue": "https://d.example/"}]`
	aws := func(_ context.Context, args ...string) ([]byte, error) {
		if args[0] != "cloudformation" || args[3] != "tidegate-dev" {
			return nil, errors.New("another command")
		}
		return []byte(listed), nil
	}
	for name, flags := range map[string][]string{
		"file": {"-outputs", file, "-key", "k"}, "stack": {"-stack", "tidegate-dev", "-key", "k"},
		"a file, and a URL": {"-outputs", file, "-key", "k", "-http", "https://h.example/"},
	} {
		t.Run(name, func(t *testing.T) {
			o, err := parseOptions(flags, environment(), io.Discard)
			if err == nil {
				err = o.complete(t.Context(), aws)
			}
			if err != nil || o.rest != "https://r.example/prod" || o.http != "https://h.example" ||
				o.dashboard != "https://d.example" ||
				o.stack != "tidegate-dev" {
				t.Errorf("got %+v, %v", o, err)
			}
		})
	}
	o := options{stack: "tidegate-dev", key: "k"}
	if err := o.complete(t.Context(), nil); err == nil ||
		!strings.Contains(err.Error(), "aws, which reads the outputs, is not on PATH") {
		t.Errorf("a stack without URLs and without aws: got %v, want an error on PATH", err)
	}
}

// The secrets can come from the environment. A flag takes precedence.
func TestSecretsFromTheEnvironment(t *testing.T) {
	o, err := parseOptions([]string{"-key", "given"}, environment(keyVariable, "k", tokenVariable, "t"),
		io.Discard)
	if err != nil || o.key != "given" || o.token != "t" {
		t.Errorf("%+v, %v", o, err)
	}
}

// Only loopback addresses and the empty URL are local.
func TestIsLocal(t *testing.T) {
	for text, want := range map[string]bool{
		"http://127.0.0.1:8080": true, "http://localhost:8080": true, "http://[::1]:80": true, "": true,
		"https://api.example.com": false, "http://10.0.0.1": false,
	} {
		if isLocal(text) != want {
			t.Errorf("isLocal(%q): got %t, want %t", text, !want, want)
		}
	}
}
