package limiter

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/anishathalye/porcupine"
	"github.com/valkey-io/valkey-go"

	"tidegate/internal/testing/valkeytest"
)

// operation is one call of a Limiter on one key. A cost of 0 peeks, a negative cost is
// refunded.
type operation struct {
	limits []Limit
	cost   int64
	taken  Decision // the Decision to refund
}

// linear is the sequential specification: at the server's time in each reply, the Model
// makes exactly the Decision of that reply.
var linear = porcupine.Model{
	Init:  func() any { return stepped{} },
	Equal: func(a, b any) bool { return equalModels(a.(stepped).model, b.(stepped).model) },
	Step: func(state, input, output any) (bool, any) {
		m, a, got := cloneModel(state.(stepped).model), input.(operation), output.(Decision)
		var want Decision
		switch {
		case a.cost == 0:
			want = m.Peek(got.Now, a.limits)
		case a.cost < 0:
			want = m.Refund(got.Now, a.limits, -a.cost, 0, a.taken.Now, 0)
		default:
			var err error
			if want, err = m.Take(got.Now, a.limits, a.cost); err != nil {
				return false, state
			}
		}
		return equalDecisions(got, want), stepped{m, got.Now}
	},
	DescribeOperation: func(input, output any) string {
		a, d := input.(operation), output.(Decision)
		return fmt.Sprintf("%v cost %d at %d: %t %v", a.limits, a.cost, d.Now.UnixMicro(),
			d.Allowed, d.Limits)
	},
}

// stepped is a Model with the server's time in the last reply.
type stepped struct {
	model Model
	last  time.Time
}

// inServerOrder returns linear for a server whose clock does not step back, which leaves
// few orders to try.
func inServerOrder() porcupine.Model {
	ordered := linear
	ordered.Step = func(state, input, output any) (bool, any) {
		if output.(Decision).Now.Before(state.(stepped).last) {
			return false, state
		}
		return linear.Step(state, input, output)
	}
	return ordered
}

// linearize searches for an order of the calls in which the model makes the server's
// decisions.
func linearize(history []porcupine.Operation) porcupine.CheckResult {
	if porcupine.CheckOperationsTimeout(inServerOrder(), history, time.Minute) == porcupine.Ok {
		return porcupine.Ok
	}
	return porcupine.CheckOperationsTimeout(linear, history, time.Minute)
}

func cloneModel(m Model) Model {
	m.parts = slices.Clone(m.parts)
	for i := range m.parts {
		m.parts[i].slots = slices.Clone(m.parts[i].slots)
	}
	return m
}

func equalModels(a, b Model) bool { return fmt.Sprint(a) == fmt.Sprint(b) }

// equalDecisions does not compare Usage.Since: in windows below a second, the server may
// have deleted the state before that time, which is rounded up, and the model not.
func equalDecisions(a, b Decision) bool {
	return a.Allowed == b.Allowed && a.Now.Equal(b.Now) && slices.EqualFunc(a.Limits, b.Limits,
		func(x, y Usage) bool {
			x.Since, y.Since = time.Time{}, time.Time{}
			return x == y
		})
}

// caller is one of several concurrent callers.
type caller struct {
	id       int
	random   *rand.Rand
	limiters []*Limiter
	taken    []operation // admitted calls to refund, each once
	began    time.Time
	history  []porcupine.Operation
}

// call makes one random call and records when it began, when it returned and its
// Decision.
func (c *caller) call(ctx context.Context, key string) error {
	l := c.limiters[c.random.IntN(len(c.limiters))]
	a := operation{limits: l.limits}
	switch n := c.random.IntN(10); {
	case n == 0:
	case n == 1 && len(c.taken) > 0:
		a.taken, a.cost, c.taken = c.taken[0].taken, -c.taken[0].cost, c.taken[1:]
	default:
		a.cost = 1 + c.random.Int64N(3)
	}
	called := time.Since(c.began)
	var d Decision
	var err error
	switch {
	case a.cost == 0:
		d, err = l.Peek(ctx, key)
	case a.cost < 0:
		d, err = l.Refund(ctx, key, -a.cost, a.taken)
	default:
		d, err = l.Take(ctx, key, a.cost)
	}
	returned := time.Since(c.began)
	if err != nil {
		return err
	}
	if a.cost > 0 && d.Allowed {
		c.taken = append(c.taken, operation{cost: a.cost, taken: d})
	}
	c.history = append(c.history, porcupine.Operation{ClientId: c.id, Input: a, Call: int64(called),
		Output: d, Return: int64(returned)})
	return nil
}

// record makes calls from concurrent callers and returns the history of all.
func record(t *testing.T, limiters []*Limiter, key string, callers, calls int) []porcupine.Operation {
	t.Helper()
	began := time.Now()
	all := make([]*caller, callers)
	var group sync.WaitGroup
	for i := range all {
		c := &caller{id: i, random: rand.New(rand.NewPCG(uint64(i), uint64(len(key)))),
			limiters: limiters, began: began}
		all[i] = c
		group.Go(func() {
			for range calls {
				if err := c.call(t.Context(), key); err != nil {
					t.Error(err)
					return
				}
			}
		})
	}
	group.Wait()
	var history []porcupine.Operation
	for _, c := range all {
		history = append(history, c.history...)
	}
	return history
}

// connectUnpipelined returns a client that sends each command over a connection of its
// own, so that concurrent calls reach the server independently.
func connectUnpipelined(t *testing.T, addresses ...string) valkey.Client {
	t.Helper()
	client, err := valkey.NewClient(valkey.ClientOption{
		InitAddress: addresses, DisableCache: true, DisableAutoPipelining: true, BlockingPoolSize: 64,
		ConnWriteTimeout: time.Minute,
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(client.Close)
	return client
}

// Concurrent calls on one node have the decisions of sequential calls, each between its
// call and its return: every decision is the model's, to the microsecond. Windows are so
// short that they end, and states expire, during the test.
func TestConcurrentCallsAreLinearizable(t *testing.T) {
	client := connectUnpipelined(t, address(valkeytest.Start(t)))
	window := 3 * time.Millisecond
	for name, lists := range map[string][][]Limit{
		"log":          {{{Requests: 5, Window: window}}},
		"grouped log":  {{{Requests: 130, Window: window, Slots: MinSlots}}},
		"attempts":     {{{Requests: 5, Window: window, CountDenied: true}}},
		"counter":      {{{Requests: 5, Window: window, Algorithm: Counter}}},
		"token bucket": {{{Requests: 5, Window: window, Algorithm: TokenBucket}}},
		"fixed window": {{{Requests: 5, Window: window, Algorithm: FixedWindow}}},
		"several": {{
			{Requests: 5, Window: window}, {Requests: 20, Window: 10 * window},
			{Requests: 12, Window: 3 * window, Algorithm: TokenBucket},
		}},
		"calls and cost": {{{Requests: 5, Window: window, Calls: true}, {Requests: 9, Window: window}}},
		"edited": {
			// All lists name the same parts: what a new part takes over from one that has expired
			// depends on when the server deletes the state, which the model does not do.
			{{Requests: 5, Window: window}, {Requests: 9, Window: window, Algorithm: Counter}},
			{{Requests: 8, Window: window}, {Requests: 6, Window: window, Algorithm: Counter}},
			{{Requests: 9, Window: window, Algorithm: Counter}, {Requests: 7, Window: window}},
		},
	} {
		t.Run(name, func(t *testing.T) {
			history := record(t, limitersOf(t, client, "tg:"+name, lists...), "caller", 8, 200)
			if result := linearize(history); result != porcupine.Ok {
				t.Errorf("got %s for %d calls, want an order in which the model makes the server's decisions",
					result, len(history))
			}
		})
	}
}

// linearize detects a history from which one call is removed.
func TestLinearizeFindsLostCall(t *testing.T) {
	client := connectUnpipelined(t, address(valkeytest.Start(t)))
	history := record(t, limitersOf(t, client, "tg:", []Limit{{Requests: 1000, Window: time.Hour}}),
		"caller", 1, 50)
	if result := linearize(history); result != porcupine.Ok {
		t.Fatalf("%d sequential calls: got %s, want %s", len(history), result, porcupine.Ok)
	}
	lost := slices.IndexFunc(history, func(o porcupine.Operation) bool {
		return o.Input.(operation).cost > 0
	})
	if result := linearize(slices.Delete(history, lost, lost+1)); result != porcupine.Illegal {
		t.Errorf("without one call: got %s, want %s", result, porcupine.Illegal)
	}
}

func limitersOf(t *testing.T, client valkey.Client, prefix string, lists ...[]Limit) []*Limiter {
	t.Helper()
	limiters := make([]*Limiter, len(lists))
	for i, limits := range lists {
		var err error
		if limiters[i], err = New(client, prefix, limits...); err != nil {
			t.Fatal(err)
		}
	}
	return limiters
}

func address(url string) string { return strings.TrimPrefix(url, "valkey://") }
