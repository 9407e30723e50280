package throttle

import (
	"context"
	"fmt"
	"time"

	"github.com/valkey-io/valkey-go"

	"tidegate/internal/limiter"
)

// The limits of API keys that query themselves: of one key, and of all keys from one
// address. A bad key counts against its address as a wrong password does.
var (
	perOwner   = limiter.Limit{Requests: 60, Window: time.Minute}
	perNetwork = limiter.Limit{Requests: 300, Window: time.Minute}
)

// Owners throttles requests with an API key. It stores only hashes of addresses and ids,
// and is safe for concurrent use.
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

// OwnersAttempt is the result of Take and Admit. If it is not Allowed, RetryAfter is the
// time until the same attempt is allowed if nobody else makes one.
type OwnersAttempt struct {
	Allowed    bool
	RetryAfter time.Duration
	unknown    counted
}

// Take counts a request with a key that is not looked up yet, as if it were unknown.
// remote is its address, with or without a port. After an error the request is not
// allowed.
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

// Admit refunds the attempt of a good key, and counts it against that key.
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
