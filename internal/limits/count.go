package limits

import (
	"crypto/sha256"
	"encoding/base64"
	"slices"
	"strings"
)

// Count is the identity of what limits count together: for whom, which unit, on which
// calls, and for a shared limit of a plan the plan. The number, the window, a caller's
// plan and the place in a list are no part of it, so edits of these keep counts.
type Count struct {
	Who     Who    // Unsaid is EachCaller here
	Param   string // of EachParam and CallerParam
	Unit    string
	AtOnce  bool
	On      string   // ID of the route, or the pattern
	Except  []string // IDs of routes and patterns, ascending
	PlanID  string   // of a shared limit that stands in a plan
	Value   string   // of the parameter, in this call
	Pattern string   // of CallerPattern, in this call
}

// Name returns a short name of the count within its subject. Counts with equal identities
// and values have equal names, and others do not.
func (c Count) Name() string {
	h := sha256.New()
	unit := c.Unit
	if c.AtOnce {
		unit = atOnceUnit
	}
	for _, part := range append([]string{
		string(rune('0' + c.Who)), c.Param, unit, c.On, c.PlanID, c.Value, c.Pattern}, c.Except...) {
		_, _ = h.Write([]byte{byte(len(part) >> 8), byte(len(part))})
		_, _ = h.Write([]byte(part))
	}
	return base64.RawURLEncoding.EncodeToString(h.Sum(nil)[:9])
}

// count returns the identity of what a limit counts, without the values of a call.
func (p *Policy) count(l Limit, source Source, caller Caller) Count {
	c := Count{Who: max(l.Who, EachCaller), Param: l.Param, Unit: l.Unit, AtOnce: l.AtOnce,
		On: p.targetID(l.On)}
	for _, text := range l.Except {
		c.Except = append(c.Except, p.targetID(text))
	}
	slices.Sort(c.Except)
	if source == FromPlan && !l.Who.OfCaller() && caller.Plan != nil {
		c.PlanID = caller.Plan.ID
	}
	return c
}

// targetID returns the ID of a route by its name; a pattern stands for itself.
func (p *Policy) targetID(text string) string {
	if strings.Contains(text, "/") {
		return text
	}
	for i := range p.Routes {
		if p.Routes[i].Name == text {
			return p.Routes[i].ID
		}
	}
	return text
}
