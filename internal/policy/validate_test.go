package policy

import (
	"errors"
	"fmt"
	"net/netip"
	"strings"
	"testing"

	"tidegate/internal/limits"
	"tidegate/internal/route"
)

// A list that is longer than its bound is refused, with the bound and what to do instead.
// A list of the bound's length is not.
func TestLongLists(t *testing.T) {
	for field, c := range map[string]struct {
		most   int
		add    func(s *Set, name string)
		advice string
	}{
		"plans": {MaxPlans, func(s *Set, name string) { s.Plans = append(s.Plans, Plan{Name: name}) },
			"an override"},
		"routes": {limits.MaxRoutes, func(s *Set, name string) {
			s.Routes = append(s.Routes, limits.Route{Name: name, Match: []route.Pattern{{Path: "/" + name}}})
		}, "several patterns"},
		"groupOverrides": {MaxGroupOverrides, func(s *Set, name string) {
			if s.GroupOverrides == nil {
				s.GroupOverrides = map[string]Override{}
			}
			s.GroupOverrides[name] = Override{}
		}, "a plan"},
		"groupBilling": {MaxGroupBilling, func(s *Set, name string) {
			if s.GroupBilling == nil {
				s.GroupBilling = map[string]limits.Billing{}
			}
			s.GroupBilling[name] = limits.Billing{Day: 15}
		}, "the first day"},
		"deny": {MaxPrefixes, func(s *Set, _ string) { s.Deny = append(s.Deny, netip.Prefix{}) },
			"shorter prefixes"},
	} {
		var s Set
		for i := range c.most {
			c.add(&s, fmt.Sprintf("n%d", i))
		}
		if got := problemOf(s, field); got != "" {
			t.Errorf("%d of %s: got %q, want no problem", c.most, field, got)
		}
		c.add(&s, "more")
		want := fmt.Sprintf("%d given: must be at most %d", c.most+1, c.most)
		if got := problemOf(s, field); !strings.HasPrefix(got, want) || !strings.Contains(got, c.advice) {
			t.Errorf("%s: got %q, want %q and advice with %q", field, got, want, c.advice)
		}
	}
}

// A key whose plan was deleted while it got it can be revoked, and moved to another plan.
func TestKeyWithoutItsPlan(t *testing.T) {
	set := &Set{Plans: []Plan{{Number: 8, Name: "pro"}}}
	old := Key{Kind: APIKey, Name: "leaked", Env: "test", PlanNumber: 7}
	k := old
	k.Status = Revoked
	if err := k.Validate(set, old); err != nil || k.PlanNumber != 7 {
		t.Errorf("got %v and plan %d, want plan 7 still", err, k.PlanNumber)
	}
	if k.Plan = "pro"; k.Validate(set, old) != nil || k.PlanNumber != 8 {
		t.Errorf("got plan %d, want 8", k.PlanNumber)
	}
	if k.Plan = "free"; k.Validate(set, old) == nil || k.Validate(set, Key{}) == nil {
		t.Error("a plan that does not exist was accepted")
	}
}

// problemOf returns what is wrong with a field of a Set as a whole.
func problemOf(s Set, field string) string {
	invalid, _ := errors.AsType[*InvalidError](s.Validate())
	if invalid == nil {
		return ""
	}
	for _, f := range invalid.Fields {
		if f.Field == field {
			return f.Message
		}
	}
	return ""
}
