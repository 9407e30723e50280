package limiter

import (
	"errors"
	"strconv"
	"strings"
	"testing"
	"time"

	"tidegate/internal/testing/valkeytest"
)

// stores are the servers that the scripts run on.
func stores(t *testing.T, test func(t *testing.T, url string)) {
	t.Run("valkey", func(t *testing.T) { test(t, valkeytest.Start(t)) })
	t.Run("embedded", func(t *testing.T) { test(t, valkeytest.Embedded(t)) })
}

func newStep(t testing.TB, limits ...Applied) Step {
	t.Helper()
	s, err := NewStep(limits)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// A cost of 3 is taken from two limits or from none, given back once, and charged.
func TestTakeAndSettle(t *testing.T) {
	stores(t, func(t *testing.T, url string) {
		client, ctx := connectTo(t, url), t.Context()
		s := newStep(t, Applied{Limit: exactly(10, time.Hour), Count: "{k}calls", Cost: 3},
			Applied{Limit: kindOf(FixedWindow, 5, 24*time.Hour), Count: "{k}calls", Cost: 3})
		s.Record, s.RecordFor = "{k}record", time.Minute
		d, err := Take(ctx, client, s)
		if err != nil || !d.Allowed || len(d.Taken) != 2 ||
			d.Limits[0].Remaining != 7 || d.Limits[1].Remaining != 2 {
			t.Fatalf("got %+v, %v", d, err)
		}
		denied, err := Take(ctx, client, s)
		if err != nil || denied.Allowed || denied.Binding() != 1 || len(denied.Taken) != 0 ||
			denied.Limits[0].Remaining != 7 || denied.Limits[0].Denies() {
			t.Fatalf("got %+v, %v", denied, err)
		}
		settlement := d.Settle()
		settlement.Record = s.Record
		settlement.Changes[0].By, settlement.Changes[1].By = -2, 4
		for i, want := range []string{"2 4", ""} {
			given, err := Settle(ctx, client, settlement)
			if err != nil || len(given) != 2-2*i {
				t.Fatalf("settlement %d: got %v, want %q, %v", i, given, want, err)
			}
		}
		look, err := Look(ctx, client, s)
		if err != nil || look.Limits[0].Remaining != 9 || look.Limits[1].Owed != 2 || len(look.Taken) != 0 {
			t.Fatalf("got %+v, %v", look, err)
		}
	})
}

// The script that looks cannot write, and a settlement of a young call does not rewrite
// its log.
func TestWhatScriptsWrite(t *testing.T) {
	url := valkeytest.Start(t)
	client, ctx := connectTo(t, url), t.Context()
	s := newStep(t, Applied{Limit: exactly(100_000, time.Hour), Count: "{k}calls", Cost: 1})
	var d Decision
	for range 3000 {
		var err error
		if d, err = Take(ctx, client, s); err != nil || !d.Allowed {
			t.Fatal(d, err)
		}
	}
	if _, err := Settle(ctx, client, d.Settle()); err != nil { // loads the script
		t.Fatal(err)
	}
	valkeytest.Ask(t, url, "CONFIG", "RESETSTAT")
	if d, err := Take(ctx, client, s); err != nil {
		t.Fatal(err)
	} else if _, err := Settle(ctx, client, d.Settle()); err != nil {
		t.Fatal(err)
	}
	if info := valkeytest.Ask(t, url, "INFO", "commandstats"); strings.Contains(info, "cmdstat_set:") ||
		strings.Contains(info, "cmdstat_get:") {
		t.Errorf("a settlement read or wrote a whole log:\n%s", info)
	}
	if text := LookScript("", ""); strings.Contains(text, "'SET") || strings.Contains(text, "'APPEND") ||
		strings.Contains(text, "'DEL") || strings.Contains(text, "'PEXPIRE") {
		t.Error("the script that looks has a command that writes")
	}
}

// Keys live as long as their states, and no longer.
func TestLife(t *testing.T) {
	url := valkeytest.Start(t)
	client, ctx := connectTo(t, url), t.Context()
	life := func(key string) time.Duration {
		ms, err := strconv.Atoi(valkeytest.Ask(t, url, "PTTL", key))
		if err != nil {
			t.Fatal(err)
		}
		return time.Duration(ms) * time.Millisecond
	}
	near := func(key string, want time.Duration) {
		t.Helper()
		if got := life(key); got > want+time.Millisecond || got < want-20*time.Second {
			t.Errorf("%s lives %s, want %s", key, got, want)
		}
	}
	take := func(limits ...Applied) {
		if d, err := Take(ctx, client, newStep(t, limits...)); err != nil || !d.Allowed {
			t.Fatal(d, err)
		}
	}
	log := func(window time.Duration) Applied {
		return Applied{Limit: exactly(1000, window), Count: "{k}calls", Cost: 1}
	}
	take(log(time.Hour))
	near("{k}calls", 2*time.Hour)
	take(log(time.Minute))
	near("{k}calls", 2*time.Hour)
	take(log(10 * time.Hour))
	near("{k}calls", 20*time.Hour)
	for range 60 { // rewrites
		take(log(time.Minute))
	}
	near("{k}calls", 20*time.Hour)
	for _, a := range []Algorithm{Counter, TokenBucket, FixedWindow} {
		l := Applied{Limit: kindOf(a, 10, time.Hour), Count: "{k}calls", Cost: 1}
		take(l)
		near(newStep(t, l).States[0].Key, 2*time.Hour)
	}
}

// A damaged state counts as none, and no script fails on it.
func TestDamagedStates(t *testing.T) {
	url := valkeytest.Start(t)
	client, ctx := connectTo(t, url), t.Context()
	limits := []Applied{{Limit: exactly(10, time.Hour), Count: "{k}calls", Cost: 1},
		{Limit: kindOf(Counter, 10, time.Hour), Count: "{k}calls", Cost: 1}}
	s := newStep(t, limits...)
	for size := range 3000 {
		if size > 120 && size%97 > 0 {
			continue
		}
		for _, fill := range []string{"\x00", "\x01", "\xff"} {
			for _, key := range s.Keys() {
				valkeytest.Ask(t, url, "SET", key, strings.Repeat(fill, size))
			}
			if d, err := Take(ctx, client, s); err != nil {
				t.Fatalf("%d bytes %x: %v", size, fill, err)
			} else if _, err := Settle(ctx, client, d.Settle()); err != nil {
				t.Fatalf("%d bytes %x: %v", size, fill, err)
			}
		}
	}
}

// NewStep refuses what cannot be one step.
func TestNewStepRefuses(t *testing.T) {
	bucket := kindOf(TokenBucket, 5, time.Minute)
	daily := Limit{Requests: 1, Algorithm: FixedWindow, Calendar: Day}
	other := bucket
	other.Requests = 6
	for name, limits := range map[string][]Applied{
		"no count":        {{Limit: exactly(1, time.Hour), Cost: 1}},
		"a bar":           {{Limit: exactly(1, time.Hour), Count: "a|b", Cost: 1}},
		"a negative cost": {{Limit: exactly(1, time.Hour), Count: "a", Cost: -1}},
		"a large cost":    {{Limit: exactly(1, time.Hour), Count: "a", Cost: MaxRequests + 1}},
		"two costs": {{Limit: exactly(1, day), Count: "a", Cost: 1},
			{Limit: exactly(2, day), Count: "a", Cost: 2}},
		"two buckets":       {{Limit: bucket, Count: "a", Cost: 1}, {Limit: other, Count: "a", Cost: 1}},
		"no periods":        {{Limit: daily, Count: "a"}},
		"periods of no day": {{Limit: exactly(1, time.Hour), Count: "a", Periods: Periods{1, 2, 3, 4}}},
	} {
		if _, err := NewStep(limits); !errors.Is(err, ErrStep) {
			t.Errorf("%s: got %v", name, err)
		}
	}
}

// Periods follow the calendar of a time zone, and go on beyond what a step brought.
func TestPeriods(t *testing.T) {
	now := time.Date(2026, 3, 29, 12, 0, 0, 0, time.UTC) // summer time began in Berlin
	p := PeriodsOf(Limit{Calendar: Day, Zone: "Europe/Berlin"}, now)
	if hours := (p[2] - p[1]) / 3_600_000_000; hours != 23 {
		t.Errorf("the day has %d hours", hours)
	}
	s := State{Periods: Periods{100, 110, 130, 160}}
	for at, want := range map[int64][2]int64{100: {100, 110}, 129: {110, 130}, 159: {130, 160},
		160: {160, 190}, 250: {250, 280}, 249: {220, 250}, 99: {90, 100}, 90: {90, 100}, 89: {80, 90}} {
		if start, end := s.period(at); [2]int64{start, end} != want {
			t.Errorf("%d: got %d to %d, want %v", at, start, end, want)
		}
	}
}

// A reply of another length is an error.
func TestUnexpectedReply(t *testing.T) {
	s := newStep(t, Applied{Limit: exactly(1, time.Hour), Count: "a", Cost: 1})
	for _, reply := range [][]int64{nil, {1, 2, 3, 0}, {1, 2, 3, 0, 1, 0, 0, 0}} {
		if _, err := s.Decision(reply); !errors.Is(err, ErrReply) {
			t.Errorf("%v: got %v", reply, err)
		}
	}
}

// A token bucket in shadow stands beside an enforced one with another number, in whatever
// order they are listed, and each drains alone.
func TestBucketInShadow(t *testing.T) {
	enforced := kindOf(TokenBucket, 5, time.Hour)
	shadow := kindOf(TokenBucket, 2, time.Hour)
	shadow.Shadow = true
	for _, list := range [][]Limit{{enforced, shadow}, {shadow, enforced}} {
		s := scene{Model: &Model{}}
		for i := range 6 {
			d := s.call(1, list...)
			if d.Allowed != (i < 5) || d.WouldAllow() != (i < 2) {
				t.Errorf("%v: call %d: allowed %v, %v with the shadow", list, i+1, d.Allowed, d.WouldAllow())
			}
		}
	}
}
