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
	"io"
	"log/slog"
	"net/http"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-jose/go-jose/v4"
)

// checkVerify verifies the token. It checks the error and the number of fetches so far.
func (p *provider) checkVerify(t *testing.T, v *Verifier, token string, want error, fetches int64) {
	t.Helper()
	if _, err := v.Verify(t.Context(), token); !errors.Is(err, want) {
		t.Errorf("got error %v, want %v", err, want)
	}
	if n := p.fetches.Load(); n != fetches {
		t.Errorf("got %d fetches, want %d", n, fetches)
	}
}

// The first token of a new key causes a fetch, at most once a minute. A removed key stays
// valid until the next fetch, at most freshFor.
func TestRotation(t *testing.T) {
	first, second := signers()[1], signers()[2]
	p, at := newProvider(t, first), newClock()
	v := p.verifier(t, at)
	p.checkVerify(t, v, first.token(nil), nil, 1)
	p.serve(keySetOf(second))
	p.checkVerify(t, v, second.token(nil), ErrInvalid, 1)
	at.advance(fetchEvery)
	p.checkVerify(t, v, second.token(nil), nil, 2)
	p.checkVerify(t, v, first.token(nil), ErrInvalid, 2)

	p.serve(keySetOf(first))
	at.advance(freshFor - time.Second)
	p.checkVerify(t, v, second.token(nil), nil, 2)
	at.advance(time.Second)
	p.checkVerify(t, v, second.token(nil), ErrInvalid, 3)
	p.checkVerify(t, v, first.token(nil), nil, 3)
}

// Tokens with unknown key ids cause at most one fetch a minute, however many there are,
// at once or one after another.
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
						t.Errorf("got error %v, want ErrInvalid", err)
					}
				}
			})
		}
		wg.Wait()
		p.checkVerify(t, v, known.token(nil), nil, minute+1)
		at.advance(fetchEvery - time.Second)
		p.checkVerify(t, v, signer{"x", known.algorithm, known.key}.token(nil), ErrInvalid, minute+1)
		at.advance(time.Second)
	}
}

// While a fetch fails in any of these ways, the known keys stay valid. Each failure is
// logged without the token.
func TestFailedFetchKeepsKeys(t *testing.T) {
	s := signers()[2]
	p, at := newProvider(t, s), newClock()
	var log bytes.Buffer
	v := newVerifierWith(t, p.withURL(), Config{Client: p.client, Now: at.now,
		Log: slog.New(slog.NewTextHandler(&log, nil))})
	token := s.token(map[string]any{"exp": start.Add(100 * freshFor).Unix()})
	p.checkVerify(t, v, token, nil, 1)
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
		p.checkVerify(t, v, token, nil, int64(i+2))
	}
	if lines := strings.Count(log.String(), "\n"); lines != 7 || leaks(log.String(), token) {
		t.Errorf("got %d lines, want 7 without the token: %s", lines, log.String())
	}
}

// Until the keys are first read, every token gets ErrNoKeys. Reads are repeated after
// 1 s, 2 s, 4 s and so on, at most once a minute in the end.
func TestNoKeysYet(t *testing.T) {
	s := signers()[2]
	p, at := newProvider(t, s), newClock()
	v := p.verifier(t, at)
	p.fail()
	p.checkVerify(t, v, s.token(nil), ErrNoKeys, 1)
	fetches := int64(1)
	for _, seconds := range []int{1, 2, 4, 8, 16, 32, 60, 60, 60} {
		at.advance(time.Duration(seconds)*time.Second - 1)
		for range 10 {
			p.checkVerify(t, v, s.token(nil), ErrNoKeys, fetches)
		}
		at.advance(1)
		fetches++
		p.checkVerify(t, v, s.token(nil), ErrNoKeys, fetches)
	}
	p.serve(keySetOf(s))
	at.advance(fetchEvery)
	p.checkVerify(t, v, s.token(nil), nil, fetches+1)
}

// After a failed Warm, the keys are read again after a second, not a minute.
func TestWarmFails(t *testing.T) {
	s := signers()[2]
	p, at := newProvider(t, s), newClock()
	v := p.verifier(t, at)
	p.fail()
	v.Warm(t.Context())
	p.checkVerify(t, v, s.token(nil), ErrNoKeys, 1)
	p.serve(keySetOf(s))
	at.advance(firstRetry)
	p.checkVerify(t, v, s.token(nil), nil, 2)
}

// Keys that cannot be read again for two hours (trustFor) are no longer used, until they
// can be read.
func TestOldKeysAreNotTrusted(t *testing.T) {
	s := signers()[2]
	p, at := newProvider(t, s), newClock()
	v := p.verifier(t, at)
	token := s.token(map[string]any{"exp": start.Add(100 * freshFor).Unix()})
	p.checkVerify(t, v, token, nil, 1)
	p.fail()
	at.advance(trustFor - 1)
	p.checkVerify(t, v, token, nil, 2)
	at.advance(1)
	p.checkVerify(t, v, token, ErrNoKeys, 2)
	at.advance(firstRetry)
	p.checkVerify(t, v, token, ErrNoKeys, 3)
	p.serve(keySetOf(s))
	at.advance(2 * firstRetry)
	p.checkVerify(t, v, token, nil, 4)
}

// After the clock is set back, the keys are read again once.
func TestClockSetBack(t *testing.T) {
	s := signers()[2]
	p, at := newProvider(t, s), newClock()
	v := p.verifier(t, at)
	token := s.token(map[string]any{"nbf": nil, "iat": nil})
	p.checkVerify(t, v, token, nil, 1)
	at.advance(-24 * time.Hour)
	p.checkVerify(t, v, token, nil, 2)
	p.checkVerify(t, v, token, nil, 2)
}

// Warm and many tokens that wait for keys share one fetch. A call whose context has ended
// does not wait.
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
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := v.Verify(ended, s.token(nil)); !errors.Is(err, ErrNoKeys) {
		t.Errorf("ended context: got error %v, want ErrNoKeys", err)
	}
	close(release)
	wg.Wait()
	if n := p.fetches.Load(); n != 1 {
		t.Errorf("got %d fetches, want 1", n)
	}
}

type roundTripper func(*http.Request) (*http.Response, error)

func (f roundTripper) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

// A fetch has its own timeout, however long the call that started it may take.
func TestFetchHasTimeout(t *testing.T) {
	bounded := false
	client := &http.Client{Transport: roundTripper(func(r *http.Request) (*http.Response, error) {
		deadline, ok := r.Context().Deadline()
		bounded = ok && time.Until(deadline) <= fetchTimeout && time.Until(deadline) > fetchWait
		return nil, context.DeadlineExceeded
	})}
	v := newVerifierWith(t, Issuer{KeysURL: must(ParseURL("https://issuer.example/keys"))},
		Config{Client: client})
	if _, err := v.Verify(t.Context(), signers()[2].token(nil)); !errors.Is(err, ErrNoKeys) || !bounded {
		t.Errorf("got error %v, bounded %t, want ErrNoKeys and true", err, bounded)
	}
}

// A call waits 2 seconds for keys, and the read that it began goes on: a later call finds the
// keys of an issuer that needs longer. With keys, calls behind the first do not wait.
func TestSlowIssuer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		fetches := 0
		client := &http.Client{Transport: roundTripper(func(r *http.Request) (*http.Response, error) {
			fetches++
			took := 2500 * time.Millisecond
			if fetches > 1 {
				took = 15 * time.Second
			}
			select {
			case <-time.After(took):
				return &http.Response{StatusCode: http.StatusOK, Header: http.Header{},
					Body: io.NopCloser(bytes.NewReader(keySetOf(signers()...)))}, nil
			case <-r.Context().Done():
				return nil, r.Context().Err()
			}
		})}
		v := newVerifierWith(t, Issuer{KeysURL: must(ParseURL("https://issuer.example/keys"))},
			Config{Client: client, Now: time.Now})
		now := time.Now()
		token := signers()[2].token(map[string]any{"nbf": now.Unix(), "iat": now.Unix(),
			"exp": now.Add(time.Hour).Unix()})
		verify := func(want error, took time.Duration) {
			t.Helper()
			began := time.Now()
			if _, err := v.Verify(t.Context(), token); !errors.Is(err, want) || time.Since(began) != took {
				t.Errorf("got %v after %s, want %v after %s", err, time.Since(began), want, took)
			}
		}
		verify(ErrNoKeys, fetchWait)
		verify(nil, 500*time.Millisecond) // the same read
		<-time.After(freshFor)
		verify(nil, fetchWait) // by the old keys
		verify(nil, 0)
		<-time.After(fetchTimeout)
		verify(nil, 0)
		if fetches != 2 {
			t.Errorf("got %d reads, want 2", fetches)
		}
	})
}

func TestParseURL(t *testing.T) {
	for text, valid := range map[string]bool{
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
		if (err == nil) != valid || err != nil && (u != nil || strings.Contains(err.Error(), "secret")) {
			t.Errorf("%s: got %v, error %v, want valid: %t, without the password", text, u, err, valid)
		}
	}
}

// ParseKeys leaves out each unsuitable key, and returns an error if no other key remains.
func TestParseKeysSkipsUnsuitableKeys(t *testing.T) {
	ed := signers()[2]
	short := must(rsa.GenerateKey(rand.Reader, 1024))
	p384 := must(ecdsa.GenerateKey(elliptic.P384(), rand.Reader))
	encryption, otherAlgorithm := ed.jwk(), ed.jwk()
	encryption.Use, otherAlgorithm.Algorithm = "enc", "ES256"
	for name, key := range map[string]any{
		"private":         jose.JSONWebKey{KeyID: "ed", Key: edKey()},
		"symmetric":       jose.JSONWebKey{KeyID: "ed", Key: []byte("0123456789abcdef0123456789abcdef")},
		"short RSA":       jose.JSONWebKey{KeyID: "ed", Key: &short.PublicKey},
		"P-384 as ES256":  jose.JSONWebKey{KeyID: "ed", Algorithm: "ES256", Key: &p384.PublicKey},
		"secp256k1":       json.RawMessage(`{"kty":"EC","crv":"secp256k1","x":"AAAA","y":"AAAA"}`),
		"encryption":      encryption,
		"other algorithm": otherAlgorithm,
		"not on curve":    json.RawMessage(`{"kty":"EC","crv":"P-256","x":"AAAA","y":"AAAA"}`),
		"unknown type":    json.RawMessage(`{"kty":"XX"}`),
		"not an object":   json.RawMessage(`7`),
	} {
		if _, err := ParseKeys(must(json.Marshal(map[string]any{"keys": []any{key}}))); err == nil {
			t.Errorf("%s alone: got no error", name)
		}
		set, err := ParseKeys(must(json.Marshal(map[string]any{"keys": []any{key, ed.jwk()}})))
		if err != nil || set.Len() != 1 {
			t.Errorf("%s and a valid key: got %d keys, %v, want 1", name, set.Len(), err)
		}
	}
	for name, text := range map[string]string{
		"empty": "", "not JSON": "{", "list": "[]", "no keys": "{}", "keys is text": `{"keys":"secret"}`,
		"many": `{"keys":[` + strings.Repeat("0,", MaxKeys) + `0]}`,
		"long": strings.Repeat(" ", MaxKeySetLen+1),
	} {
		if _, err := ParseKeys([]byte(text)); err == nil || strings.Contains(err.Error(), "secret") {
			t.Errorf("%s: got error %v, want one without the text", name, err)
		}
	}
}
