package dashboard_test

import (
	"log/slog"
	"net/http"
	"os"
	"path/filepath"
	"testing"

	"tidegate/functions/admin/server"
	"tidegate/functions/admin/server/sitetest"
	"tidegate/internal/audit"
	"tidegate/internal/journal"
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

// While the journal is away, an edit is refused and a revocation acts; every page says
// that it is not safe yet, until it is.
func TestJournalAway(t *testing.T) {
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
