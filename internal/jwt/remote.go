package jwt

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/netip"
	"net/url"
	"strings"
	"sync"
	"time"
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
	fetchTimeout = 10 * time.Second
	fetchWait    = 2 * time.Second // how long a call waits for a read
)

// remote is the key set at a URL. It reads the set when a token needs it, since Lambda
// freezes background work between calls. Ages are wall-clock times, since the monotonic
// clock may stand still while the function is frozen.
type remote struct {
	url    string
	issuer string // for the log
	client *http.Client
	clock  func() time.Time
	log    *slog.Logger

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

func newRemote(i Issuer, c Config) *remote {
	client := http.Client{Transport: &http.Transport{
		Proxy:               http.ProxyFromEnvironment,
		DisableKeepAlives:   true, // the next read is usually at least 15 minutes later
		TLSHandshakeTimeout: fetchTimeout,
	}}
	if c.Client != nil {
		client = *c.Client
	}
	client.CheckRedirect = func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
	return &remote{url: i.KeysURL.String(), issuer: i.Name, client: &client, clock: c.Now, log: c.Log}
}

// verify verifies a token with the set. It reads the set again if it is old or has no key
// for the token.
func (r *remote) verify(ctx context.Context, t token) error {
	set, fresh, read, _ := r.current()
	err := errNoKey
	if fresh {
		if err = set.verify(ctx, t); !unknownKey(err) {
			return err
		}
	}
	r.refresh(ctx)
	newer, _, readAgain, cause := r.current()
	switch {
	case newer.Len() == 0:
		return fmt.Errorf("%w: %w", ErrNoKeys, cause)
	case fresh && readAgain.Equal(read):
		return err
	}
	return newer.verify(ctx, t)
}

var errUnread = errors.New("not read yet")

// current returns the trusted set, whether it is fresh, when it was read, and why there
// may be none.
func (r *remote) current() (set KeySet, fresh bool, read time.Time, cause error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	cause = r.err
	if cause == nil {
		cause = errUnread
	}
	return r.trusted(), within(r.fetched, r.now(), freshFor), r.fetched, cause
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
func (r *remote) now() time.Time { return r.clock().Round(0) }

// within reports whether t is less than d before now. It returns false for a t in the
// future, since the clock was set back.
func within(t, now time.Time, d time.Duration) bool {
	age := now.Sub(t)
	return age >= 0 && age < d
}

// refresh waits for the current read, for at most fetchWait. If there is no read and the
// pause is over, it starts one. With a set that is trusted, nobody waits longer than the call
// that started the read.
func (r *remote) refresh(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, fetchWait)
	defer cancel()
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
	old := r.trusted().Len() > 0 && !within(r.tried, r.now(), fetchWait)
	r.mu.Unlock()
	if old {
		return
	}
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
	if failed, ok := errors.AsType[fetchError](err); ok {
		err = fmt.Errorf("fetch the key set: %w", failed.cause)
	}
	if err != nil {
		r.log.WarnContext(ctx, "keys of the token issuer not read", "issuer", r.issuer, "cause", err)
	} else if len(set.skipped) > 0 {
		r.log.DebugContext(ctx, "keys of the token issuer left out", "issuer", r.issuer, "keys",
			strings.Join(set.skipped, ", "))
	}
	close(flight)
}

// fetchError is an error of the network. Its text, which callers of the package show,
// has no addresses; the log has its cause.
type fetchError struct{ cause error }

func (fetchError) Error() string {
	return "the key set cannot be fetched: the log of the check function says why"
}

func (e fetchError) Unwrap() error { return e.cause }

func (r *remote) fetch(ctx context.Context) (KeySet, error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, r.url, http.NoBody)
	if err != nil {
		return KeySet{}, fmt.Errorf("fetch the key set: %w", err)
	}
	request.Header.Set("Accept", "application/json")
	response, err := r.client.Do(request)
	if err != nil {
		return KeySet{}, fetchError{err}
	}
	defer response.Body.Close()
	if to := response.Header.Get("Location"); to != "" && response.StatusCode/100 == 3 {
		return KeySet{}, fmt.Errorf("the URL of the key set redirects to %.200q: set that one if it is the "+
			"issuer's", to)
	}
	if response.StatusCode != http.StatusOK {
		return KeySet{}, fmt.Errorf("fetch the key set: status %d", response.StatusCode)
	}
	text, err := io.ReadAll(io.LimitReader(response.Body, MaxKeySetLen+1))
	if err != nil {
		return KeySet{}, fetchError{err}
	}
	set, err := ParseKeys(text)
	if err != nil {
		return KeySet{}, fmt.Errorf("fetch the key set: %w", err)
	}
	return set, nil
}
