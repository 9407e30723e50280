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

// Limiter applies a fixed list of limits to any number of keys. Its state is in Valkey,
// so all Limiters with the same prefix and limits count together. It is safe for
// concurrent use.
type Limiter struct {
	client  valkey.Client
	prefix  string
	program Program
	limits  []Limit
}

// New returns a Limiter that stores the state of key k under prefix + "{" + hash of k +
// "}". It accepts 1 to MaxLimits limits; its error names invalid ones. A Limiter with
// another list of limits and the same prefix goes on with the counts.
func New(client valkey.Client, prefix string, limits ...Limit) (*Limiter, error) {
	program, err := Compile(limits, time.Now())
	if err != nil {
		return nil, fmt.Errorf("limiter: %w", err)
	}
	return &Limiter{client: client, prefix: prefix, program: program, limits: limits}, nil
}

// Take takes cost from every limit of key, or from none. key may be any bytes; it is
// hashed. cost must be 1 to the smallest enforced limit, or Take returns ErrCost. A
// denial is a Decision, not an error. Any error means that no decision was made.
func (l *Limiter) Take(ctx context.Context, key string, cost int64) (Decision, error) {
	if err := checkCost(cost, l.limits); err != nil {
		return Decision{}, err
	}
	return l.step(ctx, takeScript, key, l.program, cost, 0, 0)
}

// Peek returns the Decision of a Take of cost 1, but takes nothing.
func (l *Limiter) Peek(ctx context.Context, key string) (Decision, error) {
	return l.step(ctx, lookScript, key, l.program, 0, 0, 0)
}

// Refund gives back cost, a part or all of the cost that was taken from key with the
// Decision taken. It returns the Decision of a Peek, with Unreturned. Remaining rises by
// exactly cost, whatever calls were made since, with these exceptions:
//
//   - A log that counts denied calls gives nothing back.
//   - A token bucket gives back the debt that cannot have drained since the call.
//     Unreturned says how much of the rest it may still have.
//   - A limit of calls gives nothing back.
//   - Cost that has left its window is not given back a second time.
//
// The refunds of a Decision must not exceed its cost in total, and none may follow a
// deletion of the state: docs/algorithms.md explains why.
func (l *Limiter) Refund(ctx context.Context, key string, cost int64, taken Decision) (Decision, error) {
	if err := checkCost(cost, l.limits); err != nil {
		return Decision{}, err
	}
	program := l.program.Sparing(Exceeded(taken.Limits))
	return l.step(ctx, takeScript, key, program, -cost, 0, taken.Now.UnixMicro())
}

func (l *Limiter) step(ctx context.Context, script *lua.Script, key string, program Program,
	cost, calls, taken int64) (Decision, error) {
	result := script.Do(ctx, l.client, []string{l.stateKey(key)}, []string{string(program),
		strconv.FormatInt(cost, 10), strconv.FormatInt(calls, 10), strconv.FormatInt(taken, 10)})
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

// State names a state in Valkey and its limits.
type State struct {
	Key     string // name in Valkey
	Program Program
	Limits  []Limit // the limits of Program
	Cost    int64   // to evaluate; 0 evaluates a cost of 1
}

// Look is the Decision about a state; TooHigh if the cost is above an enforced limit.
type Look struct {
	Decision
	TooHigh bool
}

// PeekMany evaluates each state, and takes nothing. It sends one flush of scripts that
// cannot write. Remaining is that before the call.
func PeekMany(ctx context.Context, client valkey.Client, states []State) ([]Look, error) {
	if len(states) == 0 {
		return nil, nil
	}
	runs := make([]lua.Run, len(states))
	for i, s := range states {
		runs[i] = lua.Run{Keys: []string{s.Key},
			Args: []string{string(s.Program), strconv.FormatInt(s.Cost, 10)}}
	}
	looks := make([]Look, len(states))
	for i, result := range lookScript.DoMany(ctx, client, runs) {
		reply, err := result.ToString()
		if err != nil {
			return nil, fmt.Errorf("limiter: peek: %w", err)
		}
		looks[i].Decision, err = ParseReply([]byte(reply), states[i].Limits)
		if looks[i].TooHigh = errors.Is(err, ErrCost); err != nil && !looks[i].TooHigh {
			return nil, err
		}
	}
	return looks, nil
}

func checkCost(cost int64, limits []Limit) error {
	if cost < 1 {
		return fmt.Errorf("%w: %d is below 1", ErrCost, cost)
	}
	for _, l := range limits {
		if cost > l.Requests && !l.Shadow && !l.Calls {
			return fmt.Errorf("%w: %d is above the limit of %s", ErrCost, cost, l)
		}
	}
	return nil
}
