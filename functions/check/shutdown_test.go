package main

import (
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
)

// The extension is registered for no events, and then says that it has started, over a
// connection that stays.
func TestRegister(t *testing.T) {
	asked := make(chan string, 2)
	started := make(chan struct{})
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		who := r.Header.Get("Lambda-Extension-Name") + r.Header.Get("Lambda-Extension-Identifier")
		asked <- r.Method + " " + r.URL.Path + " " + who + " " + string(body)
		if r.Method == http.MethodGet {
			close(started)
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
	<-started
	for _, want := range []string{`POST /2020-01-01/extension/register tidegate {"events":[]}`,
		"GET /2020-01-01/extension/event/next an-id "} {
		if got := <-asked; got != want {
			t.Errorf("got %q, want %q", got, want)
		}
	}
	server.CloseClientConnections()
}

// A failed registration says why. The function works without it, and nothing warns it of
// its end.
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
