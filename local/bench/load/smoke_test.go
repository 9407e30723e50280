//go:build unix

package main

import (
	"bytes"
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"tidegate/internal/testing/built"
	"tidegate/internal/testing/tier"
)

// programs are those that ./scripts/load builds. The test function of package lambda
// replaces the admin function, since it starts faster.
var programs = map[string]string{
	"local": "tidegate/local", "check/bootstrap": "tidegate/functions/check",
	"admin/bootstrap": "tidegate/local/lambda/testdata/function",
}

// Every scenario runs through the built functions on a real Valkey server, without
// unexpected answers and without a window above its limit.
func TestScenarios(t *testing.T) {
	tier.Two(t, "makes calls for seconds in each scenario")
	if _, err := exec.LookPath("valkey-server"); err != nil && os.Getenv("CI") == "" {
		t.Skip("no valkey-server on PATH: scripts/install-test-tools installs it")
	}
	for _, c := range []struct {
		scenario, api string
		least         map[string]int // answers of a kind
	}{
		{"steady", "rest", map[string]int{"admitted": 10}},
		{"hot", "http", map[string]int{"admitted": 50}},
		{"cold", "rest", map[string]int{"admitted": 120}},
		{"denied", "rest", map[string]int{"admitted": 100, "denied": 20}},
		{"boundary", "rest", map[string]int{"admitted": 1}},
	} {
		t.Run(c.scenario, func(t *testing.T) {
			t.Parallel()
			r := smoke(t, c.scenario, c.api)
			for kind, least := range c.least {
				if r.Kinds[kind] < least {
					t.Errorf("got %d %s, want at least %d", r.Kinds[kind], kind, least)
				}
			}
		})
	}
}

func smoke(t *testing.T, scenario, api string) result {
	t.Helper()
	figures := filepath.Join(t.TempDir(), "load.json")
	var out bytes.Buffer
	errOut := errorFile(t)
	code := run(t.Context(), []string{
		"-scenario", scenario, "-api", api, "-rate", "60", "-duration", "2s",
		"-bin", built.Folder(t, programs), "-environments", "8", "-no-freeze", "-json", figures,
	}, &out, errOut)
	if code != 0 {
		errors, err := os.ReadFile(errOut.Name())
		t.Fatalf("exit status %d:\n%s%s%v", code, &out, errors, err)
	}
	text, err := os.ReadFile(figures)
	if err != nil {
		t.Fatal(err)
	}
	var r result
	if err := json.Unmarshal(text, &r); err != nil {
		t.Fatal(err)
	}
	if len(r.Proof.Windows) == 0 {
		t.Error("got a proof without windows, want some")
	}
	return r
}

// errorFile returns a file that replaces standard error, since the gateway's process
// writes there too.
func errorFile(t *testing.T) *os.File {
	t.Helper()
	file, err := os.Create(filepath.Join(t.TempDir(), "stderr"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = file.Close() })
	return file
}
