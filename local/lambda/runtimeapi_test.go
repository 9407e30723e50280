//go:build unix

package lambda

import (
	"bytes"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"tidegate/internal/testing/waiting"
)

// runtimeClient acts as the runtime of one environment.
type runtimeClient struct {
	t   *testing.T
	api *runtimeAPI
	url string
}

func newRuntimeClient(t *testing.T) *runtimeClient {
	t.Helper()
	api := newRuntimeAPI("arn:test", func() {})
	server := httptest.NewServer(api.handler())
	t.Cleanup(server.Close)
	return &runtimeClient{t: t, api: api, url: server.URL + "/2018-06-01/runtime/"}
}

func (c *runtimeClient) call(method, path, body string) (int, http.Header) {
	c.t.Helper()
	r, err := http.NewRequestWithContext(c.t.Context(), method, c.url+path, strings.NewReader(body))
	if err != nil {
		c.t.Fatal(err)
	}
	response, err := http.DefaultClient.Do(r)
	if err != nil {
		c.t.Fatal(err)
	}
	defer func() { _ = response.Body.Close() }()
	_, _ = io.Copy(io.Discard, response.Body)
	return response.StatusCode, response.Header
}

// begin delivers an invocation and lets the runtime fetch it.
func (c *runtimeClient) begin() *invocation {
	c.t.Helper()
	inv := newInvocation([]byte(`{}`), func() {})
	go func() {
		<-c.api.nextCalls
		c.api.deliver(delivery{invocation: inv, deadline: time.UnixMilli(1234)})
	}()
	status, header := c.call("GET", "invocation/next", "")
	if status != http.StatusOK || header.Get("Lambda-Runtime-Aws-Request-Id") != inv.id ||
		header.Get("Lambda-Runtime-Deadline-Ms") != "1234" ||
		header.Get("Lambda-Runtime-Invoked-Function-Arn") != "arn:test" ||
		header.Get("Lambda-Runtime-Trace-Id") == "" {
		c.t.Fatalf("next: %d %v", status, header)
	}
	return inv
}

func (c *runtimeClient) want(status int, method, path, body string) {
	c.t.Helper()
	if got, _ := c.call(method, path, body); got != status {
		c.t.Errorf("%s %s: status %d, want %d", method, path, got, status)
	}
}

// The Runtime API accepts calls only in the order of the runtime's cycle.
func TestRuntimeAPIStates(t *testing.T) {
	c := newRuntimeClient(t)
	c.want(400, "POST", "invocation/none/response", `{}`)
	first := c.begin()
	c.want(403, "GET", "invocation/next", "")
	c.want(403, "POST", "init/error", `{}`)
	c.want(400, "POST", "invocation/other/response", `{}`)
	c.want(400, "POST", "invocation/other/error", `{}`)
	c.want(202, "POST", "invocation/"+first.id+"/response", `{"a":1}`)
	c.want(400, "POST", "invocation/"+first.id+"/response", `{}`)
	c.want(400, "POST", "invocation/"+first.id+"/error", `{}`)
	out := waiting.For(t, "the result", first.result)
	if string(out.payload) != `{"a":1}` || out.err != nil {
		t.Errorf("got %s, %v", out.payload, out.err)
	}
	second := c.begin()
	c.want(202, "POST", "invocation/"+second.id+"/error",
		`{"errorMessage":"m","errorType":"T","stackTrace":["not our form"]}`)
	var reported *FunctionError
	out = waiting.For(t, "the result", second.result)
	if !errors.As(out.err, &reported) || reported.Message != "m" || reported.Type != "T" {
		t.Errorf("got %v", out.err)
	}
	c.want(404, "GET", "invocation/nonsense", "")
}

func TestRuntimeAPIRefusesResponses(t *testing.T) {
	for name, body := range map[string]string{"not JSON": `{`, "empty": ``} {
		t.Run(name, func(t *testing.T) {
			c := newRuntimeClient(t)
			inv := c.begin()
			c.want(202, "POST", "invocation/"+inv.id+"/response", body)
			var refused *ResponseError
			out := waiting.For(t, "the result", inv.result)
			if !errors.As(out.err, &refused) {
				t.Errorf("got %s, %v", out.payload, out.err)
			}
		})
	}
	c := newRuntimeClient(t)
	inv := c.begin()
	c.want(413, "POST", "invocation/"+inv.id+"/response", `"`+strings.Repeat("x", MaxPayload)+`"`)
	var refused *ResponseError
	out := waiting.For(t, "the result", inv.result)
	if !errors.As(out.err, &refused) {
		t.Errorf("over the limit: %v", out.err)
	}
}

func TestRuntimeAPIAcceptsErrorsThatAreNotJSON(t *testing.T) {
	c := newRuntimeClient(t)
	inv := c.begin()
	c.want(202, "POST", "invocation/"+inv.id+"/error", `Unauthorized`)
	var reported *FunctionError
	out := waiting.For(t, "the result", inv.result)
	if !errors.As(out.err, &reported) || reported.Message == "Unauthorized" {
		t.Errorf("got %v", out.err)
	}
}

func TestRuntimeAPIInitError(t *testing.T) {
	c := newRuntimeClient(t)
	c.want(202, "POST", "init/error", `{"errorMessage":"no pepper","errorType":"Config"}`)
	var reported *FunctionError
	err := waiting.For(t, "the failure of the start", c.api.initFailed)
	if !errors.As(err, &reported) || reported.Message != "no pepper" {
		t.Errorf("got %v", err)
	}
}

// Lines are logged whole and in order, also if they were written in parts. Only lines
// over maxLine are split.
func TestLines(t *testing.T) {
	var out bytes.Buffer
	l := &lines{lock: &sync.Mutex{}, out: &out, prefix: "> "}
	long := strings.Repeat("x", maxLine+1)
	for _, part := range []string{"a", "b\nc", "\r\n\n", long + "\n", "end"} {
		if n, err := io.WriteString(l, part); n != len(part) || err != nil {
			t.Fatal(n, err)
		}
	}
	l.flush()
	if want := "> ab\n> c\n> \n> " + long[1:] + "\n> x\n> end\n"; out.String() != want {
		t.Errorf("got %d bytes, want %d", out.Len(), len(want))
	}
}
