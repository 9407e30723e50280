//go:build unix

package main

import (
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"tidegate/internal/limiter"
)

const second = time.Second

func at(caller int32, k kind, sent, received time.Duration) outcome {
	return outcome{caller: caller, kind: k, intended: sent, sent: sent, received: received}
}

func threePerTen() []caller {
	return []caller{{name: "a", plan: "p", limits: []limiter.Limit{per(3, 10*second)}}}
}

// The proof finds a certain violation. It reports none if the instants leave a doubt.
func TestProofFindsAViolation(t *testing.T) {
	full := []outcome{at(0, admitted, 0, second), at(0, admitted, second, 2*second),
		at(0, admitted, 2*second, 3*second)}
	for name, c := range map[string]struct {
		more  outcome
		holds bool
	}{
		"a fourth within the window":             {at(0, admitted, 8*second, 9*second), false},
		"a fourth that may be after the window":  {at(0, admitted, 8*second, 10*second), true},
		"a fourth while the first may be denied": {at(0, denied, 8*second, 9*second), true},
		"a fourth by a clock that runs faster": {
			at(0, admitted, 8*second, 9*second+995*time.Millisecond), true},
		"a fourth without an answer":            {at(0, broken, 8*second, 9*second), true},
		"a denial while the window is full":     {at(0, denied, 3*second, 4*second), true},
		"a denial although the window is empty": {at(0, denied, 14*second, 15*second), false},
		"a denial with certainly room for two":  {at(0, denied, 13*second, 14*second), false},
		"a denial as the first may just expire": {at(0, denied, 10*second, 11*second), true},
	} {
		t.Run(name, func(t *testing.T) {
			p := prove(threePerTen(), append(slices.Clone(full), c.more))
			if p.holds() != c.holds {
				t.Errorf("got %+v, %d unfounded denials, want a proof that holds: %t", *p.Windows[0],
					p.Unfounded, c.holds)
			}
		})
	}
}

// The proof leaves out unregistered callers, and counts the admissions of callers with
// unknown limits.
func TestProofWithoutLimits(t *testing.T) {
	callers := []caller{{name: "x", unregistered: true}, {name: "y"}}
	p := prove(callers, []outcome{at(0, admitted, 0, 1), at(1, admitted, 0, 1), at(1, denied, 1, 2)})
	if len(p.Windows) != 0 || p.Unknown != 1 || !p.holds() {
		t.Errorf("got %+v, want no windows and 1 unknown admission", p)
	}
}

// The proof holds for an exact limiter, at whatever instant between call and answer it
// decides, and although its clock drifts.
func TestProofHoldsForAnExactLimiter(t *testing.T) {
	limits := []limiter.Limit{per(5, 2*second), per(12, 10*second)}
	rapid.Check(t, func(t *rapid.T) {
		var m limiter.Model
		slow := rapid.Float64Range(.9995, 1.0005).Draw(t, "server's clock")
		epoch := time.Unix(1_700_000_000, 0)
		var calls []outcome
		instant := time.Duration(0)
		for range rapid.IntRange(1, 120).Draw(t, "calls") {
			instant += time.Duration(rapid.IntRange(0, 900).Draw(t, "gap")) * time.Millisecond
			before := time.Duration(rapid.IntRange(0, 300).Draw(t, "before")) * time.Millisecond
			after := time.Duration(rapid.IntRange(0, 300).Draw(t, "after")) * time.Millisecond
			decision, err := m.Take(epoch.Add(time.Duration(float64(instant)*slow)), limits, 1)
			if err != nil {
				t.Fatal(err)
			}
			k := denied
			if decision.Allowed {
				k = admitted
			}
			calls = append(calls, at(0, k, instant-before, instant+after))
		}
		if p := prove([]caller{{plan: "p", limits: limits}}, calls); !p.holds() {
			t.Fatalf("got %+v %+v, %d unfounded denials, want a proof that holds", *p.Windows[0],
				*p.Windows[1], p.Unfounded)
		}
	})
}
