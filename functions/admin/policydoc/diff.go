package policydoc

import (
	"fmt"
	"net/netip"
	"strconv"
	"strings"
	"time"

	"tidegate/internal/limiter"
	"tidegate/internal/policy"
	"tidegate/internal/route"
)

// Change is one field that differs between two Sets, in words. Before is empty for what
// is new, After for what is removed.
type Change struct {
	// what has the field: "plan free", "route chat"; empty for the Set itself
	Of     string `json:"of"`
	Field  string `json:"field,omitempty"` // empty for all of a plan or a route that is new or removed
	Before string `json:"before"`
	After  string `json:"after"`
}

// What names the field and what has it.
func (c Change) What() string {
	if c.Of == "" || c.Field == "" {
		return c.Of + c.Field
	}
	return c.Of + ": " + c.Field
}

// String writes the change in a line.
func (c Change) String() string {
	return c.What() + ": " + orNone(c.Before) + " → " + orNone(c.After)
}

func orNone(text string) string {
	if text == "" {
		return "none"
	}
	return text
}

// Text writes changes line by line.
func Text(changes []Change) string {
	var b strings.Builder
	for _, c := range changes {
		b.WriteString(c.String() + "\n")
	}
	return b.String()
}

// differ collects what differs.
type differ struct {
	of      string
	changes []Change
}

func (d *differ) note(field, before, after string) {
	if before != after {
		d.changes = append(d.changes, Change{d.of, field, before, after})
	}
}

// Diff lists what differs between two Sets. Plans are the same when they have the same
// number, routes when they have the same name. A change of the order alone is none: it
// means nothing.
func Diff(before, after *policy.Set) []Change {
	var d differ
	d.plans(before, after)
	d.routes(before.Routes, after.Routes)
	d.of = ""
	d.note("limits of each address", ScopeText(before.PerIP), ScopeText(after.PerIP))
	d.note("limits of all callers together", ScopeText(before.Global), ScopeText(after.Global))
	d.note("refused addresses", PrefixText(before.Deny), PrefixText(after.Deny))
	d.note("admitted addresses", PrefixText(before.Allow), PrefixText(after.Allow))
	d.note("exempt addresses", PrefixText(before.Exempt), PrefixText(after.Exempt))
	d.note("plan of tokens", before.TokenPlan, after.TokenPlan)
	d.note("plan of addresses", before.AddressPlan, after.AddressPlan)
	d.note("bans", BansText(before.Bans), BansText(after.Bans))
	return d.changes
}

func (d *differ) plans(before, after *policy.Set) {
	for _, p := range before.Plans {
		q, kept := after.Numbered(p.Number)
		if d.of = "plan " + p.Name; !kept {
			d.note("", PlanText(p), "")
			continue
		}
		d.of = "plan " + q.Name
		d.plan(p, q)
	}
	for _, q := range after.Plans {
		if _, known := before.Numbered(q.Number); !known || q.Number == 0 {
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
	d.note("candidate", LimitsText(p.Candidate), LimitsText(q.Candidate))
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
	d.note("all together", SharedText(r), SharedText(q))
}

// PlanText writes all of a plan but its name.
func PlanText(p policy.Plan) string {
	text := LimitsText(p.Limits) + "; " + ModeText(p.Mode) + "; " + DegradedText(p)
	if len(p.Candidate) > 0 {
		text += "; candidate " + LimitsText(p.Candidate)
	}
	if len(p.PerGroup) > 0 {
		text += "; each group " + LimitsText(p.PerGroup)
	}
	if len(p.Allow) > 0 {
		text += "; opens " + AllowText(p.Allow)
	}
	return text
}

// AllowText writes the routes that a plan or a key opens.
func AllowText(allow []route.Pattern) string {
	if len(allow) == 0 {
		return "all"
	}
	words := make([]string, len(allow))
	for i, p := range allow {
		words[i] = p.String()
	}
	return strings.Join(words, ", ")
}

// ModeText writes a mode.
func ModeText(m policy.Mode) string {
	if m == "" {
		return string(policy.Enforce)
	}
	return string(m)
}

// DegradedText says what becomes of a plan's calls while Valkey is unavailable.
func DegradedText(p policy.Plan) string {
	switch p.Degraded {
	case policy.Open:
		return "open: calls pass uncounted"
	case policy.Local:
		return fmt.Sprintf("local: each environment admits %d %%", p.Share)
	case policy.Closed:
	}
	return "closed: calls are denied"
}

func costText(r policy.Route) string { return Number(r.Cost) + SettleText(r) }

// SettleText says after a route's cost that it is settled, and how much a settlement may
// charge to limits that callers share. It is empty for a route that states neither.
func SettleText(r policy.Route) string {
	text := ""
	if r.Settle {
		text = ", settled after"
	}
	switch {
	case r.SettleMax != 0:
		text += ", at most " + Number(r.SettleMax) + " on shared limits"
	case r.Settle:
		text += ", at most " + strconv.Itoa(policy.DefaultSettleMax) + " times the cost on shared limits"
	}
	return text
}

// RouteText writes all of a route but its name.
func RouteText(r policy.Route) string {
	parts := []string{r.Pattern.String(), "cost " + costText(r)}
	for _, l := range []struct{ what, limits string }{
		{"each caller", LimitsText(r.PerKey)}, {"each address", LimitsText(r.PerIP)},
		{"all together", SharedText(r)},
	} {
		if l.limits != "" {
			parts = append(parts, l.what+" "+l.limits)
		}
	}
	if r.Mode != "" && r.Mode != policy.Enforce {
		parts = append(parts, string(r.Mode))
	}
	return strings.Join(parts, "; ")
}

// ScopeText writes a scope; empty without limits and lease.
func ScopeText(s policy.Scope) string {
	if len(s.Limits) == 0 && s.Lease == 0 {
		return ""
	}
	return LimitsText(s.Limits) + LeaseText(s.Lease) + "; " + ModeText(s.Mode)
}

// SharedText writes a route's limits of all callers together.
func SharedText(r policy.Route) string { return LimitsText(r.Shared) + LeaseText(r.SharedLease) }

// LeaseText says after limits for how long environments lease shares of them; nothing
// when they do not.
func LeaseText(d policy.Duration) string {
	if d == 0 {
		return ""
	}
	return ", leased for " + limiter.FormatWindow(time.Duration(d))
}

// PrefixText writes a list of addresses.
func PrefixText(list []netip.Prefix) string {
	words := make([]string, len(list))
	for i, p := range list {
		words[i] = p.String()
	}
	return strings.Join(words, ", ")
}

// BansText writes the policy of automatic bans; empty without one.
func BansText(b *policy.Bans) string {
	if b == nil {
		return ""
	}
	short := func(d policy.Duration) string { return limiter.ShortWindow(time.Duration(d)) }
	return fmt.Sprintf("%s denied calls in %s ban for %s, then twice as long, up to %s", Number(b.Denials),
		short(b.Window), short(b.Base),
		short(b.Cap))
}
