package jwt

import (
	"bytes"
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/rsa"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/go-jose/go-jose/v4"
)

func (p *provider) want(t *testing.T, v *Verifier, token string, want error, asked int64) {
	t.Helper()
	if _, err := v.Verify(t.Context(), token); !errors.Is(err, want) {
		t.Errorf("got %v, want %v", err, want)
	}
	if n := p.asked.Load(); n != asked {
		t.Errorf("%d fetches, want %d", n, asked)
	}
}

// A new key is found by the first token that names it; one that was withdrawn is no
// longer good once its set is old.
func TestRotation(t *testing.T) {
	first, second := signers()[1], signers()[2]
	p, at := newProvider(t, first), newClock()
	v := p.verifier(t, at)
	p.want(t, v, first.token(nil), nil, 1)
	p.serve(keySetOf(second))
	p.want(t, v, second.token(nil), ErrInvalid, 1)
	at.advance(fetchEvery)
	p.want(t, v, second.token(nil), nil, 2)
	p.want(t, v, first.token(nil), ErrInvalid, 2)

	p.serve(keySetOf(first))
	at.advance(freshFor - time.Second)
	p.want(t, v, second.token(nil), nil, 2)
	at.advance(time.Second)
	p.want(t, v, second.token(nil), ErrInvalid, 3)
	p.want(t, v, first.token(nil), nil, 3)
}

// However many tokens name keys that nobody has, at once or one after another, the issuer
// is asked once a minute.
func TestUnknownKeyFlood(t *testing.T) {
	known := signers()[2]
	p, at := newProvider(t, known), newClock()
	v := p.verifier(t, at)
	for minute := range int64(3) {
		var wg sync.WaitGroup
		for worker := range 20 {
			wg.Go(func() {
				for i := range 20 {
					unknown := signer{fmt.Sprintf("%d-%d-%d", minute, worker, i), known.algorithm, known.key}
					if _, err := v.Verify(t.Context(), unknown.token(nil)); !errors.Is(err, ErrInvalid) {
						t.Errorf("got %v", err)
					}
				}
			})
		}
		wg.Wait()
		p.want(t, v, known.token(nil), nil, minute+1)
		at.advance(fetchEvery - time.Second)
		p.want(t, v, signer{"x", known.algorithm, known.key}.token(nil), ErrInvalid, minute+1)
		at.advance(time.Second)
	}
}

// While the issuer cannot be read, the keys that are known stay good for a while.
func TestStaleKeysStay(t *testing.T) {
	s := signers()[2]
	p, at := newProvider(t, s), newClock()
	var log bytes.Buffer
	v := newVerifier(t, Config{KeysURL: p.url, Client: p.client, Now: at.now,
		Log: slog.New(slog.NewTextHandler(&log, nil))})
	token := s.token(map[string]any{"exp": start.Add(100 * freshFor).Unix()})
	p.want(t, v, token, nil, 1)
	for i, answer := range []http.HandlerFunc{
		func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusInternalServerError) },
		func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write([]byte("<html>")) },
		func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write([]byte(`{"keys":[]}`)) },
		func(w http.ResponseWriter, _ *http.Request) {
			_, _ = w.Write(append(keySetOf(signers()[1]), bytes.Repeat([]byte(" "), MaxKeySetLen)...))
		},
		func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Length", "1000")
			_, _ = w.Write([]byte(`{"keys":`))
		},
		func(w http.ResponseWriter, r *http.Request) { http.Redirect(w, r, "/elsewhere", http.StatusFound) },
		func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) },
	} {
		p.handle(answer)
		at.advance(freshFor)
		p.want(t, v, token, nil, int64(i+2))
	}
	if lines := strings.Count(log.String(), "\n"); lines != 7 || leaks(log.String(), token) {
		t.Errorf("log of %d lines: %s", lines, log.String())
	}
}

// Before the keys were ever read, nobody is let in; the issuer is asked after 1 s, 2 s
// and so on, and in the end once a minute.
func TestNoKeysYet(t *testing.T) {
	s := signers()[2]
	p, at := newProvider(t, s), newClock()
	v := p.verifier(t, at)
	p.fail()
	p.want(t, v, s.token(nil), ErrNoKeys, 1)
	asked := int64(1)
	for _, seconds := range []int{1, 2, 4, 8, 16, 32, 60, 60, 60} {
		at.advance(time.Duration(seconds)*time.Second - 1)
		for range 10 {
			p.want(t, v, s.token(nil), ErrNoKeys, asked)
		}
		at.advance(1)
		asked++
		p.want(t, v, s.token(nil), ErrNoKeys, asked)
	}
	p.serve(keySetOf(s))
	at.advance(fetchEvery)
	p.want(t, v, s.token(nil), nil, asked+1)
}

// A first reading that fails costs the next caller a second, not a minute.
func TestFirstReadingFails(t *testing.T) {
	s := signers()[2]
	p, at := newProvider(t, s), newClock()
	v := p.verifier(t, at)
	p.fail()
	v.Warm(t.Context())
	p.want(t, v, s.token(nil), ErrNoKeys, 1)
	p.serve(keySetOf(s))
	at.advance(firstRetry)
	p.want(t, v, s.token(nil), nil, 2)
}

// Keys that cannot be read again are not trusted for ever: after two hours nobody is let
// in until they can be.
func TestOldKeysAreNotTrusted(t *testing.T) {
	s := signers()[2]
	p, at := newProvider(t, s), newClock()
	v := p.verifier(t, at)
	token := s.token(map[string]any{"exp": start.Add(100 * freshFor).Unix()})
	p.want(t, v, token, nil, 1)
	p.fail()
	at.advance(trustFor - 1)
	p.want(t, v, token, nil, 2)
	at.advance(1)
	p.want(t, v, token, ErrNoKeys, 2)
	at.advance(firstRetry)
	p.want(t, v, token, ErrNoKeys, 3)
	p.serve(keySetOf(s))
	at.advance(2 * firstRetry)
	p.want(t, v, token, nil, 4)
}

// A clock that is set back does not stop the keys from being read.
func TestClockSetBack(t *testing.T) {
	s := signers()[2]
	p, at := newProvider(t, s), newClock()
	v := p.verifier(t, at)
	token := s.token(map[string]any{"nbf": nil, "iat": nil})
	p.want(t, v, token, nil, 1)
	at.advance(-24 * time.Hour)
	p.want(t, v, token, nil, 2)
	p.want(t, v, token, nil, 2)
}

// Many tokens that wait for the same keys cause one fetch, and Warm is another of them.
func TestSingleFlight(t *testing.T) {
	s := signers()[2]
	p := newProvider(t, s)
	arrived, release := make(chan struct{}), make(chan struct{})
	p.handle(func(w http.ResponseWriter, _ *http.Request) {
		close(arrived)
		<-release
		_, _ = w.Write(keySetOf(s))
	})
	v := p.verifier(t, newClock())
	var wg sync.WaitGroup
	wg.Go(func() { v.Warm(t.Context()) })
	<-arrived
	for range 10 {
		wg.Go(func() {
			if _, err := v.Verify(t.Context(), s.token(nil)); err != nil {
				t.Error(err)
			}
		})
	}
	gone, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := v.Verify(gone, s.token(nil)); !errors.Is(err, ErrNoKeys) {
		t.Errorf("a call that ended: %v", err)
	}
	close(release)
	wg.Wait()
	if n := p.asked.Load(); n != 1 {
		t.Errorf("%d fetches, want 1", n)
	}
}

type roundTripper func(*http.Request) (*http.Response, error)

func (f roundTripper) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

// A fetch has a time-out of its own, however long the call that began it may take.
func TestFetchIsBounded(t *testing.T) {
	bounded := false
	client := &http.Client{Transport: roundTripper(func(r *http.Request) (*http.Response, error) {
		deadline, ok := r.Context().Deadline()
		bounded = ok && time.Until(deadline) <= fetchTimeout
		return nil, context.DeadlineExceeded
	})}
	v := newVerifier(t, Config{KeysURL: must(ParseURL("https://issuer.example/keys")), Client: client})
	if _, err := v.Verify(t.Context(), signers()[2].token(nil)); !errors.Is(err, ErrNoKeys) || !bounded {
		t.Errorf("%v, bounded %t", err, bounded)
	}
}

func TestParseURL(t *testing.T) {
	for text, good := range map[string]bool{
		"https://issuer.example/.well-known/jwks.json": true, "http://127.0.0.1:8080/keys": true,
		"http://[::1]/keys": true, "http://localhost/keys": true,
		"http://issuer.example/keys": false, "http://127.0.0.1.evil.example/keys": false,
		"http://10.0.0.1/keys": false, "file:///etc/keys": false,
		"https://user:secret@issuer.example/": false, "https://": false, "": false,
		"issuer.example/keys": false, "https:issuer.example": false,
		"ftp://issuer.example/": false, "https://issuer.example/#x": false,
		"https://issuer.example:port/": false,
	} {
		u, err := ParseURL(text)
		if (err == nil) != good || err != nil && (u != nil || strings.Contains(err.Error(), "secret")) {
			t.Errorf("%s: %v, %v", text, u, err)
		}
	}
}

func TestParseKeysLeavesOut(t *testing.T) {
	ed := signers()[2]
	short := must(rsa.GenerateKey(rand.Reader, 1024))
	p384 := must(ecdsa.GenerateKey(elliptic.P384(), rand.Reader))
	encryption, otherAlgorithm := ed.jwk(), ed.jwk()
	encryption.Use, otherAlgorithm.Algorithm = "enc", "ES256"
	for name, key := range map[string]any{
		"private":         jose.JSONWebKey{KeyID: "ed", Key: edKey()},
		"symmetric":       jose.JSONWebKey{KeyID: "ed", Key: []byte("0123456789abcdef0123456789abcdef")},
		"short RSA":       jose.JSONWebKey{KeyID: "ed", Key: &short.PublicKey},
		"P-384":           jose.JSONWebKey{KeyID: "ed", Key: &p384.PublicKey},
		"encryption":      encryption,
		"other algorithm": otherAlgorithm,
		"not on curve":    json.RawMessage(`{"kty":"EC","crv":"P-256","x":"AAAA","y":"AAAA"}`),
		"unknown type":    json.RawMessage(`{"kty":"XX"}`),
		"no object":       json.RawMessage(`7`),
	} {
		if _, err := ParseKeys(must(json.Marshal(map[string]any{"keys": []any{key}}))); err == nil {
			t.Errorf("%s: taken", name)
		}
		set, err := ParseKeys(must(json.Marshal(map[string]any{"keys": []any{key, ed.jwk()}})))
		if err != nil || set.Len() != 1 {
			t.Errorf("%s beside a good one: %d, %v", name, set.Len(), err)
		}
	}
	for name, text := range map[string]string{
		"empty": "", "no JSON": "{", "list": "[]", "no keys": "{}", "keys is text": `{"keys":"secret"}`,
		"many": `{"keys":[` + strings.Repeat("0,", MaxKeys) + `0]}`,
		"long": strings.Repeat(" ", MaxKeySetLen+1),
	} {
		if _, err := ParseKeys([]byte(text)); err == nil || strings.Contains(err.Error(), "secret") {
			t.Errorf("%s: %v", name, err)
		}
	}
}
