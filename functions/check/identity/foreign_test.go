package identity

import (
	"errors"
	"testing"
)

const foreign = "AbCdEfGhIjKlMnOpQrStUvWxYz0123456789abcd"

// foreignResolver is resolver, with foreign values taken.
func foreignResolver(t *testing.T, sources string) *Resolver {
	t.Helper()
	r := resolver(t, sources)
	r.config.Foreign = true
	return r
}

// A foreign value is a key where API keys stand, and nowhere else: a bearer token may be
// the backend's.
func TestForeignValues(t *testing.T) {
	want := must(subjects.Foreign(foreign))
	own := newKey(t).Reveal()
	good := "Bearer " + token("ada")
	for name, c := range map[string]struct {
		sources string
		request Request
		want    error
	}{
		"header":                    {"key", with("x-api-key", foreign), nil},
		"handshake":                 {"key", withQuery("x-api-key", foreign), nil},
		"with a good token":         {"key,jwt", with("x-api-key", foreign, "authorization", good), nil},
		"with a backend's":          {"key", with("x-api-key", foreign, "authorization", "Bearer x"), nil},
		"TOKEN authorizer":          {"key", withToken(foreign), nil},
		"TOKEN authorizer, Bearer":  {"key", withToken("Bearer " + foreign), nil},
		"TOKEN authorizer with jwt": {"key,jwt", withToken(foreign), ErrInvalid},
		"bearer":                    {"key", with("authorization", "Bearer "+foreign), ErrMissing},
		"twice":                     {"key", with("x-api-key", foreign, "x-api-key", foreign), ErrInvalid},
		"joined":                    {"key", with("x-api-key", foreign+","+foreign), ErrInvalid},
		"two values": {"key", with("x-api-key", foreign, "authorization", "Bearer "+own),
			ErrInvalid},
		"with a forged token": {"key,jwt", with("x-api-key", foreign, "authorization", good+"x"),
			ErrInvalid},
		"spaces":                      {"key", with("x-api-key", " "+foreign), ErrInvalid},
		"short":                       {"key,ip", with("x-api-key", "short"), ErrInvalid},
		"our form with a wrong check": {"key", with("x-api-key", own[:len(own)-1]+"!"), ErrInvalid},
		"our form in capitals":        {"key", with("x-api-key", "TG_"+own[3:]), ErrInvalid},
	} {
		got, err := foreignResolver(t, c.sources).Identify(t.Context(), c.request)
		if !errors.Is(err, c.want) {
			t.Errorf("%s: %v, want %v", name, err, c.want)
		} else if err == nil && (got.Kind != Key || got.Subject != want.ID() || got.Secret != want) {
			t.Errorf("%s: %+v", name, got)
		}
	}
	_, err := resolver(t, "key").Identify(t.Context(), with("x-api-key", foreign))
	if !errors.Is(err, ErrInvalid) {
		t.Errorf("where they are not taken: %v", err)
	}
	if _, err := New(Config{Sources: []Kind{Key}, Foreign: true}); err == nil {
		t.Error("taken without a pepper, which ids are made with")
	}
}
