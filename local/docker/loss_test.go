package docker

import (
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"

	"tidegate/internal/testing/waiting"
)

// Every Valkey server is emptied while clients call, and restored from the journal in an
// S3 server. First an editor restores on the dashboard, then the admin function restores
// by itself. Known callers are decided as their plans say, and never refused as unknown.
// Revoked and unknown keys are never allowed: before, during or after the loss.
func TestLossOfAll(t *testing.T) {
	c := up(t, journalFile)
	t.Run("hardened", func(t *testing.T) { checkHardened(t, c) })
	d := c.login(t)
	w := c.callers(t, d)
	revoked := d.key("open")
	if before := decidedCall(t, *w.rest.Load(), revoked); before.status != http.StatusOK {
		t.Fatalf("a key before it is revoked: %s", before)
	}
	d.revoke(idOf(t, revoked))
	w.more = []target{{"revoked", revoked, &w.rest,
		[]int{http.StatusUnauthorized, http.StatusTooManyRequests}}}

	_ = t.Run("restored by hand", func(t *testing.T) { restoredByHand(t, w) }) &&
		t.Run("restored by itself", func(t *testing.T) { restoredByItself(t, w) })
}

// restoredByHand restores as an editor does, who has to log in again since the session is
// lost.
func restoredByHand(t *testing.T, w *world) {
	t.Helper()
	l := w.startLoad(t)
	lost, emptied := w.emptyValkey(t, l)
	d := w.login(t)
	waiting.Until(t, "the page says what was lost", func() bool {
		return strings.Contains(d.send(http.MethodGet, "/", nil).body, "Valkey lost changes in")
	})
	t.Logf("noticed after %s", since(lost))
	waiting.Until(t, "nothing is left to restore", func() bool {
		if a := d.post("/journal/restore"); a.status != http.StatusSeeOther {
			t.Fatalf("restore: %s", a)
		}
		return strings.Contains(d.send(http.MethodGet, "/", nil).body, "Restored. Counts start empty.")
	})
	t.Logf("restored after %s", since(lost))
	w.checkRestored(t, l, lost, emptied)
}

// restoredByItself lets an environment of the admin function that starts after the loss
// restore.
func restoredByItself(t *testing.T, w *world) {
	t.Helper()
	w.env = []string{"JOURNAL_RESTORE=always"}
	w.start(t, "--no-deps", "admin")
	l := w.startLoad(t)
	lost, emptied := w.emptyValkey(t, l)
	w.restart(t, "admin")
	t.Logf("an environment has started after %s", since(lost))
	w.checkRestored(t, l, lost, emptied)
}

// emptyValkey empties every primary, and thereby its replica. It returns the time at
// which it began, and the time at which all were empty.
func (w *world) emptyValkey(t *testing.T, l *load) (lost, emptied time.Time) {
	t.Helper()
	user, err := url.Parse(strings.Split(w.valkey, ",")[0]) // several hosts are no standard URL
	if err != nil {
		t.Fatal(err)
	}
	password, _ := user.User.Password()
	outage(t, l, func() {
		lost = time.Now()
		w.exec(t, service(1), "valkey-cli", "--user", user.User.Username(), "--pass", password,
			"--no-auth-warning", "--cluster", "call", "127.0.0.1:6401", "flushall",
			"--cluster-only-masters")
		emptied = time.Now()
	})
	t.Logf("every server was empty after %s", emptied.Sub(lost).Round(time.Millisecond))
	return lost, emptied
}

// checkRestored ends the load once Valkey decides every call. It checks what clients saw
// and what was restored.
func (w *world) checkRestored(t *testing.T, l *load, lost, emptied time.Time) {
	t.Helper()
	w.finish(t, l)
	checkKnownAllowed(t, l)
	for _, each := range w.targets() {
		if each.name == w.page.name {
			continue
		}
		first, last := l.regained(each.name, emptied)
		if first.IsZero() || last.IsZero() {
			t.Errorf("%s: %d answers, some of them should be without Valkey", each.name,
				l.now(each.name).calls)
		}
		t.Logf("%-9s first decided by Valkey again after %s, last without after %s", each.name,
			first.Sub(lost).Round(time.Millisecond), last.Sub(lost).Round(time.Millisecond))
	}
	d := w.login(t)
	if a := d.send(http.MethodGet, "/audit/verify", nil); !strings.Contains(a.body,
		"entries are intact and in order") || strings.Contains(a.body, "Valkey lost changes") {
		t.Errorf("the audit after the restore: %s", a)
	}
	if a := d.send(http.MethodGet, "/keys/"+idOf(t, w.more[0].key), nil); a.status != http.StatusOK ||
		!strings.Contains(a.body, "revoked") {
		t.Errorf("the revoked key's page: %s", a)
	}
	d.override(idOf(t, w.elsewhere.key), plenty) // edits work again
}

// regained looks at the answers to a target after Valkey was emptied. It returns the
// first that Valkey decided after a degraded one, and the last degraded one.
func (l *load) regained(name string, emptied time.Time) (first, last time.Time) {
	l.lock.Lock()
	defer l.lock.Unlock()
	for _, a := range l.log {
		switch {
		case a.to != name || a.at.Before(emptied):
		case a.degraded:
			last = a.at
		case first.IsZero() && !last.IsZero():
			first = a.at
		}
	}
	return first, last
}

func since(at time.Time) time.Duration { return time.Since(at).Round(10 * time.Millisecond) }

// revoke revokes a key.
func (d *dashboard) revoke(id string) {
	d.t.Helper()
	version := d.found(versionInPage, d.send(http.MethodGet, "/keys/"+id+"/revoke", nil))
	if a := d.post("/keys/"+id+"/revoke", "version", version, "reason", "leaked"); a.status !=
		http.StatusSeeOther {
		d.t.Fatalf("revoke: %s", a)
	}
}
