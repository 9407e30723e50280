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

// With a journal, a run on a new Valkey has the changes that were acknowledged in an
// earlier run.
func TestRunWithAJournal(t *testing.T) {
	folder := filepath.Join(t.TempDir(), "journal")
	first := start(t, "-journal", folder)
	if status, _, _ := request(t, first.url("admin")+"/healthz"); status != http.StatusOK {
		t.Errorf("the dashboard's health: %d", status)
	}
	first.stop()
	if code := waiting.For(t, "the end of the first program", first.exit); code != 0 {
		t.Fatalf("exit status %d: %s", code, first.err.String())
	}
	if text := first.out.String(); !strings.Contains(text, "0 records restored") {
		t.Errorf("the first run printed %s", text)
	}
	second := start(t, "-journal", folder)
	// The second run restored the policies and both demo keys, and then replaced the
	// keys.
	if text := second.out.String(); !strings.Contains(text, "3 records restored") {
		t.Errorf("the second run printed %s", text)
	}
	status, _, body := request(t, second.url("rest")+"/orders", "x-api-key", second.key("free"))
	if status != http.StatusOK {
		t.Errorf("a call: %d %s", status, body)
	}
}

// A run without the journal leaves changes in Valkey that the journal lacks. The next run
// with the journal starts nevertheless, and stores them.
func TestRunWithoutTheJournalBetween(t *testing.T) {
	t.Setenv("KEY_PEPPER", strings.Repeat("pepper!!", 4))
	valkey, folder := valkeytest.Start(t), filepath.Join(t.TempDir(), "journal")
	for _, flags := range [][]string{{"-journal", folder}, nil} {
		earlier := start(t, append(flags, "-valkey", valkey)...)
		earlier.stop()
		if code := waiting.For(t, "the end of the earlier program", earlier.exit); code != 0 {
			t.Fatalf("exit status %d: %s", code, earlier.err.String())
		}
	}
	last := start(t, "-journal", folder, "-valkey", valkey)
	if status, _, _ := request(t, last.url("admin")+"/healthz"); status != http.StatusOK {
		t.Errorf("the dashboard's health: %d", status)
	}
	status, _, body := request(t, last.url("rest")+"/orders", "x-api-key", last.key("free"))
	if status != http.StatusOK {
		t.Errorf("a call: %d %s", status, body)
	}
}
