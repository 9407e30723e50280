package oidctest

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"net/url"
	"sync"
	"testing"
	"time"
)

// Scripted is a provider that answers as a test says, for what a real one never does or
// only some do. It logs everybody in at once. Set its fields before the log-in.
type Scripted struct {
	*httptest.Server
	// Issuer is what the provider calls itself; at first its address.
	Issuer string
	// Discovery is added to its discovery document; an empty value removes a member.
	Discovery map[string]any
	// Answer is added to the query of the callback.
	Answer url.Values
	// Claims are those of the id token; one that is nil is removed.
	Claims map[string]any
	// UserInfo are the claims of the userinfo endpoint, with UserInfoStatus if not 0.
	UserInfo       map[string]any
	UserInfoStatus int
	// TokenError answers the token endpoint's requests, if not nil.
	TokenError map[string]any
	// Skew is how far the provider's clock is ahead.
	Skew time.Duration

	key   Key
	mu    sync.Mutex
	codes map[string]url.Values
}

// NewScripted starts a provider until the test ends.
func NewScripted(t testing.TB) *Scripted {
	t.Helper()
	p := &Scripted{key: NewKey(1), codes: map[string]url.Values{}}
	mux := http.NewServeMux()
	mux.HandleFunc("GET /.well-known/openid-configuration", p.discovery)
	mux.HandleFunc("GET /keys", func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		_, _ = w.Write([]byte(p.key.Set()))
	})
	mux.HandleFunc("GET /authorize", p.authorize)
	mux.HandleFunc("POST /token", p.token)
	mux.HandleFunc("GET /userinfo", func(w http.ResponseWriter, _ *http.Request) {
		reply(w, max(p.UserInfoStatus, http.StatusOK), with(map[string]any{"sub": "u1"}, p.UserInfo))
	})
	p.Server = httptest.NewServer(mux)
	p.Issuer = p.URL
	t.Cleanup(p.Close)
	return p
}

func reply(w http.ResponseWriter, status int, body map[string]any) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(body)
}

// with returns an object with the members of another; nil and empty values remove them.
func with(object, other map[string]any) map[string]any {
	for name, value := range other {
		if object[name] = value; value == nil || value == "" {
			delete(object, name)
		}
	}
	return object
}

func (p *Scripted) discovery(w http.ResponseWriter, _ *http.Request) {
	reply(w, http.StatusOK, with(map[string]any{
		"issuer": p.Issuer, "authorization_endpoint": p.URL + "/authorize",
		"token_endpoint": p.URL + "/token", "jwks_uri": p.URL + "/keys",
		"userinfo_endpoint":                     p.URL + "/userinfo",
		"id_token_signing_alg_values_supported": []string{"HS256", "EdDSA"},
	}, p.Discovery))
}

func (p *Scripted) authorize(w http.ResponseWriter, r *http.Request) {
	p.mu.Lock()
	defer p.mu.Unlock()
	asked := r.URL.Query()
	code := "code-" + asked.Get("state")
	p.codes[code] = asked
	answer := url.Values{"code": {code}, "state": {asked.Get("state")}}
	for name, values := range p.Answer {
		answer[name] = values
	}
	http.Redirect(w, r, asked.Get("redirect_uri")+"?"+answer.Encode(), http.StatusFound)
}

// token takes a code once. It does not look at the client's secret.
func (p *Scripted) token(w http.ResponseWriter, r *http.Request) {
	p.mu.Lock()
	defer p.mu.Unlock()
	asked, known := p.codes[r.FormValue("code")]
	delete(p.codes, r.FormValue("code"))
	if p.TokenError == nil && !known {
		reply(w, http.StatusBadRequest, map[string]any{"error": "invalid_grant"})
		return
	}
	if p.TokenError != nil {
		reply(w, http.StatusBadRequest, p.TokenError)
		return
	}
	now := time.Now().Add(p.Skew)
	claims := with(map[string]any{"iss": p.Issuer, "aud": asked.Get("client_id"), "sub": "u1",
		"nonce": asked.Get("nonce"), "iat": now.Unix(), "exp": now.Add(time.Hour).Unix()}, p.Claims)
	reply(w, http.StatusOK, map[string]any{"access_token": "a", "token_type": "Bearer",
		"id_token": p.key.Sign(claims)})
}
