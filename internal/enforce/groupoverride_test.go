package enforce

import (
	"testing"
	"time"

	"tidegate/internal/limiter"
	"tidegate/internal/policy"
	"tidegate/internal/testing/registrytest"
)

// An override of a group replaces the limits of its keys from the next check on. The
// plan's limits go on counting, a key's own override wins, and each ends by itself.
func TestOverrideOfAGroup(t *testing.T) {
	onEveryServer(t, func(t *testing.T, w *world) {
		w.plan(t, "free", hourly(4))
		w.group = "acme"
		one, first := w.create(t, "one", "free")
		_, second := w.create(t, "two", "free")
		w.group = "acme-2"
		_, other := w.create(t, "three", "free")
		w.expect(t, call(first), "yy")
		override := func(o policy.Override) {
			w.save(t, func(s *policy.Set) { s.GroupOverrides = map[string]policy.Override{"acme": o} })
		}
		many := []limiter.Limit{hourly(1000)}
		source := func(c Result) string { return c.Source + " " + scopes(c) }
		override(policy.Override{Limits: perMinute(3), Reason: "a launch"})
		if c := w.expect(t, call(first), "yn"); source(c) != "group key:0" { // 2 were counted
			t.Errorf("under the group's override: got %s, want group key:0", source(c))
		}
		if c := w.expect(t, call(second), "y"); source(c) != "group key:2" {
			t.Errorf("another key of the group: got %s, want group key:2", source(c))
		}
		if c := w.expect(t, call(other), "y"); source(c) != "plan key:3" {
			t.Errorf("a key of another group: got %s, want plan key:3", source(c))
		}
		w.save(t, func(s *policy.Set) { s.GroupOverrides = nil })
		if c := w.expect(t, call(first), "yn"); source(c) != "plan key:0" { // 3 were
			t.Errorf("after its end: got %s, want plan key:0", source(c))
		}
		override(policy.Override{Reason: "a launch"})
		w.expect(t, call(first), "yyyyy")
		own := &policy.Override{Limits: perMinute(1), Until: time.Now().Add(time.Hour), Reason: "x"}
		one = must(registrytest.Override(t.Context(), w, one.ID, one.Version, own, byTest))
		if c := w.expect(t, call(first), "n"); source(c) != "override key:0" {
			t.Errorf("with an own override: got %s, want override key:0", source(c))
		}
		own = &policy.Override{Limits: own.Limits, Until: time.Now().Add(-time.Second), Reason: "x"}
		must(registrytest.Override(t.Context(), w, one.ID, one.Version, own, byTest))
		override(policy.Override{Limits: many, Until: time.Now().Add(time.Hour), Reason: "x"})
		c := w.expect(t, call(first), "yy")
		if ends := must(w.Set(t.Context())).GroupOverrides["acme"].Until; c.Source != "group" ||
			!c.HoldsUntil().Equal(ends.Truncate(time.Microsecond)) {
			t.Errorf("after the own override: got %s until %s, want group until %s", c.Source, c.HoldsUntil(),
				ends)
		}
		override(policy.Override{Limits: many, Until: time.Now().Add(-time.Second), Reason: "x"})
		if c := w.expect(t, call(second), "yy"); source(c) != "plan key:1" {
			t.Errorf("past its end: got %s, want plan key:1", source(c))
		}
	})
}
