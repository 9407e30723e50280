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
	"tidegate/functions/admin/server/sitetest"
	"tidegate/internal/audit"
	"tidegate/internal/journal"
)

// slowJournal is a folder whose reads first call before.
type slowJournal struct {
	journal.Store
	before func()
}

func (s *slowJournal) Read(ctx context.Context, name string) ([]byte, error) {
	s.before()
	return s.Store.Read(ctx, name)
}

// lossySite is a site on which somebody logged in, whose Valkey then lost everything.
func lossySite(t *testing.T) (s *sitetest.Site, kept *slowJournal, log *bytes.Buffer) {
	t.Helper()
	folder, err := journal.OpenStore(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	kept, log = &slowJournal{folder, func() {}}, &bytes.Buffer{}
	keys := sitetest.NewRegistry(t, "acme")
	j := journal.New(kept, keys.Client, audit.NewKey(sitetest.Pepper), false,
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
	return s, kept, log
}

// After Valkey lost everything, the list of log-ins too, an editor gets in and restores.
// The log has that log-in, the audit the restore and who did it.
func TestLoginAfterLoss(t *testing.T) {
	s, _, log := lossySite(t)
	s.Post("/login", loginForm(sitetest.User, "wrong")).Wants(t, http.StatusUnauthorized)
	if strings.Contains(log.String(), "user="+sitetest.User) {
		t.Errorf("the log has a log-in that was refused: %s", log)
	}
	s.Login().Get("/").Wants(t, http.StatusOK, "Valkey lost changes in", "Restore lost changes")
	if !strings.Contains(log.String(), "user="+sitetest.User) {
		t.Errorf("the log-in is in no log: %s", log)
	}
	s.Post("/journal/restore", nil).Wants(t, http.StatusSeeOther)
	s.Get("/audit?what=journal.restore").Wants(t, http.StatusOK, sitetest.User)
	s.Login().Get("/audit/verify").Wants(t, http.StatusOK, "entries are intact and in order")
}

// A restore that takes longer than other requests may is answered like a short one.
func TestLongRestore(t *testing.T) {
	s, kept, log := lossySite(t)
	s.Login()
	ctx, expire := context.WithCancel(t.Context())
	kept.before = expire // the request's time is over before anything was restored
	r := httptest.NewRequestWithContext(ctx, http.MethodPost, s.Address+"/journal/restore", nil)
	r.Header.Set("Sec-Fetch-Site", "same-origin")
	r.AddCookie(s.Cookie())
	w := httptest.NewRecorder()
	s.Server.Config.Handler.ServeHTTP(w, r)
	if w.Code != http.StatusSeeOther || ctx.Err() == nil {
		t.Fatalf("status %d, the request has ended: %v; %s", w.Code, ctx.Err(), log)
	}
	s.Get("/keys").Wants(t, http.StatusOK, "Restored. Counts start empty.")
}
