//go:build unix

package main

import (
	"context"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"tidegate/local/bench"
)

// The program runs, and gives the figures that the documents cite.
func TestFigures(t *testing.T) {
	admin := filepath.Join(t.TempDir(), "bootstrap")
	build := exec.CommandContext(t.Context(), "go", "build", "-C", "../../..", "-tags", "lambda.norpc",
		"-o", admin, "./functions/admin")
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	o := options{keys: 600, admin: admin, slice: 50 * time.Millisecond, repeats: 1, callers: 200, rounds: 1,
		starts: 1}
	for _, c := range []struct {
		measure func(context.Context, options) ([]bench.Figure, error)
		want    []string
	}{
		{pages, []string{"admin.overview.server_ms", "admin.keys.commands", "admin.audit_next.gzip_bytes",
			"admin.first_load_gzip_bytes", "admin.live_refresh_bytes", "admin.coldstart_ms"}},
		{sizes, []string{"scale.one_limit.shards3.per_core", "scale.two_limits.shards1.script_us",
			"scale.with_usage.shards1.cpu_us", "scale.flood.full_address.cpu_us", "scale.global.per_hot_core",
			"scale.memory.keys60.made", "scale.edit.keys600.ms"}},
	} {
		figures, err := c.measure(t.Context(), o)
		if err != nil {
			t.Fatal(err)
		}
		got := map[string]float64{}
		for _, f := range figures {
			got[f.Name] = f.Value
		}
		for _, name := range c.want {
			if got[name] <= 0 {
				t.Errorf("%s: got %g, want more than 0", name, got[name])
			}
		}
	}
}
