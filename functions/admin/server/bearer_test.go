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
	"tidegate/internal/enforce"
	"tidegate/internal/limits"
	"tidegate/internal/policy"
	"tidegate/internal/route"
	"tidegate/internal/testing/sitetest"
)

// A request with a token has the token's actor, even with a session cookie. It needs no
// Origin, since other sites cannot send a token.
func TestBearerOnly(t *testing.T) {
	s := sitetest.New(t).Login()
	read, write := s.NewToken(token.Read), s.NewToken(token.Write)
	s.Get("/api/v1/tokens").Wants(t, http.StatusOK)
	s.Do(http.MethodGet, "/api/v1/tokens", nil, sitetest.Bearer(read)).Wants(t, http.StatusForbidden)
	s.Do(http.MethodGet, "/api/v1/tokens", nil, sitetest.Bearer("tga_wrong")).Wants(t,
		http.StatusUnauthorized)
	s.Do(http.MethodDelete, "/api/v1/tokens/AAAAAAAAAAAA", nil,
		sitetest.Bearer(write)).Wants(t, http.StatusNotFound)
	s.Do(http.MethodDelete, "/api/v1/tokens/AAAAAAAAAAAA", nil, nil).Wants(t, http.StatusForbidden,
		"another site")
	for name, header := range map[string]http.Header{
		"empty": {"Authorization": {""}}, "basic": {"Authorization": {"Basic YWRhOng="}},
		"no scheme": {"Authorization": {write}},
		"two":       {"Authorization": {"Bearer " + write, "Bearer " + write}},
		"list":      sitetest.Bearer(write + ", " + write), "space": sitetest.Bearer(" " + write),
	} {
		if got := s.Do(http.MethodGet, "/api/v1/me", nil, header); got.StatusCode != http.StatusUnauthorized {
			t.Errorf("%s: got %d, want 401 despite the session cookie", name, got.StatusCode)
		}
	}
	s.Do(http.MethodGet, "/api/v1/me", nil, http.Header{
		"Authorization": {"bearer " + write},
	}).Wants(t, http.StatusOK)
	if got := s.Do(http.MethodGet, "/api/v1/me", nil,
		sitetest.Bearer(write)); got.Header.Get("Set-Cookie") != "" {
		t.Error("the response to a token sets a cookie")
	}
}

// A token with scope settle may settle calls and nothing else.
func TestSettleToken(t *testing.T) {
	s := sitetest.New(t)
	send := func(scope token.Scope, path, body string) sitetest.Reply {
		header := sitetest.Bearer(s.NewToken(scope))
		header.Set("Content-Type", "application/json")
		return s.DoText(http.MethodPost, "/api/v1/"+path, body, header)
	}
	s.Keys.Save(func(set *policy.Set) {
		set.Routes = []limits.Route{{Name: "chat", Match: []route.Pattern{{Path: "/chat"}}, Settle: true,
			Cost: limits.Costs{Units: map[string]int64{limits.Cost: 5}}}}
	})
	secret := s.Keys.Secrets["acme"]
	call, err := enforce.NewChecker(s.Keys.Client, sitetest.Pepper).Check(t.Context(), enforce.Call{
		Kind: policy.APIKey, Subject: secret.ID(), Secret: secret, Route: route.Call{Path: "/chat"}})
	if err != nil {
		t.Fatal(err)
	}
	settle := `{"settlement":"` + call.Settlement + `","cost":0}`
	send(token.Read, "settlements", settle).Wants(t, http.StatusForbidden, "Editor role required")
	send(token.Settle, "keys/{acme}/revoke", `{"reason":"x"}`).Wants(t, http.StatusForbidden,
		"may only settle calls")
	send(token.Settle, "nothing", "").Wants(t, http.StatusForbidden)
	send(token.Settle, "settlements", settle).Wants(t, http.StatusOK, `"reserved":5`, `"actual":0`)
	if s.Keys.Key("acme").Status != policy.Active {
		t.Error("a token with scope settle revoked the key")
	}
}

// A token is not accepted on pages, and does not exempt them from the check of the
// origin.
func TestBearerOpensNoPage(t *testing.T) {
	s := sitetest.New(t)
	write := s.NewToken(token.Write)
	s.Do(http.MethodGet, "/keys", nil, sitetest.Bearer(write)).Wants(t, http.StatusSeeOther)
	s.Login()
	s.Do(http.MethodPost, "/logout", nil, sitetest.Bearer(write)).Wants(t, http.StatusForbidden,
		"another site")
}

// A path that only resembles one of the API does not let a token change pages.
func TestBearerAroundThePath(t *testing.T) {
	s := sitetest.New(t).Login()
	write := s.NewToken(token.Write)
	for _, path := range []string{
		"/api/../keys/AAAAAAAAAAAA/limits", "/api/v1/..%2f..%2fkeys/AAAAAAAAAAAA/limits",
		"/api//../keys/AAAAAAAAAAAA/limits", "//api/v1/me", "/API/v1/me",
	} {
		got := s.Do(http.MethodPost, path, sitetest.LimitsForm("{acme#}", "99 per hour"),
			sitetest.Bearer(write))
		if got.StatusCode < 300 || s.Keys.Written() != 0 {
			t.Errorf("%s: got %d and %d changes, want a refusal", path, got.StatusCode, s.Keys.Written())
		}
	}
}

// Errors of the API are problems in JSON, with the method to authenticate or to use.
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
			t.Errorf("%s: got %v %q, want a complete problem", path, err, got.Body)
		}
		if got.Header.Get("Content-Type") != "application/problem+json" ||
			!strings.HasPrefix(got.Header.Get("WWW-Authenticate"), "Bearer") {
			t.Errorf("%s: got headers %v, want a problem and a Bearer challenge", path, got.Header)
		}
	}
	got := s.Do(http.MethodPost, "/api/v1/me", nil, sitetest.Bearer(s.NewToken(token.Read))).Wants(t,
		http.StatusMethodNotAllowed)
	if got.Header.Get("Allow") != "GET, HEAD" {
		t.Errorf("got Allow %q, want GET, HEAD", got.Header.Get("Allow"))
	}
	s.Store.SetError("ERR out of order")
	got = s.Do(http.MethodGet, "/api/v1/me", nil,
		sitetest.Bearer("tga_"+strings.Repeat("a", 49))).Wants(t, http.StatusUnauthorized)
	if strings.Contains(got.Body, "out of order") {
		t.Errorf("the response has Valkey's error: %s", got.Body)
	}
}

// While Valkey is unavailable, a request with a token gets 503 with Retry-After.
func TestTokensWithoutStore(t *testing.T) {
	s := sitetest.New(t)
	read := s.NewToken(token.Read)
	s.Do(http.MethodGet, "/api/v1/me", nil, sitetest.Bearer(read)).Wants(t, http.StatusOK)
	s.Keys.Fail("ERR out of order")
	got := s.Do(http.MethodGet, "/api/v1/me", nil, sitetest.Bearer(read)).Wants(t,
		http.StatusServiceUnavailable)
	if got.Header.Get("Retry-After") == "" || strings.Contains(got.Body, "out of order") {
		t.Errorf("got %v %s, want Retry-After and no cause", got.Header, got.Body)
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

// A token is listed without its secret and with the minute of its last use. It can revoke
// itself.
func TestTokensOverTheAPI(t *testing.T) {
	s := sitetest.New(t)
	write := s.NewToken(token.Write)
	id := write[len("tga_"):][:12]
	before := time.Now().UTC().Truncate(time.Minute)
	got := s.Do(http.MethodGet, "/api/v1/tokens", nil, sitetest.Bearer(write)).Wants(t, http.StatusOK,
		`"id":"`+id+`"`, `"scope":"write"`)
	if strings.Contains(got.Body, write) || strings.Contains(got.Body, write[20:]) {
		t.Errorf("the response has the secret: %s", got.Body)
	}
	var list struct {
		Items []struct{ LastUsed time.Time }
	}
	if err := json.Unmarshal([]byte(got.Body), &list); err != nil || len(list.Items) != 1 ||
		list.Items[0].LastUsed.Before(before) {
		t.Errorf("got %v %+v, want one token used at %v or later", err, list, before)
	}
	s.Do(http.MethodDelete, "/api/v1/tokens/"+id, nil, sitetest.Bearer(write)).Wants(t, http.StatusNoContent)
	s.Do(http.MethodGet, "/api/v1/me", nil, sitetest.Bearer(write)).Wants(t, http.StatusUnauthorized)
}

// A secret or a token in place of an id appears neither in the response nor in the log.
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
			t.Errorf("got %d %s, want an error without the secret", got.StatusCode, got.Body)
		}
	}
	if text := log.String(); strings.Contains(text, secret) || strings.Contains(text, write) ||
		!strings.Contains(text, "/api/v1/keys/…/usage") {
		t.Errorf("the log has a secret, or lacks a request: %s", text)
	}
}

// On the API, a change with a session must come from this site, and one with a token need
// not. Responses may not be cached.
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
			t.Errorf("%s: got %d %s, want a problem with status 403", name, got.StatusCode, got.Body)
		}
	}
	got := send(http.Header{"Sec-Fetch-Site": {"same-origin"}}).Wants(t, http.StatusCreated,
		`"secret":"tg_live_`)
	if got.Header.Get("Cache-Control") != "no-store" {
		t.Errorf("got Cache-Control %q, want no-store", got.Header.Get("Cache-Control"))
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
