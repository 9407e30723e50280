package dashboard_test

import (
	"errors"
	"log/slog"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"tidegate/functions/admin/auth/token"
	"tidegate/functions/admin/server"
	"tidegate/internal/audit"
	"tidegate/internal/journal"
	"tidegate/internal/objects"
	"tidegate/internal/policy"
	"tidegate/internal/registry"
	"tidegate/internal/testing/sitetest"
)

// newJournalSite returns a site whose keys are older than its journal, which is in
// folder.
func newJournalSite(t *testing.T) (s *sitetest.Site, j *journal.Journal, folder string) {
	t.Helper()
	folder = filepath.Join(t.TempDir(), "journal")
	store, err := objects.Open(folder)
	if err != nil {
		t.Fatal(err)
	}
	keys := sitetest.NewRegistry(t, "acme", "bolt")
	j = journal.New(store, keys.Client, audit.NewKey(sitetest.Pepper), false, slog.New(slog.DiscardHandler))
	keys.Audit().UseJournal(j)
	s = sitetest.New(t, sitetest.WithKeys(keys), sitetest.WithServices(func(services *server.Services) {
		services.Journal = j
	})).Login()
	return s, j, folder
}

// While the journal is unavailable, an edit is refused, and a revocation takes effect.
// Pages warn that the change is not safe yet.
func TestJournalUnavailable(t *testing.T) {
	s, _, folder := newJournalSite(t)
	if err := os.Rename(folder, folder+"-away"); err != nil {
		t.Fatal(err)
	}
	s.Post("/keys/{bolt}/edit", fields("name", "bolt 2", "plan", "free", "version", "1", "lasts",
		"never")).Wants(
		t, http.StatusServiceUnavailable, "The journal is unavailable", "Nothing was changed.")
	s.Post("/keys/{acme}/revoke", fields("version", "1", "reason", "leaked")).Wants(t, http.StatusSeeOther)
	s.Get("/keys").Wants(t, http.StatusOK, "1 change is not safe yet", "revoked")
	if err := os.Rename(folder+"-away", folder); err != nil {
		t.Fatal(err)
	}
	s.Post("/keys/{bolt}/revoke", fields("version", "1", "reason", "leaked")).Wants(t, http.StatusSeeOther)
}

// Pages warn that Valkey lost changes. The button restores them.
func TestRestoreLost(t *testing.T) {
	s, j, _ := newJournalSite(t)
	for _, name := range []string{"acme", "bolt"} {
		s.Post("/keys/{"+name+"}/revoke", fields("version", "1", "reason", "leaked")).Wants(t,
			http.StatusSeeOther)
	}
	s.Keys.Server.FlushAll()
	if err := j.Check(t.Context()); err != nil {
		t.Fatal(err)
	}
	s.Get("/settings").Wants(t, http.StatusOK, "Valkey lost changes in", "Restore lost changes")
	s.Get("/api/v1/journal").Wants(t, http.StatusOK, `"behind":`)
	s.Post("/journal/restore", nil).Wants(t, http.StatusSeeOther)
	s.Get("/keys").Wants(t, http.StatusOK, "Restored. Counts start empty.", "acme", "bolt", "revoked")
	s.Get("/api/v1/journal").Wants(t, http.StatusOK, `{"unsafe":0,"behind":0,"away":false}`)
}

// A restore skips a part of the keys that has changes which the journal lacks. It fails
// and names scripts/restore.
func TestRestoreKeepsNewerChanges(t *testing.T) {
	s, _, _ := newJournalSite(t)
	s.Post("/keys/{acme}/revoke", fields("version", "1", "reason", "leaked")).Wants(t, http.StatusSeeOther)
	without := registry.NewStore(s.Keys.Client, sitetest.Pepper)
	edit := registry.Edit{By: audit.Actor{Kind: "user", Name: "ada"}, Reason: "without a journal"}
	if err := without.Delete(t.Context(), s.Keys.IDs["acme"], edit); err != nil {
		t.Fatal(err)
	}
	s.Do(http.MethodPost, "/api/v1/journal/restore", nil, sitetest.Bearer(s.NewToken(token.Write))).Wants(t,
		http.StatusConflict, "They were not restored", "scripts/restore -dry-run")
	s.Post("/journal/restore", nil).Wants(t, http.StatusServiceUnavailable, "Not everything was restored",
		"scripts/restore")
	if _, err := without.Get(t.Context(), s.Keys.IDs["acme"]); !errors.Is(err, policy.ErrNotFound) {
		t.Errorf("after the restore: error %v, want ErrNotFound: it must keep the deletion", err)
	}
}

// A restore needs a write token. Read, settle and revoked tokens, and no token, are
// refused.
func TestRestoreNeedsWriteToken(t *testing.T) {
	s, j, _ := newJournalSite(t)
	s.Post("/keys/{acme}/revoke", fields("version", "1", "reason", "leaked")).Wants(t, http.StatusSeeOther)
	s.Keys.Server.FlushAll()
	if err := j.Check(t.Context()); err != nil {
		t.Fatal(err)
	}
	revoked := s.NewToken(token.Write)
	list, err := s.Tokens.List(t.Context())
	if err != nil || len(list) != 1 {
		t.Fatalf("got tokens %v, %v, want 1", list, err)
	}
	by := audit.Actor{Kind: "user", Name: "ada"}
	if err := s.Tokens.Revoke(t.Context(), list[0].ID, by); err != nil {
		t.Fatal(err)
	}
	const path = "/api/v1/journal/restore"
	for text, want := range map[string]int{
		s.NewToken(token.Read): http.StatusForbidden, s.NewToken(token.Settle): http.StatusForbidden,
		revoked: http.StatusUnauthorized, "": http.StatusUnauthorized,
	} {
		s.Do(http.MethodPost, path, nil, sitetest.Bearer(text)).Wants(t, want)
	}
	if j.Status(t.Context()).Behind == 0 {
		t.Error("a refused request restored the changes")
	}
	s.Do(http.MethodPost, path, nil, sitetest.Bearer(s.NewToken(token.Write))).Wants(t, http.StatusOK,
		`"left":0`)
}

// Audit entries that only the journal has are listed, exported, reverted and verified
// like others. While the journal is unavailable, these requests fail.
func TestAuditEntriesInJournal(t *testing.T) {
	s, j, folder := newJournalSite(t)
	s.Post("/keys/{acme}/edit", fields("name", "acme 2", "plan", "free", "version", "1", "lasts", "never",
		"reason", "the oldest")).Wants(t, http.StatusSeeOther)
	for range 150 {
		err := s.Keys.Audit().Append(t.Context(), audit.Entry{By: audit.Actor{Kind: "user", Name: "ada"},
			Action: audit.KeyReset, Subject: s.Keys.IDs["acme"]})
		if err != nil {
			t.Fatal(err)
		}
	}
	if err := j.Upkeep(t.Context(), time.Nanosecond); err != nil {
		t.Fatal(err)
	}
	if v := s.Get("/keys/{acme}").Wants(t, http.StatusOK).Body; strings.Contains(v, "the oldest") {
		t.Error("the key's page lists the oldest change, so it is still in Valkey")
	}
	last, pages := "/audit?subject={acme}", 0
	for next := last; next != ""; pages++ {
		last = next
		next = ""
		if m := regexp.MustCompile(`href="(/audit\?[^"]*after=[^"]+)"`).FindStringSubmatch(
			s.Get(last).Wants(t, http.StatusOK).Body); m != nil {
			next = strings.ReplaceAll(m[1], "&amp;", "&")
		}
	}
	if pages < 3 {
		t.Errorf("the audit log has %d pages, want at least 3", pages)
	}
	s.Get(last).Wants(t, http.StatusOK, "the oldest", "key.create")
	s.Get("/audit?subject={acme}&what=key.edit").Wants(t, http.StatusOK, "the oldest")
	s.Get("/audit.csv?subject={acme}&what=key.edit").Wants(t, http.StatusOK, "the oldest")
	edits := "/api/v1/audit?action=key.edit&subject=" + s.Keys.IDs["acme"]
	s.Get(edits).Wants(t, http.StatusOK, "the oldest")
	s.Get("/audit/verify").Wants(t, http.StatusOK, "entries are intact and in order")
	s.Get("/api/v1/audit/verify").Wants(t, http.StatusOK, `"good":true`, `"unread":[]`)
	s.Get(revertLink(s, "/audit?subject={acme}&what=key.edit")).Wants(t, http.StatusOK, "acme 2")

	if err := os.Rename(folder, folder+"-away"); err != nil {
		t.Fatal(err)
	}
	s.Get(last).Wants(t, http.StatusServiceUnavailable, "The journal is unavailable",
		"Older changes are stored there.")
	s.Get(edits).Wants(t, http.StatusServiceUnavailable, "The older entries are in the journal")
	s.Get("/audit/verify").Wants(t, http.StatusOK, "older entries of 1 audit chain could not be read")
	s.Get("/api/v1/audit/verify").Wants(t, http.StatusOK, `"good":false`, `"unread":[`)
	s.Get("/keys/{acme}").Wants(t, http.StatusOK)
}
