package main

import (
	"context"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/aws/aws-lambda-go/lambda"
	"github.com/google/go-cmp/cmp"
)

// runtimeAPI is a Runtime API that returns the events one after the other, and then
// fails.
type runtimeAPI struct {
	mu     sync.Mutex
	events []string
	steps  []string
}

const runtimePath = "/2018-06-01/runtime/invocation/"

func (s *runtimeAPI) note(step string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.steps = append(s.steps, step[:min(len(step), 56)])
}

func (s *runtimeAPI) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, _ := io.ReadAll(r.Body)
	if r.URL.Path == "/sent" { // a request of the function given to beforeNextEvent
		s.note("records")
		return
	}
	path := strings.TrimPrefix(r.URL.Path, runtimePath)
	s.note(strings.TrimSpace(r.Method + " " + path + " " + string(body)))
	if r.Method == http.MethodPost {
		w.WriteHeader(http.StatusAccepted)
		return
	}
	if len(s.events) == 0 {
		http.Error(w, "the end", http.StatusInternalServerError)
		return
	}
	w.Header().Set("Lambda-Runtime-Aws-Request-Id", strconv.Itoa(len(s.events)))
	w.Header().Set("Lambda-Runtime-Deadline-Ms", strconv.FormatInt(time.Now().Add(time.Hour).UnixMilli(), 10))
	_, _ = io.WriteString(w, s.events[0])
	s.events = s.events[1:]
}

// echo answers an event with itself, and "bad" with an error.
type echo struct{}

func (echo) Invoke(_ context.Context, event []byte) ([]byte, error) {
	if string(event) == `"bad"` {
		return nil, errors.New("Unauthorized")
	}
	return event, nil
}

// After an answer, also an error, records are sent before the next event is requested.
// aws-lambda-go exits when its loop fails, so the loop runs in a process of its own.
func TestBeforeNextEvent(t *testing.T) {
	if address := os.Getenv("AWS_LAMBDA_RUNTIME_API"); address != "" {
		beforeNextEvent(address, func() {
			other := strings.Replace(address, "127.0.0.1", "localhost", 1) // not the Runtime API's address
			response, err := http.Get("http://" + other + "/sent")
			if err == nil {
				_ = response.Body.Close()
			}
		})
		lambda.Start(echo{})
	}
	long := `"` + strings.Repeat("long ", 5000) + `"`
	api := &runtimeAPI{events: []string{"{}", `"bad"`, long}}
	server := httptest.NewServer(api)
	defer server.Close()
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	loop := exec.CommandContext(ctx, os.Args[0], "-test.run", "^TestBeforeNextEvent$")
	loop.Env = append(os.Environ(), "AWS_LAMBDA_RUNTIME_API="+server.Listener.Addr().String())
	output, err := loop.CombinedOutput()
	if !strings.Contains(string(output), "unexpected status code: 500") {
		t.Errorf("the loop ended with %v, want status code 500:\n%s", err, output)
	}
	if diff := cmp.Diff([]string{
		"records", "GET next", "POST 3/response {}",
		"records", "GET next", `POST 2/error {"errorMessage":"Unauthorized","errorType":"er`[:56],
		"records", "GET next", ("POST 1/response " + long)[:56],
		"records", "GET next",
	}, api.steps); diff != "" {
		t.Error(diff)
	}
}

// The extension registers for no events and then requests the next event, over a
// connection that stays open.
func TestRegister(t *testing.T) {
	requests := make(chan string, 2)
	waiting := make(chan struct{})
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		who := r.Header.Get("Lambda-Extension-Name") + r.Header.Get("Lambda-Extension-Identifier")
		requests <- r.Method + " " + r.URL.Path + " " + who + " " + string(body)
		if r.Method == http.MethodGet {
			close(waiting)
			<-r.Context().Done()
			return
		}
		w.Header().Set("Lambda-Extension-Identifier", "an-id")
		_, _ = io.WriteString(w, `{"functionName":"check"}`)
	}))
	defer server.Close()
	if err := register(server.Listener.Addr().String()); err != nil {
		t.Fatal(err)
	}
	<-waiting
	for _, want := range []string{`POST /2020-01-01/extension/register tidegate {"events":[]}`,
		"GET /2020-01-01/extension/event/next an-id "} {
		if got := <-requests; got != want {
			t.Errorf("got %q, want %q", got, want)
		}
	}
	server.CloseClientConnections()
}

// register returns the cause of a failure. The function works without the extension, but
// gets no SIGTERM.
func TestRegisterFails(t *testing.T) {
	refusing := httptest.NewServer(http.NotFoundHandler())
	defer refusing.Close()
	hanging := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {
		panic(http.ErrAbortHandler)
	}))
	defer hanging.Close()
	for api, want := range map[string]string{
		refusing.Listener.Addr().String(): "404", hanging.Listener.Addr().String(): "EOF",
		"": "missing address", "127.0.0.1:1": "refused",
	} {
		if err := register(api); !errors.Is(err, errExtension) || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %s", api, err, want)
		}
	}
}
