package limiter

import (
	"context"
	"crypto/sha256"
	"encoding/base64"
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/valkey-io/valkey-go"

	"tidegate/internal/lua"
)

// ErrCost means that a cost can never be taken: it is below 1 or above one of the limits.
// Nothing was taken.
var ErrCost = errors.New("limiter: cost out of range")

// Limiter holds callers to a fixed list of limits, all of them or none. Its state lives
// in Valkey, so every Limiter with the same prefix and limits counts together, on
// whatever machine. It is safe for concurrent use.
type Limiter struct {
	client  valkey.Client
	prefix  string
	program Program
	limits  []Limit
}

// New returns a Limiter that keeps the state of key k under prefix + "{" + hash of k +
// "}". Limits are 1 to MaxLimits; an error names what is wrong with them. Another list of
// limits under the same prefix takes over the counts.
func New(client valkey.Client, prefix string, limits ...Limit) (*Limiter, error) {
	program, err := Compile(limits, time.Now())
	if err != nil {
		return nil, fmt.Errorf("limiter: %w", err)
	}
	return &Limiter{client: client, prefix: prefix, program: program, limits: limits}, nil
}

// Take takes cost from every limit of key, or from none. key may be any bytes: it is
// hashed. cost is 1 to the smallest enforced limit, else ErrCost. A denial is a Decision,
// not an error; an error means that no decision was made.
func (l *Limiter) Take(ctx context.Context, key string, cost int64) (Decision, error) {
	if err := checkCost(cost, l.limits); err != nil {
		return Decision{}, err
	}
	return l.do(ctx, key, cost, 0)
}

// Reserving stands for the time of a refund in a step that takes what may be given back.
const Reserving = -1

// Reserve is Take of a cost of which some may be given back. A token bucket remembers for
// it, in 54 to 438 bytes more, what later calls find, until it was full: so Refund gives
// back exactly. Other algorithms need nothing of the kind.
func (l *Limiter) Reserve(ctx context.Context, key string, cost int64) (Decision, error) {
	if err := checkCost(cost, l.limits); err != nil {
		return Decision{}, err
	}
	return l.do(ctx, key, cost, Reserving)
}

// Peek returns what Take would answer for a cost of 1, and takes nothing.
func (l *Limiter) Peek(ctx context.Context, key string) (Decision, error) {
	return l.do(ctx, key, 0, 0)
}

// Refund gives back cost that Take took from key in the Decision taken, and returns what
// Peek would, with Unreturned. A part of what was taken may be given back. The next look
// sees exactly as much more, whatever was called since; a log that counts denied calls
// gives nothing back, and a token bucket what it would not owe without those calls:
// exactly when they reserved, else less by what it drained since. What has left its
// window is not given back twice. A Decision must not be refunded by more than it took,
// in all, nor after Reset: docs/algorithms.md says why.
func (l *Limiter) Refund(ctx context.Context, key string, cost int64, taken Decision) (Decision, error) {
	if err := checkCost(cost, l.limits); err != nil {
		return Decision{}, err
	}
	return l.step(ctx, key, l.program.Sparing(Exceeded(taken.Limits)), -cost, taken.Now.UnixMicro())
}

// Reset forgets everything that key took.
func (l *Limiter) Reset(ctx context.Context, key string) error {
	if err := l.client.Do(ctx, l.client.B().Del().Key(l.stateKey(key)).Build()).Error(); err != nil {
		return fmt.Errorf("limiter: reset: %w", err)
	}
	return nil
}

func (l *Limiter) do(ctx context.Context, key string, cost, taken int64) (Decision, error) {
	return l.step(ctx, key, l.program, cost, taken)
}

func (l *Limiter) step(ctx context.Context, key string, program Program,
	cost, taken int64) (Decision, error) {
	result := takeScript.Do(ctx, l.client, []string{l.stateKey(key)},
		[]string{string(program), strconv.FormatInt(cost, 10), strconv.FormatInt(taken, 10)})
	reply, err := result.ToString()
	if err != nil {
		return Decision{}, fmt.Errorf("limiter: take: %w", err)
	}
	return ParseReply([]byte(reply), l.limits)
}

func (l *Limiter) stateKey(key string) string {
	sum := sha256.Sum256([]byte(key))
	return l.prefix + "{" + base64.RawURLEncoding.EncodeToString(sum[:16]) + "}"
}

// Exchange is one step of many sent together by Many.
type Exchange struct {
	Key     string // the state key, as stored
	Program Program
	Limits  []Limit // what Program was compiled from
}

// PeekMany looks at many subjects in one flush, in order; it takes nothing.
func PeekMany(ctx context.Context, client valkey.Client, subjects []Exchange) ([]Decision, error) {
	if len(subjects) == 0 {
		return nil, nil
	}
	runs := make([]lua.Run, len(subjects))
	for i, s := range subjects {
		runs[i] = lua.Run{Keys: []string{s.Key}, Args: []string{string(s.Program), "0", "0"}}
	}
	decisions := make([]Decision, len(subjects))
	for i, result := range takeScript.DoMany(ctx, client, runs) {
		reply, err := result.ToString()
		if err != nil {
			return nil, fmt.Errorf("limiter: peek: %w", err)
		}
		if decisions[i], err = ParseReply([]byte(reply), subjects[i].Limits); err != nil {
			return nil, err
		}
	}
	return decisions, nil
}

func checkCost(cost int64, limits []Limit) error {
	if cost < 1 {
		return fmt.Errorf("%w: %d is below 1", ErrCost, cost)
	}
	for _, l := range limits {
		if cost > l.Requests && !l.Shadow {
			return fmt.Errorf("%w: %d is above the limit of %s", ErrCost, cost, l)
		}
	}
	return nil
}
