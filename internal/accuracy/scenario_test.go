package accuracy

import (
	"strings"
	"testing"
	"time"
)

var valid = Scenario{Limit: 10, Window: time.Minute, Traffic: Traffic{Shape: Poisson, Rate: 100, Windows: 10}}

func TestValidate(t *testing.T) {
	if _, err := Run(valid); err != nil {
		t.Fatal(err)
	}
	for want, change := range map[string]func(*Scenario){
		"limit is 0":             func(s *Scenario) { s.Limit = 0 },
		"limit is 100001":        func(s *Scenario) { s.Limit = MaxLimit + 1 },
		"window is 0s":           func(s *Scenario) { s.Window = 0 },
		"window is 1.5ms":        func(s *Scenario) { s.Window = 1500 * time.Microsecond },
		"clock is 1ns":           func(s *Scenario) { s.Clock = 1 },
		"clock is 1m0.001s":      func(s *Scenario) { s.Clock = s.Window + time.Millisecond },
		"points is 2001":         func(s *Scenario) { s.Points = MaxPoints + 1 },
		`algorithm "abacus"`:     func(s *Scenario) { s.Algorithms = []string{Log, "abacus"} },
		`shape "square"`:         func(s *Scenario) { s.Traffic.Shape = "square" },
		"rate is 0":              func(s *Scenario) { s.Traffic.Rate = 0 },
		"windows 0":              func(s *Scenario) { s.Traffic.Windows = 0 },
		"calls: must be at most": func(s *Scenario) { s.Limit, s.Traffic.Windows = 100_000, 100 },
		"too long": func(s *Scenario) {
			s.Window, s.Traffic.Windows, s.Limit, s.Traffic.Rate = 366*24*time.Hour, 40_000, 1, 100
		},
		"calls[0]":                   func(s *Scenario) { s.Traffic = recorded(Call{1, 0}) },
		"calls[1]":                   func(s *Scenario) { s.Traffic = recorded(Call{2, 1}, Call{1, 1}) },
		"500001 calls":               func(s *Scenario) { s.Traffic = recorded(make([]Call, MaxCalls+1)...) },
		"limit is 0: must be 1 to 1": func(s *Scenario) { s.Limit, s.Window = 0, -1 },
	} {
		s := valid
		change(&s)
		if _, err := Run(s); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("got error %v, want one with %q", err, want)
		}
	}
}

func recorded(calls ...Call) Traffic { return Traffic{Shape: Recorded, Calls: calls} }

// Every shape makes count calls, in time order, within its windows, whatever the window's
// length.
func TestTraffic(t *testing.T) {
	for _, shape := range []Shape{Poisson, OnOff, Boundary, Greedy} {
		for _, window := range []time.Duration{time.Millisecond, time.Minute, 366 * 24 * time.Hour} {
			s := Scenario{Limit: 7, Window: window,
				Traffic: Traffic{Shape: shape, Rate: 250, Windows: 8}, Seed: 1}
			if err := s.Validate(); err != nil {
				t.Fatal(err)
			}
			calls := s.calls()
			if n := s.Traffic.count(s.Limit); int64(len(calls)) != n || n < 40 {
				t.Errorf("%s: got %d calls, want %d, at least 40", shape, len(calls), n)
			}
			from := begin(window.Microseconds())
			for i, c := range calls {
				if c.At < from || c.At >= from+8*window.Microseconds() || i > 0 &&
					c.At < calls[i-1].At || c.Cost != 1 {
					t.Fatalf("%s, window %s: got call %d %+v after %+v, want time order, cost 1 and a time "+
						"within 8 windows", shape, window, i, c, calls[max(0, i-1)])
				}
			}
			if from%window.Microseconds() != 0 {
				t.Errorf("window %s: begin is not a boundary of aligned windows", window)
			}
		}
	}
}

// A cycle of the attack has no calls for 1.999 windows, then a burst on each side of the
// boundary. It has calls at the rate until that window ends, and none for one more
// window.
func TestBoundaryShape(t *testing.T) {
	const limit, second = 10, 1_000_000
	s := Scenario{Limit: limit, Window: time.Minute,
		Traffic: Traffic{Shape: Boundary, Rate: 1000, Windows: 4}}
	boundary := begin(s.Window.Microseconds()) + 120*second
	counts := map[string]int{}
	for _, c := range s.calls() {
		switch at := c.At - boundary; {
		case at < -60_000 || at >= 60*second:
			counts["silence"]++
		case at < 0:
			counts["before"]++
		case at < 60_000:
			counts["after"]++
		default:
			counts["even"]++
		}
	}
	if counts["silence"] != 0 || counts["before"] != 2*limit || counts["after"] != 2*limit ||
		counts["even"] != 10*limit {
		t.Errorf("got %v, want %d before, %[2]d after, %d even and no others", counts, 2*limit, 10*limit)
	}
}

// Times are rounded down to the clock's ticks in a copy of the calls.
func TestClock(t *testing.T) {
	s := Scenario{Limit: 10, Window: time.Minute, Clock: 10 * time.Millisecond,
		Traffic: recorded(Call{19_999, 1}, Call{20_000, 2})}
	if calls := s.calls(); calls[0] != (Call{10_000, 1}) || calls[1] != (Call{20_000, 2}) {
		t.Errorf("got calls %v, want them at 10000 and 20000 µs", calls)
	}
	if s.Traffic.Calls[0].At != 19_999 {
		t.Error("the scenario's own calls were changed")
	}
}
