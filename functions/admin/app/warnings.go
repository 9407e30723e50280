package app

import (
	"context"
	"net/netip"
	"reflect"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"tidegate/internal/limits"
	"tidegate/internal/policy"
)

// manyKeys is the number of keys from which on an edit of their plan needs confirmation.
const manyKeys = 1000

// OverrideWarnings returns what an operator should know before saving an override.
func OverrideWarnings(set *policy.Set, list []limits.Limit) []string {
	return set.Language().OverrideWarnings(list)
}

// UnconfirmedError means that nothing was saved, because the author of a save has not
// confirmed its warnings.
type UnconfirmedError struct{ Warnings []string }

// Error implements error.
func (e *UnconfirmedError) Error() string {
	return "app: not confirmed: " + strings.Join(e.Warnings, " ")
}

// Accepts reports whether the author of a save confirms its warnings.
type Accepts func(warnings []string) bool

// JudgePolicy returns the warnings about a save of next in place of before, without those
// about parts that the save does not change. It returns the *policy.InvalidError that the
// save would get.
func (r *Registry) JudgePolicy(ctx context.Context, before *policy.Set, next policy.Set) ([]string, error) {
	after, err := r.store.CheckSet(ctx, next, before)
	if err != nil {
		return nil, err
	}
	counts, err := r.PlanCounts(ctx, before)
	if err != nil {
		return nil, err
	}
	all := slices.Concat(planWarnings(before, after, counts), limitWarnings(before, after))
	return append(all, refusalWarnings(before, after)...), nil
}

// planWarnings returns warnings about edits of plans that many keys have.
func planWarnings(before, after *policy.Set, counts map[int]int64) []string {
	var all []string
	for _, p := range after.Plans {
		old, existed := before.PlanByNumber(p.Number)
		if n := counts[p.Number]; existed && n >= manyKeys && !reflect.DeepEqual(old, p) {
			all = append(all, "Plan "+p.Name+": this affects "+limits.Number(n)+" keys at once.")
		}
	}
	return all
}

// limitWarnings returns warnings about limits that the set before did not have too.
func limitWarnings(before, after *policy.Set) []string {
	known := warningTexts(before)
	return slices.DeleteFunc(warningTexts(after), func(text string) bool {
		return slices.Contains(known, text)
	})
}

var planOfField = regexp.MustCompile(`^plans\[(\d+)\]\.limits\[`)

// warningTexts returns the warnings about the limits of a set, with the names of plans.
func warningTexts(s *policy.Set) []string {
	var all []string
	for _, w := range s.Language().Warnings() {
		text := w.Message
		if m := planOfField.FindStringSubmatch(w.Field); m != nil {
			i, _ := strconv.Atoi(m[1])
			text = "Plan " + s.Plans[i].Name + ": " + text
		}
		all = append(all, text)
	}
	return all
}

// refusalWarnings names the callers that are refused after a save and were not before.
func refusalWarnings(before, after *policy.Set) []string {
	var all []string
	changed := !slices.Equal(before.Allow, after.Allow) || !slices.Equal(before.Deny, after.Deny)
	open := slices.ContainsFunc(after.Allow, func(p netip.Prefix) bool { return !covered(p, after.Deny) })
	removed := slices.DeleteFunc(slices.Clone(before.Allow), func(p netip.Prefix) bool {
		return covered(p, after.Allow)
	})
	switch {
	case !changed:
	case refusesAll(after.Deny) || len(after.Allow) > 0 && !open:
		all = append(all, "Every call is refused: no address is allowed.")
	case len(before.Allow) == 0 && len(after.Allow) > 0:
		all = append(all, "Calls from all addresses except "+networks(after.Allow)+" are refused.")
	case len(removed) > 0 && len(after.Allow) > 0:
		all = append(all, "Calls from "+networks(removed)+" are refused.")
	}
	if before.TokenPlan != "" && after.TokenPlan == "" {
		all = append(all, "JWTs without a plan are refused.")
	}
	if before.AddressPlan != "" && after.AddressPlan == "" {
		all = append(all, "Callers identified by their address are refused.")
	}
	return all
}

// covered reports whether one network of a list contains all of p.
func covered(p netip.Prefix, list []netip.Prefix) bool {
	return slices.ContainsFunc(list, func(q netip.Prefix) bool {
		return q.Bits() <= p.Bits() && q.Contains(p.Addr())
	})
}

// refusesAll reports whether a list contains every address.
func refusesAll(deny []netip.Prefix) bool {
	for _, all := range []string{"0.0.0.0/1", "128.0.0.0/1", "::/1", "8000::/1"} {
		if !covered(netip.MustParsePrefix(all), deny) {
			return false
		}
	}
	return true
}

// maxNetworks is the number of networks that a warning names.
const maxNetworks = 3

func networks(list []netip.Prefix) string {
	texts := make([]string, 0, maxNetworks+1)
	for i, p := range list {
		if i == maxNetworks {
			texts = append(texts, limits.Number(int64(len(list)-i))+" more")
			break
		}
		texts = append(texts, p.Masked().String())
	}
	return strings.Join(texts, ", ")
}
