package policydoc

import (
	"cmp"
	"maps"
	"slices"
	"strings"
	"time"

	"tidegate/internal/limits"
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

// Diff returns the changes from one set to another. It matches plans by number, and routes
// by ID or else by name. The order of either has no meaning, so reordering is no change.
func Diff(before, after *policy.Set) []Change {
	var d differ
	d.plans(before, after)
	d.routes(before.Routes, after.Routes)
	d.of = ""
	d.note("limits of all callers", LimitsText(before.Limits), LimitsText(after.Limits))
	d.note("refused addresses", PrefixText(before.Deny), PrefixText(after.Deny))
	d.note("allowed addresses", PrefixText(before.Allow), PrefixText(after.Allow))
	d.note("exempt addresses", PrefixText(before.Exempt), PrefixText(after.Exempt))
	d.note("default plan for JWTs", before.TokenPlan, after.TokenPlan)
	d.note("default plan for addresses", before.AddressPlan, after.AddressPlan)
	d.overrides(before.GroupOverrides, after.GroupOverrides)
	groups := maps.Clone(before.GroupBilling)
	if groups == nil {
		groups = map[string]limits.Billing{}
	}
	maps.Copy(groups, after.GroupBilling)
	for _, name := range slices.Sorted(maps.Keys(groups)) {
		d.of = "group " + name
		d.note("billing day", before.GroupBilling[name].String(), after.GroupBilling[name].String())
	}
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
	d.note("if Valkey is unavailable", DegradedText(p), DegradedText(q))
	d.note("open routes", OpensText(p.Opens), OpensText(q.Opens))
}

func (d *differ) routes(before, after []limits.Route) {
	kept := map[int]bool{} // indexes in after
	for _, r := range before {
		at := slices.IndexFunc(after, func(q limits.Route) bool {
			return q.ID == r.ID && q.ID != "" || q.ID == "" && q.Name == r.Name
		})
		if at < 0 {
			d.of = "route " + r.Name
			d.note("", RouteText(r), "")
			continue
		}
		kept[at] = true
		d.route(r, after[at])
	}
	for i, r := range after {
		if !kept[i] {
			d.of = "route " + r.Name
			d.note("", "", RouteText(r))
		}
	}
}

func (d *differ) route(r, q limits.Route) {
	d.of = "route " + q.Name
	d.note("name", r.Name, q.Name)
	d.note("calls to", MatchText(r), MatchText(q))
	d.note("cost", CostText(r), CostText(q))
	d.note("scopes", ScopesText(r), ScopesText(q))
}
