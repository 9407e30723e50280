// Package enforce asks Valkey about one call. Its Checker finds the caller and its newest
// limits, and takes the call's cost from all of them or from none; it also explains what
// it would answer, reserves and settles. Package decide calls it, and answers when it
// cannot. The package reads the policy set and never writes it: that is package
// registry's part.
//
// A check passes the script the version of the set that it knows. When the caller's
// bucket has a newer one, nothing is taken, the set is read again, and the check repeats.
// So a save acts on every check that starts after it was acknowledged.
package enforce

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/valkey-io/valkey-go"

	"tidegate/internal/apikey"
	"tidegate/internal/enforce/compiled"
	"tidegate/internal/enforce/reservation"
	"tidegate/internal/limiter"
	"tidegate/internal/policyset"
	"tidegate/internal/store/keyspace"
)

// Checker makes checks with a Set that it keeps. It is safe for concurrent use.
type Checker struct {
	client    valkey.Client
	pepper    apikey.Pepper
	addresses policyset.AddressKey
	seal      reservation.Seal
	set       atomic.Pointer[compiled.Set]
	recent    *recentCallers
	known     *knownCallers
	access    *keyAccesses
	now       func() time.Time // clock of leases and of recent

	// ReservationExpiry is how long a reservation can be settled, within the bounds of
	// config.ReservationLease. It is set before the first use.
	ReservationExpiry time.Duration

	mu       sync.Mutex
	programs map[string][]limiter.Limit // by their text, since the same few come with every reply
}

// NewChecker returns a Checker on a connected client.
func NewChecker(client valkey.Client, pepper apikey.Pepper) *Checker {
	return &Checker{
		client: client, pepper: pepper, addresses: policyset.NewAddressKey(pepper),
		seal:              reservation.NewSeal(pepper),
		ReservationExpiry: DefaultReservationExpiry,
		recent:            newRecentCallers(), known: newKnownCallers(),
		access: newKeyAccesses(), now: time.Now,
		programs: map[string][]limiter.Limit{},
	}
}

// Probe reads where Check of the call would, over the same connection, and takes nothing.
// The client may try it again by itself, which it must not do with a Check: so it finds a
// connection that was closed meanwhile, and leaves a good one. It needs no permission
// that Check does not.
func (c *Checker) Probe(ctx context.Context, call Call) error {
	err := c.client.Do(ctx, c.client.B().Get().Key(keyspace.Record(call.Subject)).Build()).Error()
	if err != nil && !valkey.IsValkeyNil(err) {
		return fmt.Errorf("enforce: probe: %w", err)
	}
	return nil
}
