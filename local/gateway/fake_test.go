package gateway_test

import (
	"context"
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"tidegate/local/lambda"
)

// fake is a function in this process with the same answer to every invocation. It records
// the events.
type fake struct {
	answer string
	err    error
	hang   bool // wait until the context ends

	lock   sync.Mutex
	events [][]byte
}

func (f *fake) Invoke(ctx context.Context, payload []byte) ([]byte, error) {
	f.lock.Lock()
	f.events = append(f.events, payload)
	f.lock.Unlock()
	if f.hang {
		<-ctx.Done()
		return nil, ctx.Err()
	}
	return []byte(f.answer), f.err
}

// event decodes the only event.
func (f *fake) event(t *testing.T, into any) {
	t.Helper()
	f.lock.Lock()
	defer f.lock.Unlock()
	if len(f.events) != 1 {
		t.Fatalf("invoked %d times, want 1", len(f.events))
	}
	if err := json.Unmarshal(f.events[0], into); err != nil {
		t.Fatal(err)
	}
}

func (f *fake) invocations() int {
	f.lock.Lock()
	defer f.lock.Unlock()
	return len(f.events)
}

func reported(message string) error {
	return &lambda.FunctionError{Type: "errorString", Message: message}
}

// policyAnswer is an authorizer's answer with one statement.
func policyAnswer(effect, resource, context string) string {
	return `{"principalId":"key1","policyDocument":{"Version":"2012-10-17","Statement":[{"Action":["execute-api:Invoke"],"Effect":"` + effect +
		`","Resource":["` + resource + `"]}]},"context":` + context + `}`
}

const okAnswer = `{"statusCode":200,"headers":{"Content-Type":"text/plain"},"body":"ok"}`

// noon returns the time of every request.
func noon() time.Time { return time.Date(2026, 5, 4, 12, 0, 0, 0, time.FixedZone("", 7200)) }

type response struct {
	status int
	header http.Header
	body   string
}

// do serves one request in this process.
func do(h http.Handler, r *http.Request) response {
	w := httptest.NewRecorder()
	h.ServeHTTP(w, r)
	body, _ := io.ReadAll(w.Result().Body)
	header := http.Header{} // as a client's net/http reads it
	for name, values := range w.Result().Header {
		for _, value := range values {
			header.Add(name, value)
		}
	}
	return response{w.Code, header, string(body)}
}

// inBubble runs a subtest in which time-outs pass at once.
func inBubble(t *testing.T, name string, test func(*testing.T)) {
	t.Helper()
	t.Run(name, func(t *testing.T) { synctest.Test(t, test) })
}

func get(target string, header ...string) *http.Request {
	return newRequest("GET", target, "", header...)
}

func newRequest(method, target, body string, header ...string) *http.Request {
	r := httptest.NewRequest(method, target, strings.NewReader(body))
	r.Host = "127.0.0.1:8080"
	r.RemoteAddr = "192.0.2.7:5000"
	for i := 0; i < len(header); i += 2 {
		r.Header.Add(header[i], header[i+1])
	}
	return r
}

// integrationCase is an integration's answer and what its caller gets.
type integrationCase struct {
	name   string
	fake   *fake
	status int
	body   string
	header map[string]string
}

func (c integrationCase) check(t *testing.T, api http.Handler) {
	t.Helper()
	got := do(api, get("/"))
	if got.status != c.status || got.body != c.body {
		t.Errorf("got %d %s", got.status, got.body)
	}
	wantHeaders(t, got.header, c.header)
}

func wantHeaders(t *testing.T, h http.Header, want map[string]string) {
	t.Helper()
	for name, value := range want {
		if got := h.Get(name); got != value {
			t.Errorf("header %s is %q, want %q", name, got, value)
		}
	}
}

// sampleEvent reads a sample event of aws-lambda-go.
func sampleEvent(t *testing.T, name string) map[string]any {
	t.Helper()
	dir, err := exec.Command("go", "list", "-m", "-f", "{{.Dir}}", "github.com/aws/aws-lambda-go").Output()
	if err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(filepath.Join(strings.TrimSpace(string(dir)), "events", "testdata", name))
	if err != nil {
		t.Fatal(err)
	}
	var sample map[string]any
	if err := json.Unmarshal(text, &sample); err != nil {
		t.Fatal(err)
	}
	return sample
}

// missingFields returns the paths of the fields that sample has and got lacks. It does
// not compare the fields of the maps named in open.
func missingFields(sample, got map[string]any, open ...string) []string {
	var missing []string
	for name, value := range sample {
		have, ok := got[name]
		if !ok {
			missing = append(missing, name)
			continue
		}
		object, isObject := value.(map[string]any)
		if haveObject, ok := have.(map[string]any); isObject && ok && !slices.Contains(open, name) {
			for _, inner := range missingFields(object, haveObject, open...) {
				missing = append(missing, name+"."+inner)
			}
		}
	}
	return missing
}
