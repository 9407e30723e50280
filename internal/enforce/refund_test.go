package enforce

import (
	"testing"
	"time"

	"tidegate/internal/limiter"
	"tidegate/internal/policy"
	"tidegate/internal/route"
	"tidegate/internal/testing/valkeytest"
)

// million is a limit whose slots stand for a hundred calls each.
var million = limiter.Limit{Requests: 1_000_000, Window: 7 * time.Minute}

// After a call of 4,000 settled with 500 the next call sees exactly 3,500 more, on the
// caller's own limit and on one of all callers, also after 10,000 other calls.
func TestSettleALargeLimitExactly(t *testing.T) {
	w := open(t, valkeytest.Start(t))
	w.plan(t, "large", million)
	w.save(t, func(s *policy.Set) {
		s.Routes = []policy.Route{{Name: "chat", Cost: 4000, Settle: true,
			Pattern: route.Pattern{Path: "/chat"}}}
		s.Global.Limits = []limiter.Limit{million}
	})
	_, secret := w.create(t, "chatty", "large")
	chat := call(secret).to("POST", "/chat")
	used := int64(0) // by calls of cost 1, of which each looks
	for _, others := range []int64{0, 1, 10_000} {
		c := w.expect(t, chat, "y")
		for range others {
			w.expect(t, call(secret), "y")
		}
		before := w.expect(t, call(secret), "y")
		if s := w.settle(t, c.Reservation, 500); s.Partial || s.Short != 0 {
			t.Errorf("after %d other calls: %+v", others, s)
		}
		after := w.expect(t, call(secret), "y")
		used += 500 + others + 2
		for i, l := range after.Limits {
			if more := l.Remaining + 1 - before.Limits[i].Remaining; more != 3500 ||
				l.Remaining != million.Requests-used {
				t.Errorf("after %d other calls: %s sees %d more, and %d remain; want 3,500 and %d",
					others, l.Scope, more, l.Remaining, million.Requests-used)
			}
		}
	}
}

// Ten calls that a shared limit denies leave the caller's own budget as it was, in every
// algorithm.
func TestDeniedByOthersCostsNothing(t *testing.T) {
	for _, algorithm := range limiter.Algorithms() {
		t.Run(algorithm.String(), func(t *testing.T) {
			w := open(t, valkeytest.Start(t))
			own := limiter.Limit{Requests: 1_000_000, Window: 366 * 24 * time.Hour, Algorithm: algorithm}
			w.plan(t, "large", own)
			w.save(t, func(s *policy.Set) {
				s.Routes = []policy.Route{{
					Name: "chat", Cost: 4000, Pattern: route.Pattern{Path: "/chat"},
					Shared: []limiter.Limit{{Requests: 4000, Window: time.Hour}},
				}}
			})
			_, secret := w.create(t, "chatty", "large")
			chat := call(secret).to("POST", "/chat")
			w.expect(t, chat, "y")
			before := w.expect(t, call(secret), "y").Limits[0].Remaining
			for range 10 {
				if c := w.expect(t, chat, "n"); c.Limits[0].Remaining != before {
					t.Errorf("%d remain after a denied call, want %d", c.Limits[0].Remaining, before)
				}
			}
			if after := w.expect(t, call(secret), "y").Limits[0].Remaining; after != before-1 {
				t.Errorf("%d remain after ten denied calls and one, want %d", after, before-1)
			}
		})
	}
}

// A settlement that gives back less than it should says so: attempts stay attempts. What
// has left its window is none that should.
func TestPartialSaysWhatIsStillCounted(t *testing.T) {
	w := open(t, valkeytest.Start(t))
	w.plan(t, "attempts", limiter.Limit{Requests: 20, Window: time.Hour, CountDenied: true})
	w.plan(t, "short", limiter.Limit{Requests: 20, Window: time.Millisecond})
	w.priced(t, 8)
	_, secret := w.create(t, "attempts", "attempts")
	if s := w.settle(t, w.expect(t, call(secret).to("POST", "/chat"), "y").Reservation, 3); !s.Partial {
		t.Errorf("%+v, want partial", s)
	}
	_, secret = w.create(t, "short", "short")
	c := w.expect(t, call(secret).to("POST", "/chat"), "y")
	for passed := time.Duration(0); passed < time.Millisecond; { // on the server's clock
		passed = w.check(t, call(secret)).Now.Sub(c.Now) // a denial is as good
	}
	if s := w.settle(t, c.Reservation, 3); s.Partial {
		t.Errorf("%+v, want nothing partial", s)
	}
}
