package accuracy

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"pgregory.net/rapid"

	"tidegate/internal/limiter"
)

// The boundary attack gets almost twice the limit in a minute from the counter, but not
// from the log.
func ExampleRun() {
	result, err := Run(Scenario{
		Limit: 100, Window: time.Minute, Algorithms: []string{Log, Counter},
		Traffic: Traffic{Shape: Boundary, Rate: 1000, Windows: 4},
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	for _, o := range result.Outcomes {
		fmt.Printf("%s: %d of %d admitted, %d of them in one minute\n", o.Title, o.Admitted,
			result.Offered, o.Worst)
	}
	// Output:
	// log: 101 of 1400 admitted, 100 of them in one minute
	// counter: 199 of 1400 admitted, 199 of them in one minute
}

// drawCalls draws calls of which many have equal times or are exactly a window apart.
func drawCalls(t *rapid.T, limit, window int64) []Call {
	calls := make([]Call, rapid.IntRange(0, 80).Draw(t, "calls"))
	at := int64(0)
	for i := range calls {
		at += rapid.OneOf(rapid.Just(int64(0)), rapid.Int64Range(0, window/4), rapid.Just(window),
			rapid.Just(window-1)).Draw(t, "pause")
		calls[i] = Call{at, rapid.OneOf(rapid.Just(int64(1)), rapid.Int64Range(1, limit)).Draw(t, "cost")}
	}
	return calls
}

// costIn returns the cost of the calls in the rolling window that ends at ends.
func costIn(calls []Call, window, ends int64) int64 {
	sum := int64(0)
	for _, c := range calls {
		if c.At <= ends && ends-c.At < window {
			sum += c.Cost
		}
	}
	return sum
}

// For random calls, the log and the exact log decide as the sum over the whole history
// does. No rolling window exceeds the limit.
func TestLogEqualsBruteForce(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		limit, window := rapid.Int64Range(1, 80).Draw(t, "limit"),
			rapid.Int64Range(1, 40).Draw(t, "window")*1000
		for name, d := range map[string]decider{"log": ours(limiter.Limit{})([]bound{{limit, window}}),
			"exact log": newExactLogs([]bound{{limit, window}})} {
			var admitted []Call
			for _, c := range drawCalls(t, limit, window) {
				fits := costIn(admitted, window, c.At)+c.Cost <= limit
				if d.Take(c.At, c.Cost) != fits {
					t.Fatalf("%s: got allowed %t for %+v after %+v, want %t; limit %d in %d µs", name, !fits,
						c, admitted, fits, limit, window)
				}
				if fits {
					admitted = append(admitted, c)
				}
			}
			for _, c := range admitted {
				if cost := costIn(admitted, window, c.At+window-1); cost > limit {
					t.Fatalf("%s: admitted %d in the window from %d µs, want at most %d in %d µs", name, cost,
						c.At, limit, window)
				}
			}
		}
	})
}

// Worst is the largest cost over all rolling windows, and Series has the largest of each
// part of the time.
func TestWorstAndSeriesEqualBruteForce(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		window := rapid.Int64Range(1, 40).Draw(t, "window")
		calls, points := drawCalls(t, 5, window), rapid.IntRange(1, 20).Draw(t, "points")
		o, r := Outcome{}, rolling{window: window}
		for _, c := range calls {
			o.admit(c, r.admit(c))
		}
		from, to := int64(-3), int64(1)
		if len(calls) > 0 {
			to += calls[len(calls)-1].At
		}
		if worst := mostIn(calls, window, from, to); worst != o.Worst || worst > 0 &&
			costIn(calls, window, o.WorstAt) != worst {
			t.Fatalf("got worst %d at %d µs, want %d; calls %+v, window %d µs", o.Worst, o.WorstAt, worst,
				calls, window)
		}
		for i, most := range series(calls, window, from, to, points) {
			if want := mostIn(calls, window, part(from, to, i, points),
				part(from, to, i+1, points)); most != want {
				t.Fatalf("point %d of %d: got %d, want %d; calls %+v, window %d µs", i, points, most, want,
					calls, window)
			}
		}
	})
}

// mostIn returns the largest cost of a rolling window that ends in [from, to). It looks
// at from, also if the interval is empty, and at every call in the interval.
func mostIn(calls []Call, window, from, to int64) int64 {
	most := costIn(calls, window, from-1) - costOut(calls, window, from)
	for _, c := range calls {
		if from <= c.At && c.At < to {
			most = max(most, costIn(calls, window, c.At))
		}
	}
	return most
}

// costOut returns the cost of the calls that leave the rolling window at an instant.
func costOut(calls []Call, window, at int64) int64 {
	sum := int64(0)
	for _, c := range calls {
		if c.At == at-window {
			sum += c.Cost
		}
	}
	return sum
}

// An outcome has the counts that the comments below derive by hand.
func TestOutcomeTimeline(t *testing.T) {
	second := func(s int64) int64 { return s * 1_000_000 }
	r := mustRun(Scenario{
		Limit: 2, Window: 10 * time.Second, Points: 5,
		Traffic: Traffic{Shape: Recorded, Calls: []Call{
			{second(8), 1},  // both admit
			{second(9), 1},  // both admit
			{second(11), 1}, // only the fixed window admits: 3 in its own rolling window
			{second(12), 1}, // only the fixed window admits: 4 in its own rolling window
			{second(13), 3}, // costs more than the limit
			// The exact log admits, because the calls at 8 and 9 have left the window.
			// The fixed window has admitted two calls since 10.
			{second(19), 1},
			// The exact log has the call at 19 and denies. The fixed window has begun a
			// new window, and its call at 12 has just left the rolling window.
			{second(22), 2},
		}},
	})
	want := Outcome{
		AdmittedCalls: 5, Admitted: 6, FalseAllows: 3, FalseDenials: 1, Overfull: 2, Worst: 4,
		WorstAt: second(12),
		Retry:   RetryError{Samples: 1},
		Series:  []int64{2, 4, 4, 4, 2},
	}
	got := r.of(t, FixedWindow)
	if diff := cmp.Diff(want, got, cmpopts.IgnoreFields(Outcome{}, "Algorithm")); diff != "" {
		t.Error(diff)
	}
	if r.Calls != 7 || r.Offered != 10 || r.Exact.Admitted != 3 ||
		!slices.Equal(r.Exact.Series, []int64{2, 2, 2, 2, 1}) {
		t.Errorf("got %d calls of cost %d, exact log %+v; want 7 calls, cost 10 and 3 admitted", r.Calls,
			r.Offered, r.Exact)
	}
}

// Run measures the error of the retry-after of the two-window estimate and the ZSET
// script.
func TestRetryErrorTimeline(t *testing.T) {
	calls := make([]Call, 10)
	for i := range calls {
		// ten calls within the first second of a minute
		calls[i] = Call{At: 60_000_000 + int64(i)*100_000, Cost: 1}
	}
	calls = append(calls, Call{At: 80_050_000, Cost: 1})
	r := compare(Scenario{Limit: 10, Window: time.Minute, Traffic: Traffic{Shape: Recorded, Calls: calls}})
	for name, want := range map[string]RetryError{
		Log: {Samples: 1},
		// Its retry-after is 39.95 s, the end of the window. Only a millisecond later do
		// the ten calls weigh less than ten.
		TwoWindow: {Samples: 1, Early: 1, Most: time.Millisecond},
		// Its retry-after is 40 s, but the oldest call leaves after 39.95 s.
		ZSETScript: {Samples: 1, Late: 1, Most: 50 * time.Millisecond},
		ZSETAll:    {},
	} {
		if got := r.of(t, name).Retry; got != want {
			t.Errorf("%s: got %+v, want %+v", name, got, want)
		}
	}
}

// Cloudflare's example: 42 calls in the previous minute and 18 in the first 15 s of this
// one are an estimate of 49.5 of 50. The next call is denied, and counts.
func TestPublishedExample(t *testing.T) {
	var calls []Call
	calls = even(calls, 0, 60_000_000, 42)
	for range 18 + 2 {
		calls = append(calls, Call{75_000_000, 1})
	}
	r := compare(Scenario{Limit: 50, Window: time.Minute, Traffic: Traffic{Shape: Recorded, Calls: calls}})
	if o := r.of(t, TwoWindowAll); o.AdmittedCalls != 60 {
		t.Errorf("got %d admitted calls, want 60", o.AdmittedCalls)
	}
	d := newTwoWindowAll(50, 60_000_000)
	for _, c := range calls {
		d.Take(c.At, c.Cost)
	}
	// At 78.571429 s the previous 42 calls weigh 29. With the 20 counted calls and this
	// one that makes 50; a microsecond earlier it is more.
	for _, at := range []int64{78_571_428, 78_571_429} {
		if later := *d.(*twoWindowAll); later.Take(at, 1) != (at == 78_571_429) {
			t.Errorf("call at %d µs: got allowed %t, want %t", at, at != 78_571_429, at == 78_571_429)
		}
	}
}

// A tenth of the previous window's ten calls is 0.9999999999999998 in floating point,
// which rounds down to 0. So the original admits ten calls at once.
func TestTwoWindowRounding(t *testing.T) {
	d := newTwoWindow(10, 10_000)
	admitted := 0
	for _, at := range []int64{0, 19_000} {
		for range 20 {
			if d.Take(at, 1) {
				admitted++
			}
		}
	}
	if admitted != 20 {
		t.Errorf("got %d admitted calls, want 20", admitted)
	}
}

// The same seed gives the same result, another seed a different one.
func TestSeed(t *testing.T) {
	for _, shape := range []Shape{Poisson, OnOff} {
		s := Scenario{Limit: 10, Window: time.Minute, Traffic: Traffic{Shape: shape, Rate: 200, Windows: 20},
			Seed: 7, Points: 50}
		first, again := encoded(t, mustRun(s)), encoded(t, mustRun(s))
		if first != again {
			t.Errorf("%s: same scenario: got different results", shape)
		}
		if s.Seed = 8; encoded(t, mustRun(s)) == strings.Replace(first, `"seed":7`, `"seed":8`, 1) {
			t.Errorf("%s: other seed: got the same result", shape)
		}
	}
}

// A Result is unchanged after encoding and decoding as JSON.
func TestResultAsJSON(t *testing.T) {
	r := mustRun(Scenario{Limit: 10, Window: time.Minute,
		Traffic: Traffic{Shape: Boundary, Rate: 1000, Windows: 4}, Points: 10})
	var back Result
	if err := json.Unmarshal([]byte(encoded(t, r)), &back); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(r, back, cmpopts.IgnoreUnexported(Algorithm{})); diff != "" {
		t.Error(diff)
	}
	if len(r.Demand) != 10 || len(r.Exact.Series) != 10 || len(r.Outcomes) != len(Algorithms()) {
		t.Errorf("got %d and %d points and %d outcomes, want 10, 10 and %d", len(r.Demand),
			len(r.Exact.Series), len(r.Outcomes), len(Algorithms()))
	}
}

func encoded(t *testing.T, r Result) string {
	t.Helper()
	b, err := json.Marshal(r)
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

// For a limit of two calls in ten seconds, Trace returns each algorithm's decisions,
// remaining calls and retry-after.
func TestTraceTimeline(t *testing.T) {
	at := []time.Duration{0, 9 * time.Second, 9 * time.Second, 10 * time.Second, 11 * time.Second}
	type row struct {
		allowed   bool
		remaining int64
		retry     time.Duration
	}
	for algorithm, want := range map[limiter.Algorithm][]row{
		limiter.Log: {{true, 1, 0}, {true, 0, 0}, {false, 0, time.Second}, {true, 0, 0},
			{false, 0, 8 * time.Second}},
		limiter.FixedWindow: {{true, 1, 0}, {true, 0, 0}, {false, 0, time.Second}, {true, 1, 0},
			{true, 0, 0}},
		limiter.TokenBucket: {{true, 1, 0}, {true, 1, 0}, {true, 0, 0}, {false, 0, 4 * time.Second},
			{false, 0, 3 * time.Second}},
	} {
		decisions, err := Trace([]limiter.Limit{{Requests: 2, Window: 10 * time.Second,
			Algorithm: algorithm}, {Requests: 100, Window: time.Hour}}, at)
		if err != nil {
			t.Fatal(err)
		}
		for i, d := range decisions {
			if got := (row{d.Allowed, d.Limits[0].Remaining, d.RetryAfter()}); got != want[i] {
				t.Errorf("%s, call at %s: got %+v, want %+v", algorithm, at[i], got, want[i])
			}
		}
	}
}

func TestTraceBounds(t *testing.T) {
	limits := []limiter.Limit{{Requests: 1, Window: time.Second}}
	for name, at := range map[string][]time.Duration{
		"backwards": {2, 1}, "before the start": {-1}, "too many": make([]time.Duration, MaxCalls+1),
	} {
		if _, err := Trace(limits, at); err == nil {
			t.Errorf("%s: got no error", name)
		}
	}
	if _, err := Trace(nil, nil); err == nil {
		t.Error("no limits: got no error")
	}
}

// With several limits, a call passes only if all have room. The limiter's log decides as
// the exact logs do, and no window of either limit exceeds it.
func TestLogOfSeveralLimitsIsExact(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var limits []bound
		for range rapid.IntRange(2, 4).Draw(t, "limits") {
			limits = append(limits, bound{rapid.Int64Range(1, 60).Draw(t, "limit"),
				rapid.Int64Range(1, 40).Draw(t, "window") * 1000})
		}
		log, exact := ours(limiter.Limit{})(limits), newExactLogs(limits)
		var admitted []Call
		for _, c := range drawCalls(t, limits[0].limit, limits[0].window) {
			fits := true
			for _, b := range limits {
				fits = fits && costIn(admitted, b.window, c.At)+c.Cost <= b.limit
			}
			if got := [2]bool{log.Take(c.At, c.Cost), exact.Take(c.At, c.Cost)}; got != [2]bool{fits, fits} {
				t.Fatalf("got %v of the log and the exact one for %+v after %+v, want %t; limits %v", got, c,
					admitted, fits, limits)
			}
			if fits {
				admitted = append(admitted, c)
			}
		}
	})
}
