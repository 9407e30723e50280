package dashboard_test

import (
	"net/http"
	"strings"
	"testing"
	"time"

	"tidegate/internal/testing/sitetest"
)

// A recorded denial shows until its limit frees a call, or until an override replaces the
// limit.
func TestOverrideEndsDenial(t *testing.T) {
	s := sitetest.New(t).Login()
	denied := func() bool {
		body := s.Get("/keys/{acme}").Wants(t, http.StatusOK).Body
		_, body, _ = strings.Cut(body, `<main`)
		return strings.Contains(sitetest.InWords("<main"+body), "denied now")
	}
	denyAt(s, "acme", time.Now(), sampleDenial("10 per 10 seconds"))
	if denied() {
		t.Error("denied now, although the limit has room")
	}
	s.Post("/keys/{acme}/limits", sitetest.LimitsForm("{acme#}", "900 per hour")).
		Wants(t, http.StatusSeeOther)
	if denied() {
		t.Error("denied now by a limit that an override replaces")
	}
}
