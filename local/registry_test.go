//go:build unix

package main

import (
	"net/http"
	"path/filepath"
	"strings"
	"testing"

	"tidegate/internal/testing/valkeytest"
	"tidegate/internal/testing/waiting"
)

// end stops a run and fails the test unless it ends well.
func (p *program) end(t *testing.T) {
	t.Helper()
	p.stop()
	if code := waiting.For(t, "the end of the program", p.exit); code != 0 {
		t.Fatalf("exit status %d: %s", code, p.err.String())
	}
}

// A run on a new Valkey has the changes that were acknowledged in an earlier run with the
// same folder.
func TestRunWithData(t *testing.T) {
	folder := filepath.Join(t.TempDir(), "data")
	first := start(t, "-data", folder)
	first.end(t)
	if text := first.out.String(); !strings.Contains(text, "the log of changes in "+folder+" (1 changes)") {
		t.Errorf("the first run printed %s", text)
	}
	second := start(t, "-data", folder)
	// The first run saved the plans and both demo keys, which the second replaces.
	if text := second.out.String(); !strings.Contains(text, "(4 changes)") {
		t.Errorf("the second run printed %s", text)
	}
	if status, _, _ := request(t, second.url("rest")+"/orders", "x-api-key",
		first.key("free")); status == http.StatusOK {
		t.Error("the demo key of the first run still opens the API")
	}
	status, _, body := request(t, second.url("rest")+"/orders", "x-api-key", second.key("free"))
	if status != http.StatusOK {
		t.Errorf("a call: %d %s", status, body)
	}
}

// A run with another log than that of the Valkey starts nothing, and says what to do. So
// does one with another pepper.
func TestRunWithAnotherLog(t *testing.T) {
	valkey, folder := valkeytest.Start(t), t.TempDir()
	start(t, "-valkey", valkey, "-data", folder).end(t)
	for _, c := range []struct {
		flags  []string
		pepper string
		want   string
	}{
		{[]string{"-valkey", valkey, "-data", t.TempDir()}, "", "give the -data of the Valkey"},
		{[]string{"-data", folder}, strings.Repeat("pepper!!", 4), "is KEY_PEPPER that of the runs before?"},
	} {
		var out, errOut waiting.Buffer
		env := func(name string) string { return map[string]string{"KEY_PEPPER": c.pepper}[name] }
		if code := run(t.Context(), onFreePorts(t, c.flags...), env, &out, &errOut); code != 1 ||
			!strings.Contains(errOut.String(), c.want) {
			t.Errorf("%v: exit status %d, %s; want 1 and %q", c.flags, code, errOut.String(), c.want)
		}
	}
	start(t, "-valkey", valkey, "-data", folder) // nothing was harmed
}
