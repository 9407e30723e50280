package dashboard

import (
	"bytes"
	"encoding/json"
	"log/slog"
	"net/http"
	"strings"
	"testing"
	"time"

	"tidegate/functions/admin/auth"
	"tidegate/functions/admin/auth/token"
	"tidegate/internal/policy"
)

var mightyActor = auth.Actor{ID: "password:x", Name: "x", Kind: auth.User, Role: auth.Editor}

func bearer(text string) http.Header { return http.Header{"Authorization": {"Bearer " + text}} }

// A call with a token is who the token says, whatever cookie it brings, and needs no
// Origin: no other site can send it.
func TestBearerOnly(t *testing.T) {
	s := newSite(t).login()
	read, write := s.newToken(token.Read), s.newToken(token.Write)
	s.get("/api/v1/tokens").wants(t, http.StatusOK)
	s.do(http.MethodGet, "/api/v1/tokens", nil, bearer(read)).wants(t, http.StatusForbidden)
	s.do(http.MethodGet, "/api/v1/tokens", nil, bearer("tga_wrong")).wants(t, http.StatusUnauthorized)
	s.do(http.MethodDelete, "/api/v1/tokens/AAAAAAAAAAAA", nil, bearer(write)).wants(t, http.StatusNotFound)
	s.do(http.MethodDelete, "/api/v1/tokens/AAAAAAAAAAAA", nil, nil).wants(t, http.StatusForbidden, "another site")
	for name, header := range map[string]http.Header{
		"empty": {"Authorization": {""}}, "basic": {"Authorization": {"Basic YWRhOng="}}, "no scheme": {"Authorization": {write}},
		"two": {"Authorization": {"Bearer " + write, "Bearer " + write}}, "list": bearer(write + ", " + write), "space": bearer(" " + write),
	} {
		if got := s.do(http.MethodGet, "/api/v1/me", nil, header); got.StatusCode != http.StatusUnauthorized {
			t.Errorf("%s: %d, want 401 though there is a good cookie", name, got.StatusCode)
		}
	}
	s.do(http.MethodGet, "/api/v1/me", nil, http.Header{"Authorization": {"bearer " + write}}).wants(t, http.StatusOK)
	if got := s.do(http.MethodGet, "/api/v1/me", nil, bearer(write)); got.Header.Get("Set-Cookie") != "" {
		t.Error("a machine gets a cookie")
	}
}

// A backend's token settles what was reserved, and is refused the rest with the reason.
func TestSettleToken(t *testing.T) {
	s := newSite(t)
	send := func(scope token.Scope, path, body string) reply {
		header := bearer(s.newToken(scope))
		header.Set("Content-Type", "application/json")
		return s.doText(http.MethodPost, "/api/v1/"+path, body, header)
	}
	reserve := `{"keyId":"` + s.keys.ids["acme"] + `","cost":5}`
	var reserved struct{ Reservation string }
	if err := json.Unmarshal([]byte(send(token.Write, "reservations", reserve).wants(t, http.StatusCreated).body), &reserved); err != nil {
		t.Fatal(err)
	}
	settle := `{"reservation":"` + reserved.Reservation + `","cost":0}`
	send(token.Read, "reservations/settle", settle).wants(t, http.StatusForbidden, "may look, but not change")
	send(token.Settle, "reservations", reserve).wants(t, http.StatusForbidden, "may settle reservations, and nothing else")
	send(token.Settle, "keys/{acme}/revoke", `{"reason":"x"}`).wants(t, http.StatusForbidden, "may settle reservations, and nothing else")
	send(token.Settle, "nothing", "").wants(t, http.StatusForbidden)
	send(token.Settle, "reservations/settle", settle).wants(t, http.StatusOK, `"reserved":5`, `"actual":0`)
	if s.keys.key("acme").Status != policy.Active {
		t.Error("revoked")
	}
}

// A token opens no page, and exempts no page from the check of where a change comes from.
func TestBearerOpensNoPage(t *testing.T) {
	s := newSite(t)
	write := s.newToken(token.Write)
	s.do(http.MethodGet, "/keys", nil, bearer(write)).wants(t, http.StatusSeeOther)
	s.login()
	s.do(http.MethodPost, "/logout", nil, bearer(write)).wants(t, http.StatusForbidden, "another site")
}

// A path that only begins like the API's gets no page changed by a machine.
func TestBearerAroundThePath(t *testing.T) {
	s := newSite(t).login()
	write := s.newToken(token.Write)
	for _, path := range []string{
		"/api/../keys/AAAAAAAAAAAA/limits", "/api/v1/..%2f..%2fkeys/AAAAAAAAAAAA/limits", "/api//../keys/AAAAAAAAAAAA/limits", "//api/v1/me", "/API/v1/me",
	} {
		got := s.do(http.MethodPost, path, limitsOf(1, [4]string{"99", "1", "hour", "log"}), bearer(write))
		if got.StatusCode < 300 || s.keys.written() != 0 {
			t.Errorf("%s: %d, %d writes", path, got.StatusCode, s.keys.written())
		}
	}
}

// Errors of the API are JSON, and say how to do better.
func TestAPIErrors(t *testing.T) {
	s := newSite(t)
	for path, status := range map[string]int{"/api/v1/me": 401, "/api/v1/nothing": 401, "/api/": 401} {
		got := s.get(path).wants(t, status)
		var p struct {
			Status int
			Title  string
			Detail string
		}
		if err := json.Unmarshal([]byte(got.body), &p); err != nil || p.Status != status || p.Title == "" || p.Detail == "" {
			t.Errorf("%s: %v %q", path, err, got.body)
		}
		if got.Header.Get("Content-Type") != "application/problem+json" || !strings.HasPrefix(got.Header.Get("WWW-Authenticate"), "Bearer") {
			t.Errorf("%s: %v", path, got.Header)
		}
	}
	got := s.do(http.MethodPost, "/api/v1/me", nil, bearer(s.newToken(token.Read))).wants(t, http.StatusMethodNotAllowed)
	if got.Header.Get("Allow") != "GET, HEAD" {
		t.Errorf("Allow: %q", got.Header.Get("Allow"))
	}
	s.store.SetError("ERR out of order")
	got = s.do(http.MethodGet, "/api/v1/me", nil, bearer("tga_"+strings.Repeat("a", 49))).wants(t, http.StatusUnauthorized)
	if strings.Contains(got.body, "out of order") {
		t.Errorf("says too much: %s", got.body)
	}
}

// Without the store no token is good, and the caller learns when to come back.
func TestTokensWithoutStore(t *testing.T) {
	s := newSite(t)
	read := s.newToken(token.Read)
	s.do(http.MethodGet, "/api/v1/me", nil, bearer(read)).wants(t, http.StatusOK)
	s.store.SetError("ERR out of order")
	got := s.do(http.MethodGet, "/api/v1/me", nil, bearer(read)).wants(t, http.StatusServiceUnavailable)
	if got.Header.Get("Retry-After") == "" || strings.Contains(got.body, "out of order") {
		t.Errorf("%v %s", got.Header, got.body)
	}
}

func TestMe(t *testing.T) {
	s := newSite(t)
	for name, row := range map[string]struct {
		header http.Header
		want   string
	}{
		"token":   {bearer(s.newToken(token.Read)), `"name":"t","kind":"token","role":"viewer"}`},
		"session": {nil, `{"id":"password:vic","name":"vic","kind":"user","role":"viewer"}`},
	} {
		if name == "session" {
			s.loginAs(testViewer)
		}
		s.do(http.MethodGet, "/api/v1/me", nil, row.header).wants(t, http.StatusOK, row.want)
	}
}

// A token is listed without its secret, shows the minute of its last use, and is gone
// when a machine revokes it.
func TestTokensOverTheAPI(t *testing.T) {
	s := newSite(t)
	write := s.newToken(token.Write)
	id := write[len("tga_"):][:12]
	before := time.Now().UTC().Truncate(time.Minute)
	got := s.do(http.MethodGet, "/api/v1/tokens", nil, bearer(write)).wants(t, http.StatusOK, `"id":"`+id+`"`, `"scope":"write"`)
	if strings.Contains(got.body, write) || strings.Contains(got.body, write[20:]) {
		t.Errorf("the secret is shown: %s", got.body)
	}
	var list struct {
		Items []struct{ LastUsed time.Time }
	}
	if err := json.Unmarshal([]byte(got.body), &list); err != nil || len(list.Items) != 1 || list.Items[0].LastUsed.Before(before) {
		t.Errorf("%v %+v", err, list)
	}
	s.do(http.MethodDelete, "/api/v1/tokens/"+id, nil, bearer(write)).wants(t, http.StatusNoContent)
	s.do(http.MethodGet, "/api/v1/me", nil, bearer(write)).wants(t, http.StatusUnauthorized)
}

// A whole key or token in the place of an id reaches neither the answer nor the log.
func TestSecretsInPaths(t *testing.T) {
	var log bytes.Buffer
	s := newSite(t, withServices(func(services *Services) { services.Log = slog.New(slog.NewTextHandler(&log, nil)) }))
	write := s.newToken(token.Write)
	secret := s.keys.secrets["acme"].Reveal()
	for _, path := range []string{"/api/v1/keys/" + secret, "/api/v1/keys/" + secret + "/usage", "/api/v1/tokens/" + write, "/keys/" + secret} {
		got := s.do(http.MethodGet, path, nil, bearer(write))
		if strings.Contains(got.body, secret) || got.StatusCode == http.StatusOK {
			t.Errorf("%d %s", got.StatusCode, got.body)
		}
	}
	if text := log.String(); strings.Contains(text, secret) || strings.Contains(text, write) || !strings.Contains(text, "/api/v1/keys/…/usage") {
		t.Errorf("the log has a secret: %s", text)
	}
}

// What comes with a session is held to the origin, what comes with a token is not, and no
// answer may be cached.
func TestAPIWithSession(t *testing.T) {
	s := newSite(t).login()
	body := `{"name":"made","plan":"free"}`
	send := func(header http.Header) reply {
		header.Set("Content-Type", "application/json")
		return s.doText(http.MethodPost, "/api/v1/keys", body, header)
	}
	for name, header := range map[string]http.Header{
		"neither": {}, "cross site": {"Sec-Fetch-Site": {"cross-site"}}, "another origin": {"Origin": {"https://evil.example"}},
	} {
		if got := send(header); got.StatusCode != http.StatusForbidden || got.Header.Get("Content-Type") != "application/problem+json" {
			t.Errorf("%s: %d %s", name, got.StatusCode, got.body)
		}
	}
	got := send(http.Header{"Sec-Fetch-Site": {"same-origin"}}).wants(t, http.StatusCreated, `"secret":"tg_live_`)
	if got.Header.Get("Cache-Control") != "no-store" {
		t.Errorf("Cache-Control %q", got.Header.Get("Cache-Control"))
	}
	send(bearer(s.newToken(token.Write))).wants(t, http.StatusCreated)
	send(bearer(s.newToken(token.Read))).wants(t, http.StatusForbidden)
	large := strings.Repeat(" ", maxBody) + body
	s.doText(http.MethodPost, "/api/v1/keys", large, http.Header{"Sec-Fetch-Site": {"same-origin"}, "Content-Type": {"application/json"}}).
		wants(t, http.StatusRequestEntityTooLarge)
	s.doText(http.MethodPut, "/api/v1/policy.yaml?dry_run=true", strings.Repeat("# \n", maxBody), http.Header{
		"Sec-Fetch-Site": {"same-origin"}, "Content-Type": {"application/yaml"},
	}).wants(t, http.StatusUnprocessableEntity, "the file is empty")
}
