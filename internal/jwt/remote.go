package jwt

import (
	"context"
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
	// a key that the issuer withdrew is good for this long at most, unless its set cannot
	// be read
	freshFor   = 15 * time.Minute
	trustFor   = 2 * time.Hour // a set that cannot be read again is good for this long
	fetchEvery = time.Minute   // at most, whatever tokens name
	// from the start of a failure to the next try while no token can be verified; then
	// twice as long, …
	firstRetry   = time.Second
	soonRetries  = 6 // … for so many failures in a row, which comes near fetchEvery
	fetchTimeout = 2 * time.Second
)

// remote is the key set at a URL, read when a token needs it: nothing runs between two
// calls, where Lambda freezes what runs. A set that cannot be read again stays for
// trustFor. Ages go by the time of day, since the monotonic clock may stand still in a
// frozen function.
type remote struct {
	url    string
	client *http.Client
	config Config

	mu       sync.Mutex
	set      KeySet
	fetched  time.Time     // when set was read
	tried    time.Time     // when reading it was last begun
	flight   chan struct{} // closed when the reading that is under way ends; nil when none is
	err      error         // of the last reading
	failures int           // in a row
}

// ParseURL reads the URL of a key set. It must be https; http is good on a loopback
// address only.
func ParseURL(text string) (*url.URL, error) {
	u, err := url.Parse(text)
	switch {
	case err != nil || u.Host == "" || u.Opaque != "":
		return nil, errors.New("is no URL: must be https://HOST/PATH")
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
		DisableKeepAlives:   true, // the next reading is a quarter of an hour and perhaps a freeze away
		TLSHandshakeTimeout: fetchTimeout,
	}}
	if c.Client != nil {
		client = *c.Client
	}
	client.CheckRedirect = func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
	return &remote{url: c.KeysURL.String(), client: &client, config: c}
}

// find returns the key that a token names, reading the set again if it is old or has no
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

func (r *remote) current() (set KeySet, fresh bool, err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	err = r.err
	if err == nil {
		err = errUnread
	}
	return r.trusted(), within(r.fetched, r.now(), freshFor), err
}

// trusted is the set if it is not too old. The caller holds the lock, as with pause.
func (r *remote) trusted() KeySet {
	if !within(r.fetched, r.now(), trustFor) {
		return KeySet{}
	}
	return r.set
}

// pause is how long after a reading was begun the next may be.
func (r *remote) pause() time.Duration {
	if r.trusted().Len() > 0 || r.failures == 0 || r.failures > soonRetries {
		return fetchEvery
	}
	return firstRetry << (r.failures - 1)
}

// now has no monotonic part.
func (r *remote) now() time.Time { return r.config.Now().Round(0) }

// within reports whether a time lies less than d back. One that lies ahead does not: the
// clock was set.
func within(t, now time.Time, d time.Duration) bool {
	age := now.Sub(t)
	return age >= 0 && age < d
}

// refresh waits for the reading that is under way, or for one that it begins itself if
// the last was not begun within the pause.
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

// read outlasts the call that began it, so that the next finds what it read.
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
