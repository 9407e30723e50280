package dashboard_test

import (
	"bytes"
	"fmt"
	"log/slog"
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"

	"tidegate/functions/admin/server"
	"tidegate/functions/admin/server/sitetest"
)

// A search leads to the key whose id or secret was typed, with spaces around it or not. A
// secret is in no page, no address and no log, whether it is one of ours or mistyped.
func TestFindKey(t *testing.T) {
	var log bytes.Buffer
	s := sitetest.New(t, sitetest.WithServices(func(services *server.Services) {
		services.Log = slog.New(slog.NewTextHandler(&log, nil))
	})).LoginAs(sitetest.Viewer)
	secret, id, spaced := s.Keys.Secrets["acme"].Reveal(), s.Keys.IDs["acme"], " acme"
	for typed, want := range map[string]string{
		secret: "/keys/" + id, "  " + secret + "\n": "/keys/" + id, " " + id: "/keys/" + id,
		secret[:len(secret)-1] + "!": "/keys", secret[:40]: "/keys", spaced: "/keys?q=acme",
		"//evil.example": "/keys?q=%2F%2Fevil.example", "nobody": "/keys?q=nobody", "": "/keys",
		"tg_team": "/keys?q=tg_team",
	} {
		found := s.Post("/search", url.Values{"q": {typed}}).Wants(t, http.StatusSeeOther)
		if at := found.Header.Get("Location"); s.Keys.Named(at) != s.Keys.Named(want) {
			t.Errorf("%.20q leads to %s, want %s", typed, at, want)
		}
	}
	at := s.Get("/keys?q=+"+url.QueryEscape(secret)).Wants(t, http.StatusSeeOther)
	if s.Keys.Named(at.Header.Get("Location")) != "/keys/"+id || strings.Contains(at.Body, secret) {
		t.Errorf("a secret in the address leads to %s", at.Header.Get("Location"))
	}
	if strings.Contains(log.String(), secret[20:40]) || strings.Contains(s.Store.Dump(), secret[20:40]) {
		t.Error("the secret is in the log or the store")
	}
}

// A search finds any part of a name when asked to, and goes on to the end of many keys.
func TestFindAnywhere(t *testing.T) {
	keys := sitetest.NewRegistry(t)
	keys.Plan("free", sitetest.Per(10, time.Minute))
	for i := range 600 {
		keys.CreateKey(fmt.Sprintf("customer-%03d", i), "free")
	}
	keys.CreateKey("zeta corp", "free")
	s := sitetest.New(t, sitetest.WithKeys(keys)).Login()
	s.Get("/keys?q=corp").Wants(t, http.StatusOK, "No name starts with")
	at := "/keys?in=name&q=+CORP"
	for steps := 0; ; steps++ {
		body := s.Get(at).Wants(t, http.StatusOK).Body
		if strings.Contains(body, "<bdi>zeta corp</bdi></a>") {
			break
		}
		next := nextInPage.FindStringSubmatch(body)
		if next == nil || steps > 50 {
			t.Fatalf("not found:\n%s", body)
		}
		at = strings.ReplaceAll(next[1], "&amp;", "&")
	}
	s.Get("/keys/bulk?do=end&of=all&in=name&q=corp").Wants(t, http.StatusOK, "whose name contains “corp”")
}
