//go:build unix

package faults

import (
	"slices"
	"testing"
	"time"

	"github.com/anishathalye/porcupine"

	"tidegate/internal/testing/rolling"
)

// worst returns the highest number of a caller's calls that Valkey certainly admitted
// within one rolling window. Each call was decided between its start and its end.
func worst(outcomes []outcome, caller int, window time.Duration) int {
	var admitted []rolling.Span
	for _, o := range outcomes {
		if o.caller == caller && o.counted() {
			admitted = append(admitted, rolling.Span{First: o.start, Last: o.end})
		}
	}
	_, most := rolling.Fullest(admitted, window)
	return most
}

// bounded fails the test if Valkey admitted more calls of a caller than the limit in any
// window. It returns the highest number of calls admitted in a window.
func bounded(t *testing.T, outcomes []outcome, callers int, limit int, window time.Duration) (most int) {
	t.Helper()
	for i := range callers {
		n := worst(outcomes, i, window)
		if n > limit {
			t.Errorf("caller %d: got %d calls admitted within %s, want at most %d", i, n, window, limit)
		}
		most = max(most, n)
	}
	return most
}

// counterModel models a limit whose window is longer than the test. It admits limit
// calls. The answer of an admitted call has the number of remaining calls.
func counterModel(limit int64) porcupine.Model {
	return porcupine.Model{
		Init: func() any { return int64(0) },
		Step: func(state, _, output any) (bool, any) {
			used, o := state.(int64), output.(outcome)
			if o.status == 200 {
				return used < limit && o.remaining == limit-used-1, used + 1
			}
			return used >= limit, used
		},
	}
}

// linearizable fails the test unless each caller's calls have an order in which
// counterModel gives the same answers.
func linearizable(t *testing.T, outcomes []outcome, callers int, limit int64) {
	t.Helper()
	for i := range callers {
		var history []porcupine.Operation
		for n, o := range outcomes {
			if o.caller == i {
				history = append(history, porcupine.Operation{ClientId: n, Call: int64(o.start), Output: o,
					Return: int64(o.end)})
			}
		}
		if result := porcupine.CheckOperationsTimeout(counterModel(limit), history,
			time.Minute); result != porcupine.Ok {
			t.Errorf("caller %d: got %s, want an order of %d calls in which a counter gives the same answers",
				i, result, len(history))
		}
	}
}

// The checkers in this file detect the violations that they look for.
func TestCheckers(t *testing.T) {
	at := func(start, end int, status int, remaining int64) outcome {
		return outcome{start: time.Duration(start), end: time.Duration(end), status: status,
			remaining: remaining}
	}
	calls := []outcome{at(0, 2, 200, 1), at(1, 3, 200, 0), at(4, 5, 429, 0), at(11, 12, 200, 0)}
	if most := worst(calls, 0, 10); most != 2 {
		t.Errorf("window of 10: got %d, want 2", most)
	}
	if most := worst(calls, 0, 12); most != 2 {
		t.Errorf("window of 12: got %d, want 2, since the last call may have been decided after it", most)
	}
	if most := worst(calls, 0, 13); most != 3 {
		t.Errorf("window of 13: got %d, want 3", most)
	}
	check := func(calls []outcome) porcupine.CheckResult {
		var history []porcupine.Operation
		for n, o := range calls {
			history = append(history, porcupine.Operation{ClientId: n, Call: int64(o.start), Output: o,
				Return: int64(o.end)})
		}
		return porcupine.CheckOperationsTimeout(counterModel(2), history, time.Minute)
	}
	swapped := slices.Clone(calls[:3])
	swapped[0].remaining, swapped[1].remaining = 0, 1 // they overlap
	if check(calls[:3]) != porcupine.Ok || check(swapped) != porcupine.Ok ||
		check(calls) != porcupine.Illegal {
		t.Error("counterModel: want the first two histories accepted and the third refused")
	}
}
