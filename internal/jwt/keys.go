package jwt

import (
	"context"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/elliptic"
	"crypto/rsa"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/netip"
	"net/url"
	"sync"
	"time"

	"github.com/go-jose/go-jose/v4"
)

const (
	// freshFor is how long a key set is used without reading it again. A removed key is
	// accepted for at most that long, unless the set cannot be read.
	freshFor   = 15 * time.Minute
	trustFor   = 2 * time.Hour // how long a set is used while it cannot be read again
	fetchEvery = time.Minute   // minimum time between two reads, whatever keys tokens name
	// firstRetry is the minimum time between the first failed read and the next one,
	// while no token can be verified. The time doubles with each failure.
	firstRetry   = time.Second
	soonRetries  = 6 // after more failures in a row, the minimum time is fetchEvery
	fetchTimeout = 2 * time.Second
)

// remote is the key set at a URL. It reads the set when a token needs it, since Lambda
// freezes background work between calls. Ages are wall-clock times, since the monotonic
// clock may stand still while the function is frozen.
type remote struct {
	url    string
	client *http.Client
	config Config

	mu       sync.Mutex
	set      KeySet
	fetched  time.Time     // when set was read
	tried    time.Time     // start of the last read, successful or not
	flight   chan struct{} // closed when the current read ends; nil if there is none
	err      error         // error of the last read
	failures int           // failed reads in a row
}

// ParseURL parses the URL of a key set. It must be https; http is valid for a loopback
// address only.
func ParseURL(text string) (*url.URL, error) {
	u, err := url.Parse(text)
	switch {
	case err != nil || u.Host == "" || u.Opaque != "":
		return nil, errors.New("is not a URL: must be https://HOST/PATH")
	case u.User != nil || u.Fragment != "":
		return nil, errors.New("has a user or fragment: must be https://HOST/PATH")
	case u.Scheme != "https" && (u.Scheme != "http" || !loopback(u.Hostname())):
		return nil, fmt.Errorf("is %s: must be https (http only on a loopback address)", u.Redacted())
	}
	return u, nil
}

func loopback(host string) bool {
	addr, err := netip.ParseAddr(host)
	return host == "localhost" || err == nil && addr.IsLoopback()
}

func newRemote(c Config) *remote {
	client := http.Client{Transport: &http.Transport{
		Proxy:               http.ProxyFromEnvironment,
		DisableKeepAlives:   true, // the next read is usually at least 15 minutes later
		TLSHandshakeTimeout: fetchTimeout,
	}}
	if c.Client != nil {
		client = *c.Client
	}
	client.CheckRedirect = func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
	return &remote{url: c.KeysURL.String(), client: &client, config: c}
}

// find returns the key that a token names. It reads the set again if it is old or has no
// such key.
func (r *remote) find(ctx context.Context, id string, algorithm jose.SignatureAlgorithm) (any, error) {
	set, fresh, _ := r.current()
	if key, ok := set.lookup(id, algorithm); ok && fresh {
		return key, nil
	}
	r.refresh(ctx)
	set, _, err := r.current()
	if key, ok := set.lookup(id, algorithm); ok {
		return key, nil
	}
	if set.Len() == 0 {
		return nil, fmt.Errorf("%w: %w", ErrNoKeys, err)
	}
	return nil, errUnknownKey
}

var errUnread = errors.New("not read yet")

// current returns the trusted set, whether it is fresh, and why there may be none.
func (r *remote) current() (set KeySet, fresh bool, err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	err = r.err
	if err == nil {
		err = errUnread
	}
	return r.trusted(), within(r.fetched, r.now(), freshFor), err
}

// trusted returns the set, or an empty one if it is older than trustFor. The caller holds
// r.mu.
func (r *remote) trusted() KeySet {
	if !within(r.fetched, r.now(), trustFor) {
		return KeySet{}
	}
	return r.set
}

// pause returns the minimum time between the starts of two reads. The caller holds r.mu.
func (r *remote) pause() time.Duration {
	if r.trusted().Len() > 0 || r.failures == 0 || r.failures > soonRetries {
		return fetchEvery
	}
	return firstRetry << (r.failures - 1)
}

// now returns the wall-clock time, without the monotonic part.
func (r *remote) now() time.Time { return r.config.Now().Round(0) }

// within reports whether t is less than d before now. It returns false for a t in the
// future, since the clock was set back.
func within(t, now time.Time, d time.Duration) bool {
	age := now.Sub(t)
	return age >= 0 && age < d
}

// refresh waits for the current read or the end of ctx. If there is no read and the pause
// is over, it starts one.
func (r *remote) refresh(ctx context.Context) {
	r.mu.Lock()
	if r.flight == nil {
		if within(r.tried, r.now(), r.pause()) {
			r.mu.Unlock()
			return
		}
		r.tried, r.flight = r.now(), make(chan struct{})
		go r.read(context.WithoutCancel(ctx), r.flight)
	}
	flight := r.flight
	r.mu.Unlock()
	select {
	case <-flight:
	case <-ctx.Done():
	}
}

// read reads the set and closes flight. It continues after the call that started it has
// ended, so that the next call finds the keys.
func (r *remote) read(ctx context.Context, flight chan struct{}) {
	ctx, cancel := context.WithTimeout(ctx, fetchTimeout)
	defer cancel()
	set, err := r.fetch(ctx)
	r.mu.Lock()
	r.failures++
	if r.err = err; err == nil {
		r.set, r.fetched, r.failures = set, r.now(), 0
	}
	r.flight = nil
	r.mu.Unlock()
	if err != nil {
		r.config.Log.WarnContext(ctx, "keys of the token issuer not read", "cause", err)
	}
	close(flight)
}

func (r *remote) fetch(ctx context.Context) (KeySet, error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, r.url, http.NoBody)
	if err != nil {
		return KeySet{}, fmt.Errorf("fetch the key set: %w", err)
	}
	request.Header.Set("Accept", "application/json")
	response, err := r.client.Do(request)
	if err != nil {
		return KeySet{}, fmt.Errorf("fetch the key set: %w", err)
	}
	defer response.Body.Close()
	if response.StatusCode != http.StatusOK {
		return KeySet{}, fmt.Errorf("fetch the key set: status %d", response.StatusCode)
	}
	text, err := io.ReadAll(io.LimitReader(response.Body, MaxKeySetLen+1))
	if err != nil {
		return KeySet{}, fmt.Errorf("read the key set: %w", err)
	}
	set, err := ParseKeys(text)
	if err != nil {
		return KeySet{}, fmt.Errorf("fetch the key set: %w", err)
	}
	return set, nil
}

// Bounds of a key set.
const (
	MaxKeySetLen = 256 << 10 // bytes
	MaxKeys      = 64
	minRSABits   = 2048
	maxRSABits   = 8192 // a larger key takes too long to verify
)

// KeySet has the public keys of an issuer. The zero value has none.
type KeySet struct {
	byName map[name]any
	// only has the key of each algorithm with exactly one key; nil for several. It
	// verifies tokens without a key id.
	only map[jose.SignatureAlgorithm]any
}

// name identifies a key. An issuer may have two keys with the same id for two algorithms.
type name struct {
	id        string
	algorithm jose.SignatureAlgorithm
}

// ParseKeys parses a JSON Web Key Set. It leaves out keys that cannot verify tokens:
// private and symmetric keys, keys for encryption, other curves or algorithms, and RSA
// keys under 2048 or over 8192 bits. It returns an error if no key remains.
func ParseKeys(text []byte) (KeySet, error) {
	var set struct {
		Keys []json.RawMessage `json:"keys"`
	}
	if len(text) > MaxKeySetLen {
		return KeySet{}, fmt.Errorf("key set has %d bytes: must have at most %d", len(text), MaxKeySetLen)
	}
	if err := json.Unmarshal(text, &set); err != nil {
		// The cause is left out because it could quote a secret.
		return KeySet{}, errors.New(`key set is not JSON of the form {"keys": […]}`)
	}
	if len(set.Keys) > MaxKeys {
		return KeySet{}, fmt.Errorf("key set has %d keys: must have at most %d", len(set.Keys), MaxKeys)
	}
	s := KeySet{byName: map[name]any{}, only: map[jose.SignatureAlgorithm]any{}}
	for _, raw := range set.Keys {
		var key jose.JSONWebKey
		if key.UnmarshalJSON(raw) == nil {
			s.add(&key)
		}
	}
	if s.Len() == 0 {
		return KeySet{}, errors.New("key set has no public key for RS256 (2048 bits or more), ES256 or EdDSA")
	}
	return s, nil
}

// Len returns the number of keys.
func (s KeySet) Len() int { return len(s.byName) }

// add adds a key if it can verify tokens. It ignores a key with the same id and algorithm
// as an earlier one.
func (s KeySet) add(key *jose.JSONWebKey) {
	algorithm := algorithmOf(key.Key)
	if algorithm == "" || key.Use != "" && key.Use != "sig" || key.Algorithm != "" &&
		key.Algorithm != string(algorithm) {
		return
	}
	n := name{key.KeyID, algorithm}
	if _, given := s.byName[n]; given {
		return
	}
	s.byName[n] = key.Key
	if _, given := s.only[algorithm]; given {
		s.only[algorithm] = nil
	} else {
		s.only[algorithm] = key.Key
	}
}

// algorithmOf returns the algorithm of a public key, or "" if it is not supported.
func algorithmOf(key any) jose.SignatureAlgorithm {
	switch key := key.(type) {
	case *rsa.PublicKey:
		if bits := key.N.BitLen(); bits >= minRSABits && bits <= maxRSABits {
			return jose.RS256
		}
	case *ecdsa.PublicKey:
		if key.Curve == elliptic.P256() {
			return jose.ES256
		}
	case ed25519.PublicKey:
		return jose.EdDSA
	}
	return ""
}

// lookup returns the key for a token's key id and algorithm. Without an id it returns the
// algorithm's only key.
func (s KeySet) lookup(id string, algorithm jose.SignatureAlgorithm) (key any, ok bool) {
	if id == "" {
		key = s.only[algorithm]
	} else {
		key = s.byName[name{id, algorithm}]
	}
	return key, key != nil
}

// find is lookup for a set that never changes.
func (s KeySet) find(_ context.Context, id string, algorithm jose.SignatureAlgorithm) (any, error) {
	if key, ok := s.lookup(id, algorithm); ok {
		return key, nil
	}
	return nil, errUnknownKey
}

var errUnknownKey = refused("signed with a key that the issuer does not list for this algorithm")
