package main

import (
	"context"
	"encoding/json"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"tidegate/functions/check/direct"
	"tidegate/internal/apikey"
	"tidegate/internal/limits"
	"tidegate/internal/testing/registrytest"
	"tidegate/internal/testing/storetest"
	"tidegate/internal/testing/valkeytest"
)

// The server answers direct calls on this machine until it is told to end.
func TestListen(t *testing.T) {
	const pepper = "pepper!!pepper!!pepper!!pepper!!"
	url := valkeytest.Start(t)
	store := registrytest.New(t, storetest.Connect(t, url), apikey.Pepper(pepper))
	l, err := limits.Parse("2 per hour")
	if err != nil {
		t.Fatal(err)
	}
	registrytest.Save(t, store, registrytest.Edit, registrytest.Plan("pro", l))
	a, err := assemble([]string{"VALKEY_URL=" + url, "KEY_PEPPER=" + pepper, "VALKEY_TIMEOUT=10s"},
		io.Discard)
	if err != nil {
		t.Fatal(err)
	}
	listener, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- serveOn(ctx, a, listener) }()
	ask := func(method, path, body string, headers ...string) (int, string) {
		t.Helper()
		r, err := http.NewRequestWithContext(t.Context(), method, "http://"+listener.Addr().String()+path,
			strings.NewReader(body))
		if err != nil {
			t.Fatal(err)
		}
		for i := 0; i < len(headers); i += 2 {
			r.Header.Set(headers[i], headers[i+1])
		}
		response, err := http.DefaultClient.Do(r)
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = response.Body.Close() }()
		text, err := io.ReadAll(response.Body)
		if err != nil {
			t.Fatal(err)
		}
		return response.StatusCode, string(text)
	}
	const call = `{"subject":"user-42","plan":"pro","settle":true}`
	var settlement string
	for i, allowed := range []bool{true, true, false} {
		status, body := ask("POST", "/check", call)
		var r direct.Response
		if err := json.Unmarshal([]byte(body), &r); err != nil || status != http.StatusOK ||
			r.Allowed != allowed {
			t.Fatalf("call %d: %d %s, %v", i+1, status, body, err)
		}
		if text, found := r.Context["settlement"].(string); found {
			settlement = text
		}
	}
	settle := `{"settlement":"` + settlement + `","cost":0}`
	for _, c := range []struct {
		method, path, body string
		headers            []string
		status             int
		want               string
	}{
		{"POST", "/settle", settle, nil, http.StatusOK, `"actual":{"cost":0}`},
		{"POST", "/settle", settle, nil, http.StatusConflict, "settled already"},
		{"POST", "/check", call, nil, http.StatusOK, `"allowed":true`},
		{"POST", "/check", `{"subject":"a","plan":"gone"}`, nil, http.StatusBadRequest, "plan: the plan"},
		{"POST", "/check", `{"tidegate":"settle"}`, nil, http.StatusBadRequest, "must be check here"},
		{"POST", "/check", strings.Repeat(" ", maxBody+1), nil, http.StatusRequestEntityTooLarge, "at most"},
		{"POST", "/check", call, []string{"Origin", "https://site.example"}, http.StatusForbidden, "browser"},
		{"POST", "/check", call, []string{"Sec-Fetch-Site", "cross-site"}, http.StatusForbidden, "browser"},
		{"GET", "/check", "", nil, http.StatusMethodNotAllowed, ""},
		{"GET", "/healthz", "", nil, http.StatusOK, `"ok":true`},
	} {
		if status, body := ask(c.method, c.path, c.body, c.headers...); status != c.status ||
			!strings.Contains(body, c.want) {
			t.Errorf("%s %s %.60s: %d %s, want %d %s", c.method, c.path, c.body, status, body, c.status,
				c.want)
		}
	}
	stop()
	select {
	case err := <-ended:
		if err != nil {
			t.Errorf("the end: %v", err)
		}
	case <-time.After(time.Minute):
		t.Error("the server does not end")
	}
}

// The server listens to this machine alone, unless that is forced.
func TestListenAddress(t *testing.T) {
	for args, want := range map[string]string{
		"": "", "-listen 127.0.0.1:2773": "127.0.0.1:2773", "-listen localhost:80": "localhost:80",
		"-listen [::1]:2773": "[::1]:2773", "-listen 0.0.0.0:2773 -anywhere": "0.0.0.0:2773",
		"-listen 0.0.0.0:2773": "error", "-listen :2773": "error", "-listen 10.0.0.7:2773": "error",
		"-listen example.com:2773": "error", "-listen 127.0.0.1": "error",
		"serve": "error", "-port 7": "error",
	} {
		got, err := listenAddress(strings.Fields(args), io.Discard)
		if err != nil {
			got = "error"
		}
		if got != want {
			t.Errorf("%q: got %q, %v, want %q", args, got, err, want)
		}
	}
}
