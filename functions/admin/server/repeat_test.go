package server_test

import (
	"net/http"
	"strings"
	"testing"

	"tidegate/functions/admin/auth/token"
	"tidegate/internal/testing/sitetest"
)

// A creation that a machine repeats is answered as the first one was, with a note.
func TestRepeatedRequestIsNoted(t *testing.T) {
	s := sitetest.New(t)
	header := sitetest.Bearer(s.NewToken(token.Write))
	header.Set("Content-Type", "application/json")
	header.Set("Idempotency-Key", "5f6c1f0e-9b7a-4c39-8f0e-0d6f1c1b8a52")
	create := func() sitetest.Reply {
		t.Helper()
		return s.DoText(http.MethodPost, "/api/v1/keys", `{"name":"repeated","plan":"free"}`, header).
			Wants(t, http.StatusCreated, `"secret":"tg_live_`)
	}
	first, again := create(), create()
	if note := again.Header.Get("Tidegate-Note"); again.Body != first.Body ||
		!strings.Contains(note, "earlier request") || first.Header.Get("Tidegate-Note") != "" {
		t.Errorf("got %s and the note %q, want %s and a note", again.Body, note, first.Body)
	}
}
