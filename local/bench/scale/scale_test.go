//go:build unix

package scale

import (
	"bytes"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"
)

// tiny has options that measure everything, too briefly for meaningful figures.
var tiny = options{slice: 50 * time.Millisecond, repeats: 1, callers: 200, keys: []int{300, 600}, stable: 2}

func needServer(t *testing.T) {
	t.Helper()
	if _, err := exec.LookPath("valkey-server"); err != nil && os.Getenv("CI") == "" {
		t.Skip("no valkey-server on PATH: scripts/install-test-tools installs it")
	}
}

// The measurements give every figure of docs/performance.md. Figures that do not depend on the
// machine are checked.
func TestMeasurements(t *testing.T) {
	needServer(t)
	measured := map[string]float64{}
	for _, m := range measurements {
		got, err := m.measure(t.Context(), tiny)
		if err != nil {
			t.Fatalf("%s: %v", m.name, err)
		}
		for _, f := range got {
			measured[f.Name] = f.Value
		}
	}
	for _, name := range []string{
		"one_limit.shards1.rate", "one_limit.shards2.cpu_us", "one_limit.shards3.per_core",
		"two_limits.shards1.script_us", "with_usage.shards1.cpu_us",
		"flood.allowed.cpu_us", "flood.denied.cpu_us", "flood.full_address.cpu_us", "flood.made_up.per_core",
		"global.rate", "global.hot_shard_us",
		"memory.keys300.registered_bytes", "memory.keys600.audit_bytes", "memory.keys600.made",
		"edit.keys300.ms", "edit.keys600.cpu_ms",
	} {
		if measured["scale."+name] <= 0 {
			t.Errorf("%s: got %g, want more than 0", name, measured["scale."+name])
		}
	}
	if spread := measured["scale.one_limit.shards1.busiest_share"]; spread != 1 {
		t.Errorf("busiest share of a single shard: got %g, want 1", spread)
	}
	// An edit sends 256 copies of a set with one plan, each in its own command.
	if bytes := measured["scale.edit.keys600.bytes"]; bytes < 256*80 || bytes > 256*1100 {
		t.Errorf("an edit sends %g bytes, want 256 times 80 to 1100", bytes)
	}
}

func TestBadFlag(t *testing.T) {
	var out bytes.Buffer
	if err := Run(t.Context(), []string{"-wrong"}, &out, &out); err == nil ||
		!strings.Contains(err.Error(), "-wrong") {
		t.Errorf("got %v, want an error that names -wrong", err)
	}
}
