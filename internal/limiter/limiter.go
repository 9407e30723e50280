package limiter

import (
	"context"
	"crypto/sha256"
	"encoding/base64"
	"fmt"

	"github.com/valkey-io/valkey-go"
)

// Limiter applies a fixed list of limits to any number of keys, without callers and
// policies. All Limiters with the same prefix count together. It is safe for concurrent
// use.
type Limiter struct {
	client valkey.Client
	prefix string
	limits []Limit // without a calendar
}

// New returns a Limiter that counts key k under prefix + "{" + hash of k + "}".
func New(client valkey.Client, prefix string, limits ...Limit) *Limiter {
	return &Limiter{client, prefix, limits}
}

// Take takes a cost of 1 from every limit of key, or from none. key may be any bytes; it
// is hashed. Any error means that no decision was made.
func (l *Limiter) Take(ctx context.Context, key string) (Decision, error) {
	s, err := l.step(key)
	if err != nil {
		return Decision{}, err
	}
	return Take(ctx, l.client, s)
}

// Look returns the decision of a Take, but takes nothing.
func (l *Limiter) Look(ctx context.Context, key string) (Decision, error) {
	s, err := l.step(key)
	if err != nil {
		return Decision{}, err
	}
	return Look(ctx, l.client, s)
}

// Refund gives back what a decision of Take took. It is called at most once for a decision.
func (l *Limiter) Refund(ctx context.Context, taken Decision) error {
	_, err := Settle(ctx, l.client, taken.Settle())
	return err
}

func (l *Limiter) step(key string) (Step, error) {
	sum := sha256.Sum256([]byte(key))
	count := l.prefix + "{" + base64.RawURLEncoding.EncodeToString(sum[:16]) + "}"
	all := make([]Applied, len(l.limits))
	for i, limit := range l.limits {
		all[i] = Applied{Limit: limit, Count: count, Cost: 1}
	}
	s, err := NewStep(all)
	if err != nil {
		return Step{}, fmt.Errorf("limits of %s: %w", l.prefix, err)
	}
	return s, nil
}
