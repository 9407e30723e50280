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
		if got := (answer{header: h}).readable(); got.verdict != c.want {
			t.Errorf("%+v: got %+v", c, got)
		}
	}
}

// Every row has an id of its own, of a part or by hand, and a text in each column.
func TestRows(t *testing.T) {
	known := map[string]bool{}
	for _, r := range rows {
		for _, text := range []string{r.id, r.what, r.source, r.how, r.expected, r.advice} {
			if text == "" || strings.HasPrefix(text, "|") || known[r.id] {
				t.Errorf("got %+v, want an id of its own and a text in each column", r)
			}
		}
		known[r.id] = true
		name, _, _ := strings.Cut(r.id, "-")
		if name != "hand" && !slices.ContainsFunc(parts, func(p part) bool { return p.name == name }) {
			t.Errorf("%s: want the name of a part, or hand", r.id)
		}
	}
	var out, errOut bytes.Buffer
	if code := Run(t.Context(), []string{"-list"}, environment(), &out, &errOut); code != allAsExpected ||
		strings.Count(out.String(), "\n\n") != len(rows) || errOut.Len() > 0 {
		t.Errorf("-list: got exit status %d, want %d and all rows: %s%s", code, allAsExpected, &out, &errOut)
	}
}

// Rows of an address that is not given are skipped with the reason, and so are those that
// an earlier row's difference leaves without an answer.
func TestSkips(t *testing.T) {
	server := httptest.NewServer(http.NotFoundHandler())
	defer server.Close()
	s := newSession(options{http: server.URL, key: "k"})
	s.sleep = func(context.Context, time.Duration) {}
	reasons := map[string]string{}
	for _, row := range s.collect(t.Context(), io.Discard).Rows {
		reasons[row.ID] = row.Reason
	}
	for _, r := range rows {
		if _, judged := s.outcomes[r.id]; !judged && reasons[r.id] == "" {
			t.Errorf("%s: want a reason", r.id)
		}
	}
	for id := range s.outcomes {
		if !slices.ContainsFunc(rows, func(r row) bool { return r.id == id }) {
			t.Errorf("want row %s in rows.md", id)
		}
	}
	for id, want := range map[string]string{
		"rest-429": "-rest is not set", "dash-401": "-dashboard is not set", "edit-acts": "-rest is not set",
		"http-429-body": notReached,
		"hand-cost":     byHand} {
		if !strings.Contains(reasons[id], want) {
			t.Errorf("%s: got %q, want %q", id, reasons[id], want)
		}
	}
	const tooLarge = "the key's limit is 1000 per 10s"
	if got := (quota{1000, 10 * time.Second}).reason(); !strings.Contains(got, tooLarge) {
		t.Errorf("got %q, want %q", got, tooLarge)
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
			s := newSession(options{rest: server.URL, dashboard: server.URL, token: "t"})
			s.keyID = "key-id"
			s.editLimits(ctx)
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
		json: file})
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
	code := verify(ctx, newSession(options{rest: "http://127.0.0.1:1"}), &out, &progress)
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

// Bad usage gives exit status 2 and an error that names the flag, without a table.
func TestBadUsage(t *testing.T) {
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

// The URLs without a flag come from the stack.
func TestOutputs(t *testing.T) {
	listed := `[{"OutputKey": "ExampleRestUrl", "OutputValue": "https://r.example/prod/"},
		{"OutputKey": "ExampleHttpUrl", "OutputValue": "https://h.example"}, {"OutputKey": "DashboardUrl", "OutputValue": "https://d.example/"}]`
	aws := func(_ context.Context, args ...string) ([]byte, error) {
		if args[0] != "cloudformation" || args[3] != "tidegate-dev" {
			return nil, errors.New("another command")
		}
		return []byte(listed), nil
	}
	const own = "https://own.example"
	for given, want := range map[string]string{"": "https://h.example", own + "/": own} {
		o, err := parseOptions([]string{"-stack", "tidegate-dev", "-key", "k", "-http", given}, environment(),
			io.Discard)
		if err == nil {
			err = o.complete(t.Context(), aws)
		}
		if err != nil || o.rest != "https://r.example/prod" || o.http != want ||
			o.dashboard != "https://d.example" {
			t.Errorf("got %+v, %v", o, err)
		}
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
