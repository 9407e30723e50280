package policydoc

import (
	"cmp"
	"maps"
	"slices"
	"strings"
	"time"

	"tidegate/internal/policy"
)

// Change is one field that differs between two sets, in words. Before is empty for an
// added field, After for a removed one.
type Change struct {
	// owner of the field: "plan free", "route chat"; empty for the set itself
	Of     string `json:"of"`
	Field  string `json:"field,omitempty"` // empty for a whole plan or route that is added or removed
	Before string `json:"before"`
	After  string `json:"after"`
}

// What names the owner of the field and the field.
func (c Change) What() string {
	if c.Of == "" || c.Field == "" {
		return c.Of + c.Field
	}
	return c.Of + ": " + c.Field
}

// String formats the change as one line.
func (c Change) String() string {
	return c.What() + ": " + cmp.Or(c.Before, "none") + " → " + cmp.Or(c.After, "none")
}

// Text formats changes, each on a line.
func Text(changes []Change) string {
	var b strings.Builder
	for _, c := range changes {
		b.WriteString(c.String() + "\n")
	}
	return b.String()
}

// differ collects changes.
type differ struct {
	of      string // owner of the fields being compared
	changes []Change
}

func (d *differ) note(field, before, after string) {
	if before != after {
		d.changes = append(d.changes, Change{d.of, field, before, after})
	}
}

// Diff returns the changes from one set to another. It matches plans by number and routes
// by name. The order of either has no meaning, so reordering is no change.
func Diff(before, after *policy.Set) []Change {
	var d differ
	d.plans(before, after)
	d.routes(before.Routes, after.Routes)
	d.of = ""
	d.note("limits per address", ScopeText(before.PerIP), ScopeText(after.PerIP))
	d.note("global limits", ScopeText(before.Global), ScopeText(after.Global))
	d.note("refused addresses", PrefixText(before.Deny), PrefixText(after.Deny))
	d.note("allowed addresses", PrefixText(before.Allow), PrefixText(after.Allow))
	d.note("exempt addresses", PrefixText(before.Exempt), PrefixText(after.Exempt))
	d.note("default plan for JWTs", before.TokenPlan, after.TokenPlan)
	d.note("default plan for addresses", before.AddressPlan, after.AddressPlan)
	d.overrides(before.GroupOverrides, after.GroupOverrides)
	return d.changes
}

func (d *differ) overrides(before, after map[string]policy.Override) {
	all := maps.Clone(before)
	if all == nil {
		all = map[string]policy.Override{}
	}
	maps.Copy(all, after)
	for _, name := range slices.Sorted(maps.Keys(all)) {
		d.of = "group " + name
		d.note("override", overrideText(before, name), overrideText(after, name))
	}
}

// overrideText describes the override of a group; empty for none.
func overrideText(all map[string]policy.Override, name string) string {
	o, found := all[name]
	if !found {
		return ""
	}
	text := cmp.Or(LimitsText(o.Limits), "no limits")
	if !o.Until.IsZero() {
		text += ", until " + o.Until.UTC().Format(time.RFC3339)
	}
	return text + ": " + o.Reason
}

func (d *differ) plans(before, after *policy.Set) {
	for _, p := range before.Plans {
		q, kept := after.PlanByNumber(p.Number)
		if d.of = "plan " + p.Name; !kept {
			d.note("", PlanText(p), "")
			continue
		}
		d.of = "plan " + q.Name
		d.plan(p, q)
	}
	for _, q := range after.Plans {
		if _, known := before.PlanByNumber(q.Number); !known || q.Number == 0 {
			d.of = "plan " + q.Name
			d.note("", "", PlanText(q))
		}
	}
}

func (d *differ) plan(p, q policy.Plan) {
	d.note("name", p.Name, q.Name)
	d.note("limits", LimitsText(p.Limits), LimitsText(q.Limits))
	d.note("mode", ModeText(p.Mode), ModeText(q.Mode))
	d.note("if Valkey is unavailable", DegradedText(p), DegradedText(q))
	d.note("each group", LimitsText(p.PerGroup), LimitsText(q.PerGroup))
	d.note("open routes", AllowText(p.Allow), AllowText(q.Allow))
}

func (d *differ) routes(before, after []policy.Route) {
	named := map[string]policy.Route{}
	for _, r := range after {
		named[r.Name] = r
	}
	for _, r := range before {
		q, kept := named[r.Name]
		delete(named, r.Name)
		if d.of = "route " + r.Name; !kept {
			d.note("", RouteText(r), "")
			continue
		}
		d.route(r, q)
	}
	for _, r := range after {
		if _, added := named[r.Name]; added {
			d.of = "route " + r.Name
			d.note("", "", RouteText(r))
		}
	}
}

func (d *differ) route(r, q policy.Route) {
	d.note("calls to", r.Pattern.String(), q.Pattern.String())
	d.note("cost", costText(r), costText(q))
	d.note("mode", ModeText(r.Mode), ModeText(q.Mode))
	d.note("each caller", LimitsText(r.PerKey), LimitsText(q.PerKey))
	d.note("each address", LimitsText(r.PerIP), LimitsText(q.PerIP))
	d.note("all callers together", LimitsText(r.Shared), LimitsText(q.Shared))
}
