// Package storetest connects tests to Valkey with the functions' client. Only tests
// import it.
package storetest

import (
	"testing"

	"github.com/valkey-io/valkey-go"

	"tidegate/internal/store"
	"tidegate/internal/testing/valkeytest"
	"tidegate/internal/testing/waiting"
)

// Connect returns a client for the server or cluster at url. It closes with the test.
func Connect(t testing.TB, url string) valkey.Client {
	t.Helper()
	client, err := store.Open(t.Context(), url,
		store.Options{Dial: waiting.Timeout, Write: waiting.Timeout})
	if err != nil {
		t.Fatalf("connect to %s: %v", url, err)
	}
	t.Cleanup(client.Close)
	return client
}

// OnSingleServers runs a test on a real Valkey and, without -short, on the embedded
// server.
func OnSingleServers(t *testing.T, test func(t *testing.T, url string)) {
	t.Helper()
	t.Run("valkey", func(t *testing.T) { test(t, valkeytest.Start(t)) })
	if !testing.Short() {
		t.Run("embedded", func(t *testing.T) { test(t, valkeytest.Embedded(t)) })
	}
}

// OnEveryServer runs a test as OnSingleServers does, and without -short on the package's
// shared cluster. TestMain must call valkeytest.Run.
func OnEveryServer(t *testing.T, test func(t *testing.T, url string)) {
	t.Helper()
	OnSingleServers(t, test)
	if !testing.Short() {
		t.Run("cluster", func(t *testing.T) { test(t, valkeytest.SharedCluster(t)) })
	}
}
