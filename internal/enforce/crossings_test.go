package enforce

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"tidegate/internal/limiter"
	"tidegate/internal/limits"
	"tidegate/internal/policy"
)

// crossing is what meets in the settlement of a call: a feature of a limit that the call
// was asked for, a feature of its caller then, and what happened between them.
type crossing struct{ limit, caller, event string }

// crossings counts the settlements of a crossing.
type crossings map[crossing]int

// limitFeatures are the features of a limit.
var limitFeatures = []struct {
	name string
	has  func(asked) bool
}{
	{"log", func(a asked) bool { return a.Algorithm == limiter.Log && !a.AtOnce }},
	{"counter", func(a asked) bool { return a.Algorithm == limiter.Counter }},
	{"token bucket", func(a asked) bool { return a.Algorithm == limiter.TokenBucket }},
	{"fixed window", func(a asked) bool { return a.Algorithm == limiter.FixedWindow && a.billing.Day == 0 }},
	{"billing month", func(a asked) bool { return a.billing.Day > 0 }},
	{"at once", func(a asked) bool { return a.AtOnce }},
	{"unit", func(a asked) bool { return a.Unit != limits.Cost && a.Unit != limits.Calls }},
	{"calls", func(a asked) bool { return a.Unit == limits.Calls && !a.AtOnce }},
	{"on", func(a asked) bool { return a.On != "" }},
	{"except", func(a asked) bool { return len(a.Except) > 0 }},
	{"shadow", func(a asked) bool { return a.Shadow }},
	{"denied calls count", func(a asked) bool { return a.CountDenied }},
	{"replaced", func(a asked) bool { return a.replaced }},
	{"of an override", func(a asked) bool { return a.setter == "override" }},
	{"of a plan", func(a asked) bool { return a.setter == "plan" }},
	{"of the policy", func(a asked) bool { return a.setter == "policy" }},
	{"each caller", func(a asked) bool { return a.Who <= limits.EachCaller }},
	{"each caller and {item}", func(a asked) bool { return a.Who == limits.CallerParam }},
	{"each caller and pattern", func(a asked) bool { return a.Who == limits.CallerPattern }},
	{"each group", func(a asked) bool { return a.Who == limits.EachGroup }},
	{"each address", func(a asked) bool { return a.Who == limits.EachAddress }},
	{"each {item}", func(a asked) bool { return a.Who == limits.EachParam }},
	{"together", func(a asked) bool { return a.Who == limits.Together }},
}

// callerFeatures are the features of a caller.
var callerFeatures = []string{
	"plain", "override", "override of its group", "in a group", "billing day", "token",
}

// callEvents are what may happen between a call and its settlement.
var callEvents = []string{
	"nothing", "plan edited", "policy edited", "moved to another plan", "moved to another group", "override",
	"override ends", "override of its group", "override of its group ends", "billing", "reset",
}

func (h *history) featuresOf(k policy.Key) (has []string) {
	if k.Kind == policy.Token {
		has = append(has, "token")
	}
	if k.Override != nil {
		has = append(has, "override")
	} else if h.overrideOf(k) != nil {
		has = append(has, "override of its group")
	}
	if k.Group != "" {
		has = append(has, "in a group")
	}
	if k.Billing.Day > 0 || h.policy.GroupBilling[k.Group].Day > 0 {
		has = append(has, "billing day")
	}
	if len(has) == 0 {
		return []string{"plain"}
	}
	return has
}

// happened notes an event for the open calls of some keys.
func (h *history) happened(event string, concerns func(policy.Key) bool) {
	for i := range h.open {
		if s := &h.open[i]; s.key != "four" && concerns(h.keys[s.key]) && !slices.Contains(s.events, event) {
			s.events = append(s.events, event)
		}
	}
}

// happenedTo notes an event for the open calls of a key, if it is one.
func (h *history) happenedTo(event, name string, is bool) {
	h.happened(event, func(k policy.Key) bool { return is && k.ID == h.keys[name].ID })
}

// visit counts the crossings of a settlement.
func (c crossings) visit(s settleable) {
	events := s.events
	if len(events) == 0 {
		events = callEvents[:1]
	}
	for _, f := range limitFeatures {
		if !slices.ContainsFunc(s.asked, f.has) {
			continue
		}
		for _, caller := range s.caller {
			for _, event := range events {
				c[crossing{f.name, caller, event}]++
			}
		}
	}
}

// possible reports whether a call can have the crossing: a caller without a group and an
// override has no limits of either, and nobody edits a caller without a record.
func (x crossing) possible() bool {
	if x.caller == "token" {
		return x.event == "nothing"
	}
	ofOthers := []string{"each group", "replaced", "of an override"}
	return x.caller != "plain" || !slices.Contains(ofOthers, x.limit)
}

// report shows how often the crossings were visited, a row for each feature of a limit
// and a column for each event, the least of the callers. If whole, none may be empty.
func (c crossings) report(t *testing.T, whole bool) {
	t.Helper()
	var table strings.Builder
	cells, visits := 0, 0
	for _, f := range limitFeatures {
		fmt.Fprintf(&table, "%-24s", f.name)
		for _, event := range callEvents {
			least := -1
			for _, caller := range callerFeatures {
				if x := (crossing{f.name, caller, event}); x.possible() {
					cells, visits = cells+1, visits+c[x]
					if least < 0 || c[x] < least {
						least = c[x]
					}
					if whole && c[x] == 0 {
						t.Errorf("no settlement: limit %q, caller %q, after %q", f.name, caller, event)
					}
				}
			}
			fmt.Fprintf(&table, " %6d", least)
		}
		table.WriteByte('\n')
	}
	t.Logf("%d crossings, %d visits; the least visited caller of each:\n%-24s %s\n%s", cells, visits, "",
		strings.Join(callEvents, ", "), table.String())
}
