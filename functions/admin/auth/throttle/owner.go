package throttle

import (
	"context"
	"fmt"
	"time"

	"github.com/valkey-io/valkey-go"

	"tidegate/internal/limiter"
)

// What API keys may ask of themselves: one key, and all keys of one address together. A
// key that is not good counts against its address as a wrong password does.
var (
	perOwner   = limiter.Limit{Requests: 60, Window: time.Minute}
	perNetwork = limiter.Limit{Requests: 300, Window: time.Minute}
)

// Owners slows down requests that bring an API key. It keeps only hashes of addresses and
// of ids, and is safe for concurrent use.
type Owners struct {
	unknown, networks, keys *limiter.Limiter
}

// NewOwners returns Owners on the client.
func NewOwners(client valkey.Client) (*Owners, error) {
	unknown, err := limiter.New(client, "tg:self:unknown:", perSource...)
	if err != nil {
		return nil, fmt.Errorf("throttle unknown keys: %w", err)
	}
	networks, err := limiter.New(client, "tg:self:source:", perNetwork)
	if err != nil {
		return nil, fmt.Errorf("throttle sources of keys: %w", err)
	}
	keys, err := limiter.New(client, "tg:self:key:", perOwner)
	if err != nil {
		return nil, fmt.Errorf("throttle keys: %w", err)
	}
	return &Owners{unknown: unknown, networks: networks, keys: keys}, nil
}

// OwnersAttempt is the answer to Take and Admit. When it is not Allowed nothing may be
// answered but RetryAfter, the time until the same attempt is allowed if nobody else
// makes one.
type OwnersAttempt struct {
	Allowed    bool
	RetryAfter time.Duration
	unknown    counted
}

// Take counts a request with a key that nobody has looked up yet, as if it were unknown.
// remote is its address, with or without a port. With an error it is not allowed.
func (o *Owners) Take(ctx context.Context, remote string) (OwnersAttempt, error) {
	source := sourceOf(remote)
	d, err := take(ctx, o.networks, source)
	if err != nil || !d.Allowed {
		return OwnersAttempt{RetryAfter: d.RetryAfter()}, err
	}
	d, err = take(ctx, o.unknown, source)
	if err != nil {
		return OwnersAttempt{}, err
	}
	return OwnersAttempt{Allowed: d.Allowed, RetryAfter: d.RetryAfter(),
		unknown: counted{key: source, taken: d}}, nil
}

// Admit gives an attempt back that brought a good key, and counts it against that key.
func (o *Owners) Admit(ctx context.Context, a OwnersAttempt, id string) (OwnersAttempt, error) {
	if err := a.unknown.refund(ctx, o.unknown); err != nil {
		return OwnersAttempt{}, err
	}
	d, err := take(ctx, o.keys, id)
	if err != nil {
		return OwnersAttempt{}, err
	}
	return OwnersAttempt{Allowed: d.Allowed, RetryAfter: d.RetryAfter()}, nil
}
