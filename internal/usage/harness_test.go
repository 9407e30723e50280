package usage

import (
	"context"
	"fmt"
	"os"
	"sync"
	"testing"
	"time"

	"github.com/valkey-io/valkey-go"

	"tidegate/internal/store"
	"tidegate/internal/testing/valkeytest"
)

func TestMain(m *testing.M) { os.Exit(valkeytest.Run(m)) }

// noon is a whole hour in the middle of a day.
var noon = time.Unix(20_000*24*3600+12*3600, 0).UTC()

// clock is set by tests.
type clock struct {
	mu  sync.Mutex
	now time.Time
}

func (c *clock) Now() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.now
}

func (c *clock) set(now time.Time) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.now = now
}

// patient has time-outs for a slow machine. No test measures them.
var patient = store.Options{Dial: 30 * time.Second, Write: 30 * time.Second}

func connect(t testing.TB, url string) valkey.Client {
	t.Helper()
	return connectWith(t, url, patient)
}

func connectWith(t testing.TB, url string, o store.Options) valkey.Client {
	t.Helper()
	client, err := store.Open(t.Context(), url, o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(client.Close)
	return client
}

// onEveryServer runs a test on a server and, without -short, on the embedded server and on
// a cluster of 3 shards with the client of a check function.
func onEveryServer(t *testing.T, test func(t *testing.T, client valkey.Client)) {
	t.Helper()
	t.Run("valkey", func(t *testing.T) { test(t, connect(t, valkeytest.Start(t))) })
	if testing.Short() {
		return
	}
	t.Run("embedded", func(t *testing.T) { test(t, connect(t, valkeytest.Embedded(t))) })
	t.Run("cluster", func(t *testing.T) {
		pooled := patient
		pooled.Pooled = true
		test(t, connectWith(t, valkeytest.SharedCluster(t), pooled))
	})
}

// flush sends all pending records and fails the test unless all are stored.
func flush(t testing.TB, r *Recorder, client valkey.Client) {
	t.Helper()
	if report := r.Flush(context.WithoutCancel(t.Context()), client); report.Lost != 0 ||
		report.Returned != 0 || report.Err != nil {
		t.Fatalf("flush: %+v", report)
	}
	if n := len(r.pending.entries); n > 0 {
		t.Fatalf("flush: got %d pending entries, want none", n)
	}
}

// newcomers is a bound that no test reaches.
const newcomers = 1 << 20

func recorderAt(now time.Time) *Recorder {
	return NewRecorder(Options{Newcomers: newcomers}, func() time.Time { return now })
}

func id(i int) string { return fmt.Sprintf("subject%05d", i) }
