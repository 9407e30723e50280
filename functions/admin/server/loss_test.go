package server_test

import (
	"bytes"
	"context"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"tidegate/functions/admin/server"
	"tidegate/internal/audit"
	"tidegate/internal/journal"
	"tidegate/internal/objects"
	"tidegate/internal/testing/sitetest"
)

// slowJournal is a journal in a folder that calls before on each read.
type slowJournal struct {
	journal.Store
	before func()
}

func (s *slowJournal) Read(ctx context.Context, name string) ([]byte, error) {
	s.before()
	return s.Store.Read(ctx, name)
}

// lossySite returns a site whose Valkey lost everything after a log-in, with its journal
// and its log.
func lossySite(t *testing.T) (s *sitetest.Site, folder *slowJournal, log *bytes.Buffer) {
	t.Helper()
	store, err := objects.Open(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	folder, log = &slowJournal{store, func() {}}, &bytes.Buffer{}
	keys := sitetest.NewRegistry(t, "acme")
	j := journal.New(folder, keys.Client, audit.NewKey(sitetest.Pepper), false,
		slog.New(slog.DiscardHandler))
	keys.Audit().UseJournal(j)
	s = sitetest.New(t, sitetest.WithKeys(keys), sitetest.WithServices(func(services *server.Services) {
		services.Journal, services.Log = j, slog.New(slog.NewTextHandler(log, nil))
	})).Login()
	s.Store.FlushAll()
	keys.Server.FlushAll()
	if err := j.Check(t.Context()); err != nil {
		t.Fatal(err)
	}
	return s, folder, log
}

// After Valkey lost everything, including the audit entries of log-ins, an editor can log
// in and restore. The function's log has that log-in, and the audit log has the restore.
func TestLoginAfterLoss(t *testing.T) {
	s, _, log := lossySite(t)
	s.Post("/login", loginForm(sitetest.User, "wrong")).Wants(t, http.StatusUnauthorized)
	if strings.Contains(log.String(), "user="+sitetest.User) {
		t.Errorf("the log has a refused log-in: %s", log)
	}
	s.Login().Get("/").Wants(t, http.StatusOK, "Valkey lost changes in", "Restore lost changes")
	if !strings.Contains(log.String(), "user="+sitetest.User) {
		t.Errorf("the log lacks the log-in: %s", log)
	}
	s.Post("/journal/restore", nil).Wants(t, http.StatusSeeOther)
	s.Get("/audit?what=journal.restore").Wants(t, http.StatusOK, sitetest.User)
	s.Login().Get("/audit/verify").Wants(t, http.StatusOK, "entries are intact and in order")
}

// A restore may take longer than the deadline of other requests.
func TestLongRestore(t *testing.T) {
	s, folder, log := lossySite(t)
	s.Login()
	ctx, expire := context.WithCancel(t.Context())
	folder.before = expire // the request's context ends before anything is restored
	r := httptest.NewRequestWithContext(ctx, http.MethodPost, s.Address+"/journal/restore", nil)
	r.Header.Set("Sec-Fetch-Site", "same-origin")
	r.AddCookie(s.Cookie())
	w := httptest.NewRecorder()
	s.Server.Config.Handler.ServeHTTP(w, r)
	if w.Code != http.StatusSeeOther || ctx.Err() == nil {
		t.Fatalf("got status %d, context %v, want 303 after the context ended; %s", w.Code, ctx.Err(), log)
	}
	s.Get("/keys").Wants(t, http.StatusOK, "Restored. Counts start empty.")
}
