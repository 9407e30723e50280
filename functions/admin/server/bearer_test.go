package server_test

import (
	"bytes"
	"encoding/json"
	"log/slog"
	"net/http"
	"strings"
	"testing"
	"time"

	"tidegate/functions/admin/auth/token"
	"tidegate/functions/admin/server"
	"tidegate/functions/admin/server/sitetest"
	"tidegate/internal/policy"
)

// A call with a token is who the token says, whatever cookie it brings, and needs no
// Origin: no other site can send it.
func TestBearerOnly(t *testing.T) {
	s := sitetest.New(t).Login()
	read, write := s.NewToken(token.Read), s.NewToken(token.Write)
	s.Get("/api/v1/tokens").Wants(t, http.StatusOK)
	s.Do(http.MethodGet, "/api/v1/tokens", nil, sitetest.Bearer(read)).Wants(t, http.StatusForbidden)
	s.Do(http.MethodGet, "/api/v1/tokens", nil, sitetest.Bearer("tga_wrong")).Wants(t,
		http.StatusUnauthorized)
	s.Do(
		http.MethodDelete, "/api/v1/tokens/AAAAAAAAAAAA", nil, sitetest.Bearer(write),
	).Wants(t, http.StatusNotFound)
	s.Do(http.MethodDelete, "/api/v1/tokens/AAAAAAAAAAAA", nil, nil).Wants(
		t, http.StatusForbidden, "another site",
	)
	for name, header := range map[string]http.Header{
		"empty": {"Authorization": {""}}, "basic": {"Authorization": {"Basic YWRhOng="}},
		"no scheme": {"Authorization": {write}},
		"two":       {"Authorization": {"Bearer " + write, "Bearer " + write}},
		"list":      sitetest.Bearer(write + ", " + write), "space": sitetest.Bearer(" " + write),
	} {
		if got := s.Do(http.MethodGet, "/api/v1/me", nil, header); got.StatusCode != http.StatusUnauthorized {
			t.Errorf("%s: %d, want 401 though there is a good cookie", name, got.StatusCode)
		}
	}
	s.Do(http.MethodGet, "/api/v1/me", nil, http.Header{
		"Authorization": {"bearer " + write},
	}).Wants(t, http.StatusOK)
	if got := s.Do(
		http.MethodGet, "/api/v1/me", nil, sitetest.Bearer(write),
	); got.Header.Get("Set-Cookie") != "" {
		t.Error("a machine gets a cookie")
	}
}

// A backend's token settles what was reserved, and is refused the rest with the reason.
func TestSettleToken(t *testing.T) {
	s := sitetest.New(t)
	send := func(scope token.Scope, path, body string) sitetest.Reply {
		header := sitetest.Bearer(s.NewToken(scope))
		header.Set("Content-Type", "application/json")
		return s.DoText(http.MethodPost, "/api/v1/"+path, body, header)
	}
	reserve := `{"keyId":"` + s.Keys.IDs["acme"] + `","cost":5}`
	var reserved struct{ Reservation string }
	if err := json.Unmarshal(
		[]byte(send(token.Write, "reservations", reserve).Wants(t, http.StatusCreated).Body), &reserved,
	); err != nil {
		t.Fatal(err)
	}
	settle := `{"reservation":"` + reserved.Reservation + `","cost":0}`
	send(token.Read, "reservations/settle", settle).Wants(t, http.StatusForbidden, "Editor role required")
	send(token.Settle, "reservations", reserve).Wants(
		t, http.StatusForbidden, "may only settle reservations",
	)
	send(token.Settle, "keys/{acme}/revoke", `{"reason":"x"}`).Wants(
		t, http.StatusForbidden, "may only settle reservations",
	)
	send(token.Settle, "nothing", "").Wants(t, http.StatusForbidden)
	send(token.Settle, "reservations/settle", settle).Wants(t, http.StatusOK, `"reserved":5`, `"actual":0`)
	if s.Keys.Key("acme").Status != policy.Active {
		t.Error("revoked")
	}
}

// A token opens no page, and exempts no page from the check of where a change comes from.
func TestBearerOpensNoPage(t *testing.T) {
	s := sitetest.New(t)
	write := s.NewToken(token.Write)
	s.Do(http.MethodGet, "/keys", nil, sitetest.Bearer(write)).Wants(t, http.StatusSeeOther)
	s.Login()
	s.Do(http.MethodPost, "/logout", nil, sitetest.Bearer(write)).Wants(t, http.StatusForbidden,
		"another site")
}

// A path that only begins like the API's gets no page changed by a machine.
func TestBearerAroundThePath(t *testing.T) {
	s := sitetest.New(t).Login()
	write := s.NewToken(token.Write)
	for _, path := range []string{
		"/api/../keys/AAAAAAAAAAAA/limits", "/api/v1/..%2f..%2fkeys/AAAAAAAAAAAA/limits",
		"/api//../keys/AAAAAAAAAAAA/limits", "//api/v1/me", "/API/v1/me",
	} {
		got := s.Do(
			http.MethodPost, path, sitetest.LimitsForm(1, [4]string{"99", "1", "hour", "log"}),
			sitetest.Bearer(write),
		)
		if got.StatusCode < 300 || s.Keys.Written() != 0 {
			t.Errorf("%s: %d, %d writes", path, got.StatusCode, s.Keys.Written())
		}
	}
}

// Errors of the API are JSON, and say how to do better.
func TestAPIErrors(t *testing.T) {
	s := sitetest.New(t)
	for path, status := range map[string]int{"/api/v1/me": 401, "/api/v1/nothing": 401, "/api/": 401} {
		got := s.Get(path).Wants(t, status)
		var p struct {
			Status int
			Title  string
			Detail string
		}
		if err := json.Unmarshal([]byte(got.Body), &p); err != nil || p.Status != status || p.Title == "" ||
			p.Detail == "" {
			t.Errorf("%s: %v %q", path, err, got.Body)
		}
		if got.Header.Get("Content-Type") != "application/problem+json" ||
			!strings.HasPrefix(got.Header.Get("WWW-Authenticate"), "Bearer") {
			t.Errorf("%s: %v", path, got.Header)
		}
	}
	got := s.Do(http.MethodPost, "/api/v1/me", nil, sitetest.Bearer(s.NewToken(token.Read))).Wants(
		t, http.StatusMethodNotAllowed,
	)
	if got.Header.Get("Allow") != "GET, HEAD" {
		t.Errorf("Allow: %q", got.Header.Get("Allow"))
	}
	s.Store.SetError("ERR out of order")
	got = s.Do(
		http.MethodGet, "/api/v1/me", nil, sitetest.Bearer("tga_"+strings.Repeat("a", 49)),
	).Wants(t, http.StatusUnauthorized)
	if strings.Contains(got.Body, "out of order") {
		t.Errorf("says too much: %s", got.Body)
	}
}

// Without the store no token is good, and the caller learns when to come back.
func TestTokensWithoutStore(t *testing.T) {
	s := sitetest.New(t)
	read := s.NewToken(token.Read)
	s.Do(http.MethodGet, "/api/v1/me", nil, sitetest.Bearer(read)).Wants(t, http.StatusOK)
	s.Store.SetError("ERR out of order")
	got := s.Do(http.MethodGet, "/api/v1/me", nil, sitetest.Bearer(read)).Wants(t,
		http.StatusServiceUnavailable)
	if got.Header.Get("Retry-After") == "" || strings.Contains(got.Body, "out of order") {
		t.Errorf("%v %s", got.Header, got.Body)
	}
}

func TestMe(t *testing.T) {
	s := sitetest.New(t)
	for name, row := range map[string]struct {
		header http.Header
		want   string
	}{
		"token":   {sitetest.Bearer(s.NewToken(token.Read)), `"name":"t","kind":"token","role":"viewer"}`},
		"session": {nil, `{"id":"password:vic","name":"vic","kind":"user","role":"viewer"}`},
	} {
		if name == "session" {
			s.LoginAs(sitetest.Viewer)
		}
		s.Do(http.MethodGet, "/api/v1/me", nil, row.header).Wants(t, http.StatusOK, row.want)
	}
}

// A token is listed without its secret, shows the minute of its last use, and is gone
// when a machine revokes it.
func TestTokensOverTheAPI(t *testing.T) {
	s := sitetest.New(t)
	write := s.NewToken(token.Write)
	id := write[len("tga_"):][:12]
	before := time.Now().UTC().Truncate(time.Minute)
	got := s.Do(http.MethodGet, "/api/v1/tokens", nil, sitetest.Bearer(write)).Wants(
		t, http.StatusOK, `"id":"`+id+`"`, `"scope":"write"`,
	)
	if strings.Contains(got.Body, write) || strings.Contains(got.Body, write[20:]) {
		t.Errorf("the secret is shown: %s", got.Body)
	}
	var list struct {
		Items []struct{ LastUsed time.Time }
	}
	if err := json.Unmarshal([]byte(got.Body), &list); err != nil || len(list.Items) != 1 ||
		list.Items[0].LastUsed.Before(before) {
		t.Errorf("%v %+v", err, list)
	}
	s.Do(http.MethodDelete, "/api/v1/tokens/"+id, nil, sitetest.Bearer(write)).Wants(t, http.StatusNoContent)
	s.Do(http.MethodGet, "/api/v1/me", nil, sitetest.Bearer(write)).Wants(t, http.StatusUnauthorized)
}

// A whole key or token in the place of an id reaches neither the answer nor the log.
func TestSecretsInPaths(t *testing.T) {
	var log bytes.Buffer
	s := sitetest.New(t, sitetest.WithServices(func(services *server.Services) {
		services.Log = slog.New(slog.NewTextHandler(&log, nil))
	}))
	write := s.NewToken(token.Write)
	secret := s.Keys.Secrets["acme"].Reveal()
	for _, path := range []string{"/api/v1/keys/" + secret, "/api/v1/keys/" + secret + "/usage",
		"/api/v1/tokens/" + write, "/keys/" + secret} {
		got := s.Do(http.MethodGet, path, nil, sitetest.Bearer(write))
		if strings.Contains(got.Body, secret) || got.StatusCode == http.StatusOK {
			t.Errorf("%d %s", got.StatusCode, got.Body)
		}
	}
	if text := log.String(); strings.Contains(text, secret) || strings.Contains(text, write) ||
		!strings.Contains(text, "/api/v1/keys/…/usage") {
		t.Errorf("the log has a secret: %s", text)
	}
}

// What comes with a session is held to the origin, what comes with a token is not, and no
// answer may be cached.
func TestAPIWithSession(t *testing.T) {
	s := sitetest.New(t).Login()
	body := `{"name":"made","plan":"free"}`
	send := func(header http.Header) sitetest.Reply {
		header.Set("Content-Type", "application/json")
		return s.DoText(http.MethodPost, "/api/v1/keys", body, header)
	}
	for name, header := range map[string]http.Header{
		"neither": {}, "cross site": {"Sec-Fetch-Site": {"cross-site"}},
		"another origin": {"Origin": {"https://evil.example"}},
	} {
		if got := send(header); got.StatusCode != http.StatusForbidden ||
			got.Header.Get("Content-Type") != "application/problem+json" {
			t.Errorf("%s: %d %s", name, got.StatusCode, got.Body)
		}
	}
	got := send(http.Header{"Sec-Fetch-Site": {"same-origin"}}).Wants(
		t, http.StatusCreated, `"secret":"tg_live_`,
	)
	if got.Header.Get("Cache-Control") != "no-store" {
		t.Errorf("Cache-Control %q", got.Header.Get("Cache-Control"))
	}
	send(sitetest.Bearer(s.NewToken(token.Write))).Wants(t, http.StatusCreated)
	send(sitetest.Bearer(s.NewToken(token.Read))).Wants(t, http.StatusForbidden)
	large := strings.Repeat(" ", server.MaxBody) + body
	s.DoText(http.MethodPost, "/api/v1/keys", large, http.Header{
		"Sec-Fetch-Site": {"same-origin"}, "Content-Type": {"application/json"},
	}).
		Wants(t, http.StatusRequestEntityTooLarge)
	s.DoText(http.MethodPut, "/api/v1/policy.yaml?dry_run=true",
		strings.Repeat("# \n", server.MaxBody), http.Header{
			"Sec-Fetch-Site": {"same-origin"}, "Content-Type": {"application/yaml"},
		}).Wants(t, http.StatusUnprocessableEntity, "the file is empty")
}
