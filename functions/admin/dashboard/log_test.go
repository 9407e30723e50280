package dashboard_test

import (
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"tidegate/functions/admin/auth/token"
	"tidegate/internal/registry"
	"tidegate/internal/testing/sitetest"
)

// While the log is away, an edit is refused and saves nothing. A ban acts at once and says
// that it is not stored yet, on the page as in the API. It is stored when the log is back.
func TestLogAway(t *testing.T) {
	s := sitetest.New(t).Login()
	write := s.NewToken(token.Write)
	away := s.Keys.LogAt + ".away"
	s.Keys.Must(os.Rename(s.Keys.LogAt, away))
	s.Post(limitsPath, sitetest.LimitsForm("{acme#}", "5 per hour")).Wants(t, http.StatusServiceUnavailable,
		"The log of changes is unavailable")
	if s.Keys.Key("acme").Override != nil {
		t.Error("the edit was saved")
	}
	s.Post("/keys/{acme}/ban", fields("version", "{acme#}", "lasts", "1h", "reason", "abuse")).
		Wants(t, http.StatusSeeOther)
	s.Get("/keys/{acme}").Wants(t, http.StatusOK, "In force, but not stored yet.",
		"The log of changes is unavailable. Edits are refused.",
		"1 revocation or ban acts, but is not stored yet.", "banned")
	got := s.Do(http.MethodPost, "/api/v1/keys/{bolt}/revoke", nil,
		http.Header{"Authorization": {"Bearer " + write}}).Wants(t, http.StatusAccepted)
	if note := got.Header.Get("Tidegate-Note"); !strings.Contains(note, "not stored yet") {
		t.Errorf("got the note %q, want that the revocation is not stored yet", note)
	}
	s.Keys.Must(os.Rename(away, s.Keys.LogAt))
	s.Keys.Must(s.Keys.CatchUp(t.Context()))
	s.Get("/audit").Wants(t, http.StatusOK, "abuse")
	for subject, action := range map[string]string{"acme": registry.KeyBan, "bolt": registry.KeyRevoke} {
		page, err := s.Keys.Audit(t.Context(), registry.AuditQuery{Subject: s.Keys.IDs[subject], Count: 1})
		if err != nil || len(page.Entries) != 1 || page.Entries[0].Action != action {
			t.Errorf("%s: got %+v, %v, want %s", subject, page.Entries, err, action)
		}
	}
}

// If Valkey holds a change that the log lost, every page says so, and edits are refused.
func TestLogLacksChanges(t *testing.T) {
	s := sitetest.New(t).Login()
	s.Keys.OverrideKey("acme", sitetest.Per(9, time.Hour))
	files, err := filepath.Glob(filepath.Join(s.Keys.LogAt, "changes", "*", "*"))
	s.Keys.Must(err)
	s.Keys.Must(os.Remove(slices.Max(files)))
	s.Get("/keys").Wants(t, http.StatusOK, "Valkey holds changes that this log lacks: bring the log back",
		"acme")
	s.Post(limitsPath, sitetest.LimitsForm("{acme#}", "5 per hour")).Wants(t, http.StatusServiceUnavailable,
		"Valkey holds changes that this log lacks", "Edits are refused.")
}
