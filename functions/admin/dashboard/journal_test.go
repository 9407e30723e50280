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
	"tidegate/functions/admin/server/sitetest"
	"tidegate/internal/audit"
	"tidegate/internal/journal"
	"tidegate/internal/policy"
	"tidegate/internal/registry"
)

// journalled is a site with keys from before its journal, which lies in the folder.
func journalled(t *testing.T) (s *sitetest.Site, j *journal.Journal, folder string) {
	t.Helper()
	folder = filepath.Join(t.TempDir(), "journal")
	kept, err := journal.OpenStore(folder)
	if err != nil {
		t.Fatal(err)
	}
	keys := sitetest.NewRegistry(t, "acme", "bolt")
	j = journal.New(kept, keys.Client, audit.NewKey(sitetest.Pepper), false, slog.New(slog.DiscardHandler))
	keys.Audit().UseJournal(j)
	s = sitetest.New(t, sitetest.WithKeys(keys), sitetest.WithServices(func(services *server.Services) {
		services.Journal = j
	})).Login()
	return s, j, folder
}

// While the journal is unavailable, an edit is refused and a revocation acts; every page
// says that it is not safe yet, until it is.
func TestJournalUnavailable(t *testing.T) {
	s, _, folder := journalled(t)
	if err := os.Rename(folder, folder+"-away"); err != nil {
		t.Fatal(err)
	}
	s.Post("/keys/{bolt}/edit", fields("name", "bolt 2", "plan", "free", "version", "1", "lasts",
		"never")).Wants(
		t, http.StatusServiceUnavailable, "The journal does not answer", "Nothing was changed.")
	s.Post("/keys/{acme}/revoke", fields("version", "1", "reason", "leaked")).Wants(t, http.StatusSeeOther)
	s.Get("/keys").Wants(t, http.StatusOK, "1 change is not safe yet", "revoked")
	if err := os.Rename(folder+"-away", folder); err != nil {
		t.Fatal(err)
	}
	s.Post("/keys/{bolt}/revoke", fields("version", "1", "reason", "leaked")).Wants(t, http.StatusSeeOther)
}

// Every page says that Valkey lost changes, and a click restores them.
func TestRestoreLost(t *testing.T) {
	s, j, _ := journalled(t)
	for _, name := range []string{"acme", "bolt"} {
		s.Post("/keys/{"+name+"}/revoke", fields("version", "1", "reason", "leaked")).Wants(t,
			http.StatusSeeOther)
	}
	s.Keys.Server.FlushAll()
	if err := j.Check(t.Context()); err != nil {
		t.Fatal(err)
	}
	s.Get("/settings").Wants(t, http.StatusOK, "Valkey lost changes, in", "Restore lost changes")
	s.Get("/api/v1/journal").Wants(t, http.StatusOK, `"behind":`)
	s.Post("/journal/restore", nil).Wants(t, http.StatusSeeOther)
	s.Get("/keys").Wants(t, http.StatusOK, "Restored. Counts start empty.", "acme", "bolt", "revoked")
	s.Get("/api/v1/journal").Wants(t, http.StatusOK, `{"unsafe":0,"behind":0,"away":false}`)
}

// A restore leaves a part with changes that the journal lacks, and says what to do.
func TestRestoreLeavesNewer(t *testing.T) {
	s, _, _ := journalled(t)
	s.Post("/keys/{acme}/revoke", fields("version", "1", "reason", "leaked")).Wants(t, http.StatusSeeOther)
	without := registry.NewStore(s.Keys.Client, sitetest.Pepper)
	edit := registry.Edit{By: audit.Actor{Kind: "user", Name: "ada"}, Reason: "without a journal"}
	if err := without.Delete(t.Context(), s.Keys.IDs["acme"], edit); err != nil {
		t.Fatal(err)
	}
	s.Do(http.MethodPost, "/api/v1/journal/restore", nil, sitetest.Bearer(s.NewToken(token.Write))).Wants(t,
		http.StatusConflict, "were left as they are", "scripts/restore -dry-run")
	s.Post("/journal/restore", nil).Wants(t, http.StatusServiceUnavailable, "Not everything was restored",
		"scripts/restore")
	if _, err := without.Get(t.Context(), s.Keys.IDs["acme"]); !errors.Is(err, policy.ErrNotFound) {
		t.Errorf("the restore took back a deletion: %v", err)
	}
}

// Only who may edit restores: not a read or settle token, a revoked one, or nobody.
func TestWhoRestores(t *testing.T) {
	s, j, _ := journalled(t)
	s.Post("/keys/{acme}/revoke", fields("version", "1", "reason", "leaked")).Wants(t, http.StatusSeeOther)
	s.Keys.Server.FlushAll()
	if err := j.Check(t.Context()); err != nil {
		t.Fatal(err)
	}
	revoked := s.NewToken(token.Write)
	list, err := s.Tokens.List(t.Context())
	if err != nil || len(list) != 1 {
		t.Fatal(list, err)
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
		t.Error("somebody restored who may not")
	}
	s.Do(http.MethodPost, path, nil, sitetest.Bearer(s.NewToken(token.Write))).Wants(t, http.StatusOK,
		`"left":0`)
}

// Changes that left Valkey are on the same pages, can be reverted, and count when the
// chains are checked. While the journal is unavailable, the pages say so.
func TestOlderChanges(t *testing.T) {
	s, j, folder := journalled(t)
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
		t.Error("the oldest change is still in Valkey")
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
		t.Errorf("%d pages", pages)
	}
	s.Get(last).Wants(t, http.StatusOK, "the oldest", "key.create")
	s.Get("/audit?subject={acme}&what=key.edit").Wants(t, http.StatusOK, "the oldest")
	s.Get("/audit.csv?subject={acme}&what=key.edit").Wants(t, http.StatusOK, "the oldest")
	edits := "/api/v1/audit?action=key.edit&subject=" + s.Keys.IDs["acme"]
	s.Get(edits).Wants(t, http.StatusOK, "the oldest")
	s.Get("/audit/verify").Wants(t, http.StatusOK, "entries are as they were written")
	s.Get("/api/v1/audit/verify").Wants(t, http.StatusOK, `"good":true`, `"unread":[]`)
	s.Get(revertOf(s, "/audit?subject={acme}&what=key.edit")).Wants(t, http.StatusOK, "acme 2")

	if err := os.Rename(folder, folder+"-away"); err != nil {
		t.Fatal(err)
	}
	s.Get(last).Wants(t, http.StatusServiceUnavailable, "The journal does not answer",
		"It has the older changes.")
	s.Get(edits).Wants(t, http.StatusServiceUnavailable, "has the older entries")
	s.Get("/audit/verify").Wants(t, http.StatusOK, "older entries of 1 of the chains could not be read")
	s.Get("/api/v1/audit/verify").Wants(t, http.StatusOK, `"good":false`, `"unread":[`)
	s.Get("/keys/{acme}").Wants(t, http.StatusOK)
}
