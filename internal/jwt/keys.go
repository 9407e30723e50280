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
	// freshFor is how long a key set is used without reading it again. A withdrawn key
	// remains good at most so long, unless the set cannot be read.
	freshFor   = 15 * time.Minute
	trustFor   = 2 * time.Hour // how long a set is used while it cannot be read again
	fetchEvery = time.Minute   // minimum time between two reads, whatever keys tokens name
	// firstRetry is the time from a failed read to the next while no token can be
	// verified. It doubles with each failure.
	firstRetry   = time.Second
	soonRetries  = 6 // failures in a row until the pause is fetchEvery
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
	tried    time.Time     // start of the last read
	flight   chan struct{} // closed at the end of the read under way; nil when there is none
	err      error         // of the last read
	failures int           // in a row
}

// ParseURL parses the URL of a key set. It must be https; http is valid for a loopback
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
		DisableKeepAlives:   true, // the next read is at least a quarter of an hour away
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

func (r *remote) current() (set KeySet, fresh bool, err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	err = r.err
	if err == nil {
		err = errUnread
	}
	return r.trusted(), within(r.fetched, r.now(), freshFor), err
}

// trusted returns the set, or none if it is too old. The caller holds the lock, as with
// pause.
func (r *remote) trusted() KeySet {
	if !within(r.fetched, r.now(), trustFor) {
		return KeySet{}
	}
	return r.set
}

// pause returns the minimum time between the starts of two reads.
func (r *remote) pause() time.Duration {
	if r.trusted().Len() > 0 || r.failures == 0 || r.failures > soonRetries {
		return fetchEvery
	}
	return firstRetry << (r.failures - 1)
}

// now returns the wall-clock time, without the monotonic part.
func (r *remote) now() time.Time { return r.config.Now().Round(0) }

// within reports whether t lies less than d before now. A time in the future does not:
// the clock was set back.
func within(t, now time.Time, d time.Duration) bool {
	age := now.Sub(t)
	return age >= 0 && age < d
}

// refresh waits for the read under way. If there is none and the pause is over, it starts
// one.
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

// read reads the set. It continues after the call that started it ends, so that the next
// call finds the keys.
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
