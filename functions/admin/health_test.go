package main

import (
	"log/slog"
	"net/http"
	"testing"

	"github.com/akrylysov/algnhsa"

	"tidegate/internal/testing/storetest"
	"tidegate/internal/testing/valkeytest"
	"tidegate/internal/testing/waiting"
)

// A server can answer a PING while every check is denied. /healthz then says why. It mends
// nothing: the event of the minute brings back what Valkey lost.
func TestHealthAndMinute(t *testing.T) {
	server := valkeytest.Start(t)
	admin := storetest.Connect(t, server)
	command := func(words ...string) {
		t.Helper()
		if err := admin.Do(t.Context(), admin.B().Arbitrary(words...).Build()).Error(); err != nil {
			t.Fatal(err)
		}
	}
	command("CONFIG", "SET", "maxmemory-policy", "allkeys-lru")
	c, err := readConfig(environment("VALKEY_URL="+server, "CHANGES_LOG="+t.TempDir()))
	if err != nil {
		t.Fatal(err)
	}
	handler, err := newConnector(c, slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	wants := func(status int, text string) {
		t.Helper()
		waiting.Until(t, text, func() bool {
			w := get(handler, "/healthz")
			return w.Code == status && w.Body.String() == "alive\n"+text
		})
	}
	wants(http.StatusOK, "store ready\neviction allkeys-lru\n")
	command("REPLICAOF", "127.0.0.1", "1")
	wants(http.StatusServiceUnavailable, "store READONLY\n")
	command("REPLICAOF", "NO", "ONE")
	command("CONFIG", "SET", "maxmemory-policy", "noeviction")
	command("CONFIG", "SET", "maxmemory", "1")
	wants(http.StatusServiceUnavailable, "store OOM\n")
	command("CONFIG", "SET", "maxmemory", "0")
	wants(http.StatusOK, "store ready\neviction allkeys-lru\n")
	command("FLUSHALL")
	for range 2 {
		wants(http.StatusServiceUnavailable, "store ready\npolicies missing\n")
	}
	f := function{algnhsa.New(handler, lambdaOptions()), handler.minute}
	if _, err := f.Invoke(t.Context(), []byte(`{"tidegate":"minute"}`)); err != nil {
		t.Fatal(err)
	}
	wants(http.StatusOK, "store ready\neviction allkeys-lru\n")
}
