package limiter

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"pgregory.net/rapid"

	"tidegate/internal/testing/valkeytest"
)

// countedCall is a call that a limit counts.
type countedCall struct {
	at   time.Time
	cost int64
}

// shadowPlay is a subject with an oracle: for each limit a list of the calls that it
// counts.
type shadowPlay struct {
	*subject
	calls [][]countedCall
}

// used returns the oracle's count of limit i in the window that ends now.
func (p *shadowPlay) used(i int) (calls int64) {
	for _, c := range p.calls[i] {
		if p.now.Sub(c.at) < p.limits[i].Window {
			calls += c.cost
		}
	}
	return calls
}

// check makes a call and compares its decision with the lists.
func (p *shadowPlay) check(t *rapid.T, cost int64) {
	t.Helper()
	allowed := true
	fits := make([]bool, len(p.limits))
	for i, l := range p.limits {
		fits[i] = p.used(i)+cost <= l.Requests
		allowed = allowed && (fits[i] || l.Shadow)
	}
	d := p.do(t, cost)
	if d.Allowed != allowed {
		p.fail(t, "got allowed %t, want %t", d.Allowed, allowed)
	}
	wouldAllow := allowed
	for i, l := range p.limits {
		wouldAllow = wouldAllow && fits[i]
		if allowed && (fits[i] || l.CountDenied) || !allowed && l.CountDenied && cost <= l.Requests {
			p.calls[i] = append(p.calls[i], countedCall{p.now, cost})
		}
		if got, want := d.Limits[i].Remaining, max(0, l.Requests-p.used(i)); got != want {
			p.fail(t, "limit %d: got %d remaining, want %d", i, got, want)
		}
		if exceeds := d.Limits[i].RetryAfter > 0; l.Shadow && allowed && exceeds == fits[i] {
			p.fail(t, "limit %d: got exceeded %t, want %t", i, exceeds, !fits[i])
		}
	}
	if d.WouldAllow() != wouldAllow {
		p.fail(t, "got WouldAllow %t, want %t", d.WouldAllow(), wouldAllow)
	}
}

// A limit in shadow mode denies no call. It counts calls that it and the other limits
// admit. A call that exceeds it is charged only to the others.
func TestLimitsInShadowMode(t *testing.T) {
	clock := newClocked(t)
	rapid.Check(t, func(t *rapid.T) {
		limits := make([]Limit, rapid.IntRange(1, 5).Draw(t, "limits"))
		for i := range limits {
			limits[i] = Limit{
				Requests:    rapid.Int64Range(1, 12).Draw(t, "requests"),
				Window:      time.Duration(rapid.IntRange(1, 3).Draw(t, "window")) * time.Second,
				Shadow:      rapid.Bool().Draw(t, "shadow"),
				CountDenied: rapid.IntRange(0, 5).Draw(t, "count denied") == 0,
			}
			if limits[i].CountDenied {
				limits[i].Requests = 12 // a cost above it is not counted
			}
		}
		p := &shadowPlay{clock.subject(limits...), make([][]countedCall, len(limits))}
		most := min(12, p.smallestLimit())
		for range rapid.IntRange(1, 40).Draw(t, "calls") {
			p.now = p.now.Add(time.Duration(rapid.IntRange(0, 900).Draw(t, "ms")) * time.Millisecond)
			p.check(t, rapid.OneOf(rapid.Just(int64(1)), rapid.Int64Range(1, most)).Draw(t, "cost"))
		}
	})
}

// A refund of a call that exceeded a limit in shadow mode changes only the other limits.
func TestRefundSparesExceededLimits(t *testing.T) {
	l, err := New(connect(t, valkeytest.Start(t)), "test:", Limit{Requests: 10, Window: time.Hour},
		Limit{Requests: 2, Window: time.Hour, Shadow: true},
		Limit{Requests: 5, Window: time.Hour, Algorithm: FixedWindow, Shadow: true})
	if err != nil {
		t.Fatal(err)
	}
	remaining := func(d Decision, err error) string {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		return fmt.Sprint(d.Limits[0].Remaining, d.Limits[1].Remaining, d.Limits[2].Remaining)
	}
	if got := remaining(l.Take(t.Context(), "a", 2)); got != "8 0 3" {
		t.Fatalf("after cost 2: got %s remaining, want 8 0 3", got)
	}
	above, err := l.Take(t.Context(), "a", 3)
	if got := remaining(above, err); got != "5 0 0" || !above.Allowed || above.WouldAllow() {
		t.Fatalf("after cost 3: got %s remaining, %+v, want 5 0 0, allowed but not WouldAllow", got, above)
	}
	if got := remaining(l.Refund(t.Context(), "a", 3, above)); got != "8 0 3" {
		t.Errorf("after the refund of 3: got %s remaining, want 8 0 3", got)
	}
	if d, err := l.Take(t.Context(), "a", 7); err != nil || !d.Allowed ||
		d.Limits[1].RetryAfter != MaxWindow {
		t.Errorf("cost above a limit in shadow mode: got %+v, %v, want allowed and a retry-after of %s", d,
			err, MaxWindow)
	}
	if _, err := l.Take(t.Context(), "a", 11); !errors.Is(err, ErrCost) {
		t.Errorf("cost above an enforced limit: got error %v, want ErrCost", err)
	}
}

// A limit in shadow mode that is enforced has counted every call, also above its number
// and older than the windows of the other limits. In shadow mode again, it has counted what
// it counted before.
func TestChangeOfModeKeepsCounts(t *testing.T) {
	burst := Limit{Requests: 5, Window: time.Second}
	for name, quota := range map[string]Limit{
		"log":          {Requests: 20, Window: time.Hour},
		"grouped log":  {Requests: 130, Window: time.Hour, Slots: MinSlots},
		"counter":      {Requests: 20, Window: time.Hour, Algorithm: Counter},
		"fixed window": {Requests: 20, Algorithm: FixedWindow, Calendar: Week},
		"bucket":       {Requests: 20, Window: 1000 * time.Hour, Algorithm: TokenBucket},
		"calls":        {Requests: 20, Window: time.Hour, Calls: true},
	} {
		soft, cost := quota, (quota.Requests+9)/10
		burst.Requests = cost
		if quota.Calls {
			cost = 1
		}
		soft.Shadow = true
		var m Model
		now := time.Date(2026, 11, 25, 12, 0, 0, 0, time.UTC)
		take := func(limits ...Limit) Decision {
			t.Helper()
			now = now.Add(time.Second)
			d, err := m.Take(now, limits, cost)
			if err != nil {
				t.Fatal(err)
			}
			return d
		}
		used := int64(0)
		for ; used < 3*quota.Requests/2; used += cost {
			if d := take(burst, soft); !d.Allowed || d.WouldAllow() != (used+cost <= quota.Requests) {
				t.Errorf("%s: got %+v after %d, want WouldAllow up to the limit", name, d, used)
			}
		}
		d := take(burst, quota)
		if u := d.Limits[1]; d.Allowed || u.Remaining != 0 || u.Owed == 0 || !u.Since.IsZero() {
			t.Errorf("%s enforced: got %+v, want it denied, with calls owed", name, d)
		}
		if d := take(burst, soft); !d.Allowed || d.WouldAllow() || d.Limits[1].Remaining >= cost {
			t.Errorf("%s in shadow mode again: got %+v, want allowed, but not WouldAllow", name, d)
		}
	}
}
