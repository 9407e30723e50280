package oidc

import (
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"
	"time"

	"golang.org/x/oauth2"

	"tidegate/functions/admin/auth"
	"tidegate/internal/apikey"
	"tidegate/internal/testing/oidctest"
	"tidegate/internal/testing/waiting"
)

const callback = "http://127.0.0.1:9/login/oidc/callback"

var secret = apikey.Pepper(strings.Repeat("s", 32))

// fixture is a client of a real provider, and a person who logs in there.
type fixture struct {
	*Provider
	t      *testing.T
	person *oidctest.Person
	clock  time.Time
}

func newFixture(t *testing.T, inIDToken bool) *fixture {
	t.Helper()
	issuer := oidctest.Start(t, oidctest.Options{IDTokenClaims: inIDToken, Clients: []oidctest.Client{
		{ID: "dashboard", Secret: "dashboard-secret", RedirectURIs: []string{callback},
			PostLogoutRedirectURIs: []string{"http://127.0.0.1:9/login"}},
		{ID: "other", Secret: "other-secret", RedirectURIs: []string{callback}},
	}})
	f := &fixture{t: t, person: oidctest.NewPerson(t, issuer), clock: time.Now()}
	f.Provider = newProvider(t, Config{Issuer: issuer, ClientID: "dashboard",
		ClientSecret: "dashboard-secret"})
	f.now = func() time.Time { return f.clock }
	return f
}

func newProvider(t *testing.T, c Config) *Provider {
	t.Helper()
	c.RedirectURL, c.RoleClaim, c.Scopes = callback, "groups", []string{"profile", "groups"}
	c.EditorValues, c.ViewerValues = []string{"ops", "leads"}, []string{"staff"}
	p, err := New(c, secret)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// invalid stands for any TokenError in isKind.
var invalid error = &TokenError{}

// isKind reports whether err is want, or of the same type.
func isKind(err, want error) bool {
	if _, ok := errors.AsType[*TokenError](want); ok {
		_, ok := errors.AsType[*TokenError](err)
		return ok
	}
	return errors.Is(err, want)
}

// login starts a login and completes it at the provider. change, if any, changes the
// query of the address first.
func (f *fixture) login(name string, change func(url.Values)) (sealed string, answer url.Values) {
	f.t.Helper()
	address, sealed, err := f.Start(f.t.Context(), "/keys?q=a")
	if err != nil {
		f.t.Fatal(err)
	}
	u, err := url.Parse(address)
	if err != nil {
		f.t.Fatal(err)
	}
	q := u.Query()
	if change != nil {
		change(q)
	}
	u.RawQuery = q.Encode()
	back := f.person.Login(u.String(), name)
	if !strings.HasPrefix(back.String(), callback+"?") {
		f.t.Fatalf("got redirect to %s, want %s", back, callback)
	}
	return sealed, back.Query()
}

// The groups decide the role, whether they are in the id token or only at the userinfo
// endpoint. The actor's id is the subject.
func TestRoles(t *testing.T) {
	for place, inIDToken := range map[string]bool{"id token": true, "userinfo": false} {
		t.Run(place, func(t *testing.T) {
			f := newFixture(t, inIDToken)
			for name, want := range map[string]auth.Role{
				"ada:ops": auth.Editor, "vic:staff": auth.Viewer, "eve:staff,leads": auth.Editor,
				"otto:others": auth.Nobody, "nora": auth.Nobody,
			} {
				f.person = oidctest.NewPerson(t, f.config.Issuer)
				sealed, answer := f.login(name, nil)
				got, err := f.Finish(t.Context(), sealed, answer)
				if want == auth.Nobody {
					var missing *NoRoleError
					if !errors.As(err, &missing) || missing.Claim != "groups" ||
						missing.Present != strings.Contains(name, ":") {
						t.Errorf("%s: got %+v, %v, want a NoRoleError", name, got, err)
					}
					continue
				}
				short, _, _ := strings.Cut(name, ":")
				actor := auth.Actor{ID: "oidc:" + name, Name: short, Kind: auth.User, Role: want}
				if err != nil || got.Actor != actor || got.Next != "/keys?q=a" {
					t.Errorf("%s: got %+v, %v, want %+v", name, got, err, actor)
				}
			}
		})
	}
}

// An answer is accepted only from the browser that started the login, with its state, in
// time, once, and unchanged.
func TestAttacks(t *testing.T) {
	f := newFixture(t, true)
	finish := func(name string, sealed string, answer url.Values, want error) {
		t.Helper()
		got, err := f.Finish(t.Context(), sealed, answer)
		if !isKind(err, want) || got.Actor.Known() {
			t.Errorf("%s: got %+v, %v, want %v", name, got, err, want)
		}
	}
	sealed, answer := f.login("ada:ops", nil)
	f.person = oidctest.NewPerson(t, f.config.Issuer)
	other, otherAnswer := f.login("ada:ops", nil)
	finish("no cookie", "", answer, ErrFlow)
	finish("cookie of another login", other, answer, ErrFlow)
	finish("damaged cookie", sealed[:len(sealed)-4]+"AAAA", answer, ErrFlow)
	finish("wrong state", sealed, with(answer, "state", "x"), ErrFlow)
	finish("no state", sealed, with(answer, "state", ""), ErrFlow)
	finish("another issuer", sealed, with(answer, "iss", "https://evil.example"), invalid)
	finish("code of another login", sealed, with(answer, "code", otherAnswer.Get("code")), ErrUsed)
	finish("invented code", sealed, with(answer, "code", "x"), ErrUsed)
	f.clock = f.clock.Add(FlowLife)
	finish("too late", sealed, answer, ErrFlow)
	f.clock = f.clock.Add(-FlowLife)
	if _, err := f.Finish(t.Context(), sealed, answer); err != nil {
		t.Fatalf("the unchanged answer: %v", err)
	}
	finish("replayed code", sealed, answer, ErrUsed)
	sealed, answer = f.login("ada:ops", func(q url.Values) { q.Set("nonce", "x") })
	finish("wrong nonce", sealed, answer, invalid)
	sealed, answer = f.login("ada:ops", func(q url.Values) { q.Del("nonce") })
	finish("no nonce", sealed, answer, invalid)
	sealed, answer = f.login("ada:ops", func(q url.Values) {
		q.Set("code_challenge", strings.Repeat("x", 43))
	})
	finish("another challenge", sealed, answer, ErrUsed)
	sealed, answer = f.login("ada:ops", func(q url.Values) { q.Set("client_id", "other") })
	finish("code of another client", sealed, answer, ErrUsed)
}

// An id token that the provider issued to another client is refused, and so is one with a
// changed signature or algorithm.
func TestForeignIDToken(t *testing.T) {
	f := newFixture(t, true)
	ours := f.Provider
	f.Provider = newProvider(t, Config{Issuer: ours.config.Issuer, ClientID: "other",
		ClientSecret: "other-secret"})
	sealed, answer := f.login("ada:ops", nil)
	theirs, err := f.flowOf(sealed, answer)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := f.context(t.Context())
	defer cancel()
	endpoints, err := f.discover(ctx)
	if err != nil {
		t.Fatal(err)
	}
	tokens, err := endpoints.oauth.Exchange(ctx, answer.Get("code"), oauth2.VerifierOption(theirs.Verifier))
	if err != nil {
		t.Fatal(err)
	}
	raw, _ := tokens.Extra("id_token").(string)
	if _, err := f.verify(ctx, endpoints, raw, theirs.Nonce); err != nil {
		t.Fatalf("the other client refuses its own token: %v", err)
	}
	if _, err := ours.verify(ctx, endpoints, raw, theirs.Nonce); !isKind(err, invalid) {
		t.Errorf("a token of another client: got %v, want a TokenError", err)
	}
	parts := strings.Split(raw, ".")
	const none = "eyJhbGciOiJub25lIn0" // {"alg":"none"}
	for name, token := range map[string]string{
		"none": none + "." + parts[1] + ".", "no signature": parts[0] + "." + parts[1] + ".",
		"changed": parts[0] + "." + parts[1] + "x." + parts[2],
		"empty":   "", "text": "x", "access token": tokens.AccessToken,
	} {
		if _, err := f.verify(ctx, endpoints, token, theirs.Nonce); !isKind(err, invalid) {
			t.Errorf("%s: got %v, want a TokenError", name, err)
		}
	}
	f.now = func() time.Time { return time.Now().Add(24 * time.Hour) }
	if _, err := f.verify(ctx, endpoints, raw, theirs.Nonce); !isKind(err, invalid) {
		t.Errorf("expired: got %v, want a TokenError", err)
	}
}

// A refusal by the provider is a RefusedError with its code, if the state is valid.
func TestRefused(t *testing.T) {
	f := newFixture(t, true)
	sealed, answer := f.login("ada:ops", func(q url.Values) { q.Set("prompt", "none") })
	var refused *RefusedError
	if _, err := f.Finish(t.Context(), sealed, answer); !errors.As(err, &refused) ||
		refused.Code != "login_required" {
		t.Errorf("got %v, want login_required", err)
	}
	if _, err := f.Finish(t.Context(), sealed, with(answer, "state", "x")); !errors.Is(err, ErrFlow) {
		t.Errorf("a refusal with another state: got %v, want ErrFlow", err)
	}
	for query, want := range map[string]string{
		"error=invalid_request&error_description=Call+me": "invalid_request",
		"error=Your+account+is+blocked":                   "",
		"error=invalid_request&state=":                    "",
		"error_description=Call+me&code=x":                "",
	} {
		stateless, err := url.ParseQuery(query)
		if err != nil {
			t.Fatal(err)
		}
		refused = nil
		_, err = f.Finish(t.Context(), sealed, stateless)
		if errors.As(err, &refused) != (want != "") || want == "" && !errors.Is(err, ErrFlow) ||
			want != "" && *refused != (RefusedError{Code: want}) {
			t.Errorf("%s: got %v, want %q and no description", query, err, want)
		}
		if _, err := f.Finish(t.Context(), "", stateless); !errors.Is(err, ErrFlow) {
			t.Errorf("%s without a cookie: got %v, want ErrFlow", query, err)
		}
	}
}

func TestLogoutURL(t *testing.T) {
	f := newFixture(t, true)
	u, err := url.Parse(f.LogoutURL(t.Context(), "http://127.0.0.1:9/login"))
	if err != nil || !strings.HasPrefix(u.String(), f.config.Issuer+"/") ||
		u.Query().Get("client_id") != "dashboard" {
		t.Fatalf("got %s, %v, want an address of the provider with the client id", u, err)
	}
	client := http.Client{Timeout: waiting.Timeout}
	res, err := client.Get(u.String())
	if err != nil {
		t.Fatal(err)
	}
	res.Body.Close()
	if res.StatusCode != http.StatusOK {
		t.Errorf("the provider returns %d, want 200", res.StatusCode)
	}
}

// The provider is not contacted before a login. A provider that was unavailable is used
// again when it recovers.
func TestDiscoveryIsLazy(t *testing.T) {
	requests, unavailable := 0, true
	var server *httptest.Server
	server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		requests++
		if unavailable {
			w.WriteHeader(http.StatusBadGateway)
			return
		}
		w.Header().Set("Content-Type", "application/json")
		const document = `{"issuer":"%[1]s","authorization_endpoint":"%[1]s/auth",
			"token_endpoint":"%[1]s/token","jwks_uri":"%[1]s/keys","end_session_endpoint":"javascript:alert(1)"}`
		_, _ = fmt.Fprintf(w, document, server.URL)
	}))
	t.Cleanup(server.Close)
	p := newProvider(t, Config{Issuer: server.URL, ClientID: "dashboard", ClientSecret: "x"})
	if requests != 0 {
		t.Error("New contacts the provider")
	}
	if _, _, err := p.Start(t.Context(), "/"); err == nil {
		t.Error("an unavailable provider: Start returns no error")
	}
	unavailable = false
	if _, _, err := p.Start(t.Context(), "/"); err == nil || requests != 1 {
		t.Errorf("a moment later: got %d requests, %v, want no request and an error", requests, err)
	}
	now := time.Now().Add(retryPause)
	p.now = func() time.Time { return now }
	for range 3 {
		if _, _, err := p.Start(t.Context(), "/"); err != nil {
			t.Fatal(err)
		}
	}
	if requests != 2 {
		t.Errorf("got %d requests, want one more after the failure", requests)
	}
	if got := p.LogoutURL(t.Context(), callback); got != "" {
		t.Errorf("got logout address %s, want none", got)
	}
}

func with(values url.Values, name, value string) url.Values {
	changed := url.Values{}
	for n, v := range values {
		changed[n] = v
	}
	changed.Set(name, value)
	return changed
}
