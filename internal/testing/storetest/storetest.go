// Package storetest connects tests to a Valkey as the functions do.
package storetest

import (
	"testing"

	"github.com/valkey-io/valkey-go"

	"tidegate/internal/store"
	"tidegate/internal/testing/valkeytest"
	"tidegate/internal/testing/waiting"
)

// Connect returns a client for the server or cluster at url, which closes with the test.
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

// OnSingleServers runs a test on a real Valkey and on the embedded server.
func OnSingleServers(t *testing.T, test func(t *testing.T, url string)) {
	t.Helper()
	t.Run("valkey", func(t *testing.T) { test(t, valkeytest.Start(t)) })
	t.Run("embedded", func(t *testing.T) { test(t, valkeytest.Embedded(t)) })
}

// OnEveryServer runs a test on a cluster too, which the package shares: its TestMain calls
// valkeytest.Run.
func OnEveryServer(t *testing.T, test func(t *testing.T, url string)) {
	t.Helper()
	OnSingleServers(t, test)
	t.Run("cluster", func(t *testing.T) { test(t, valkeytest.SharedCluster(t)) })
}
