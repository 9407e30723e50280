// Package throttle limits attempts to guess passwords, with this project's limiter. A
// wrong password counts against its address, and against the pair of address and account.
// Nothing counts against an account alone, so nobody can lock somebody else out.
package throttle

import (
	"context"
	"fmt"
	"time"

	"github.com/valkey-io/valkey-go"

	"tidegate/internal/limiter"
	"tidegate/internal/proxies"
	"tidegate/internal/store"
)

// The bounds of failed attempts from one address: at one account, and at all accounts.
var (
	perAccount = []limiter.Limit{{Requests: 5, Window: time.Minute}, {Requests: 20, Window: time.Hour}}
	perSource  = []limiter.Limit{{Requests: 20, Window: time.Minute}, {Requests: 100, Window: time.Hour}}
)

// ipv6Bits is the length of the IPv6 prefix of a site, which chooses the remaining bits.
const ipv6Bits = 64

// Throttle counts attempts in Valkey, so that all instances of the function share the
// counts. It stores addresses and names only as hashes, for at most two hours. It is safe
// for concurrent use.
type Throttle struct {
	pairs, sources, providers *limiter.Limiter
}

// New returns a Throttle on the client.
func New(client valkey.Client) *Throttle {
	return &Throttle{
		pairs:     limiter.New(client, "tg:login:account:", perAccount...),
		sources:   limiter.New(client, "tg:login:source:", perSource...),
		providers: limiter.New(client, "tg:login:provider:", perSource...),
	}
}

// Attempt is the result of Take. If it is not Allowed, the password must not be checked.
// RetryAfter is then the time until the same attempt is allowed if nobody else makes one.
type Attempt struct {
	Allowed      bool
	RetryAfter   time.Duration
	source, pair counted
}

// counted is one attempt in one limiter.
type counted struct {
	key   string
	taken limiter.Decision
}

// Take counts an attempt to log in to the account from a remote address, with or without
// a port. All unreadable addresses count as one source. After an error the attempt is not
// allowed.
func (t *Throttle) Take(ctx context.Context, remote, account string) (Attempt, error) {
	source := sourceOf(remote)
	a := Attempt{source: counted{key: source}, pair: counted{key: source + "\x00" + account}}
	var err error
	if a.source.taken, err = take(ctx, t.sources, a.source.key); err != nil {
		return Attempt{}, err
	}
	if !a.source.taken.Allowed {
		return t.deny(ctx, a)
	}
	if a.pair.taken, err = take(ctx, t.pairs, a.pair.key); err != nil {
		return Attempt{}, err
	}
	if a.pair.taken.Allowed {
		a.Allowed = true
		return a, nil
	}
	a.RetryAfter = a.pair.taken.RetryAfter()
	return a, a.source.refund(ctx, t.sources)
}

// deny sets RetryAfter to the longer wait of source and pair. It only peeks at the pair,
// since nothing was taken from it.
func (t *Throttle) deny(ctx context.Context, a Attempt) (Attempt, error) {
	pair, err := t.pairs.Look(ctx, a.pair.key)
	if err != nil {
		return Attempt{}, fmt.Errorf("throttle: %w", err)
	}
	a.RetryAfter = max(a.source.taken.RetryAfter(), pair.RetryAfter())
	return a, nil
}

// Forgive refunds an attempt with the right password, since only wrong ones count.
func (t *Throttle) Forgive(ctx context.Context, a Attempt) error {
	if err := a.source.refund(ctx, t.sources); err != nil {
		return err
	}
	return a.pair.refund(ctx, t.pairs)
}

// TakeProvider counts a step of a log-in at an OpenID provider from a remote address, with
// the bounds of all accounts. It counts apart from Take, so that a provider that is away
// stops no log-in with a password.
func (t *Throttle) TakeProvider(ctx context.Context, remote string) (Attempt, error) {
	a := Attempt{source: counted{key: sourceOf(remote)}}
	var err error
	a.source.taken, err = take(ctx, t.providers, a.source.key)
	a.Allowed, a.RetryAfter = err == nil && a.source.taken.Allowed, a.source.taken.RetryAfter()
	return a, err
}

// ForgiveProvider refunds a step that the provider completed.
func (t *Throttle) ForgiveProvider(ctx context.Context, a Attempt) error {
	return a.source.refund(ctx, t.providers)
}

func take(ctx context.Context, l *limiter.Limiter, key string) (limiter.Decision, error) {
	d, err := store.Retry(ctx, func(ctx context.Context) (limiter.Decision, error) {
		return l.Take(ctx, key)
	})
	if err != nil {
		return limiter.Decision{}, fmt.Errorf("throttle: %w", err)
	}
	return d, nil
}

func (c counted) refund(ctx context.Context, l *limiter.Limiter) error {
	if err := l.Refund(ctx, c.taken); err != nil {
		return fmt.Errorf("throttle: refund: %w", err)
	}
	return nil
}

// sourceOf returns the address without its port, and of IPv6 only the site's prefix. An
// IPv4 address mapped into IPv6 is the same source.
func sourceOf(remote string) string {
	address, ok := proxies.ParseAddr(remote)
	if !ok {
		return "unknown"
	}
	if address.Is4() {
		return address.String()
	}
	prefix, err := address.Prefix(ipv6Bits)
	if err != nil {
		return "unknown"
	}
	return prefix.String()
}

// perOwner is the limit of an API key that queries itself. A refused key counts against
// its address as a wrong password does.
var perOwner = limiter.Limit{Requests: 60, Window: time.Minute}

// Owners throttles requests with an API key: those of a good key by the key, and those of
// refused ones by their address. Refused keys never slow good ones down. It stores only
// hashes of addresses and ids, and is safe for concurrent use.
type Owners struct {
	refused, keys *limiter.Limiter
}

// NewOwners returns Owners on the client.
func NewOwners(client valkey.Client) *Owners {
	return &Owners{
		refused: limiter.New(client, "tg:self:unknown:", perSource...),
		keys:    limiter.New(client, "tg:self:key:", perOwner),
	}
}

// Refuse counts a request with a refused key against its address, with or without a port.
// The wait is positive if the address exceeds its limit.
func (o *Owners) Refuse(ctx context.Context, remote string) (wait time.Duration, err error) {
	d, err := take(ctx, o.refused, sourceOf(remote))
	return waitOf(d), err
}

// Admit counts a request of a good key against the key. The wait is positive if the key
// exceeds its limit.
func (o *Owners) Admit(ctx context.Context, id string) (wait time.Duration, err error) {
	d, err := take(ctx, o.keys, id)
	return waitOf(d), err
}

func waitOf(d limiter.Decision) time.Duration {
	if d.Allowed {
		return 0
	}
	return d.RetryAfter()
}
