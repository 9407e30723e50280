package policydoc

import (
	"cmp"
	"fmt"
	"net/netip"
	"strings"

	"tidegate/internal/limiter"
	"tidegate/internal/limiter/calendar"
	"tidegate/internal/limits"
	"tidegate/internal/policy"
	"tidegate/internal/route"
)

// ToMinute is the layout of an instant, in UTC, without seconds.
const ToMinute = "2006-01-02 15:04 UTC"

// Each returns every limit in words.
func Each(list []limits.Limit) []string {
	words := make([]string, len(list))
	for i, l := range list {
		words[i] = l.String()
	}
	return words
}

// LimitsText formats a list of limits.
func LimitsText(list []limits.Limit) string { return strings.Join(Each(list), "; ") }

// PlanText describes a plan, except its name.
func PlanText(p policy.Plan) string {
	text := cmp.Or(LimitsText(p.Limits), "no limits") + "; " + DegradedText(p)
	if len(p.Opens) > 0 {
		text += "; opens " + OpensText(p.Opens)
	}
	return text
}

// OpensText lists the routes that a plan or a key opens; "all" without a list.
func OpensText(opens []route.Pattern) string { return cmp.Or(join(opens), "all") }

// DegradedText describes how a plan's calls are decided while Valkey is unavailable.
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

// CostText says what a route's calls cost, and whether a backend settles it.
func CostText(r limits.Route) string {
	text := cmp.Or(r.Cost.String(), "1")
	if r.Settle {
		text += ", settled after"
	}
	return text
}

// RouteText describes a route, except its name.
func RouteText(r limits.Route) string {
	text := MatchText(r) + "; cost " + CostText(r)
	if len(r.Scopes) > 0 {
		text += "; scopes " + ScopesText(r)
	}
	return text
}

// ScopesText names the scopes of a route; empty for none.
func ScopesText(r limits.Route) string { return strings.Join(r.Scopes, ", ") }

// MatchText lists the patterns of a route.
func MatchText(r limits.Route) string {
	texts := make([]string, len(r.Match))
	for i, p := range r.Match {
		texts[i] = limits.PatternText(p)
	}
	return strings.Join(texts, ", ")
}

// PrefixText lists networks.
func PrefixText(list []netip.Prefix) string { return join(list) }

func join[T fmt.Stringer](list []T) string {
	texts := make([]string, len(list))
	for i, item := range list {
		texts[i] = item.String()
	}
	return strings.Join(texts, ", ")
}

// exactTo is the greatest limit that the exact algorithm counts call by call.
const exactTo = 1000

// Meaning says in sentences what a limit does: "Exact: at most 100 in any 10 seconds."
func Meaning(l limits.Limit) string {
	if l.Lifted {
		return "Lifts the limits of each caller with the same marks."
	}
	most, window := limits.Number(l.Requests), strings.TrimPrefix(limits.FormatWindow(l.Window), "1 ")
	var b strings.Builder
	switch {
	case l.AtOnce:
		text := fmt.Sprintf("At most %s calls at the same time. A call that nobody ends counts for %s.", most,
			limits.FormatWindow(l.Window))
		if l.Shadow {
			text += " Counts only, and denies nothing."
		}
		return text
	case l.Calendar == calendar.BillingMonth:
		fmt.Fprintf(&b, "At most %s in each billing month, from the billing day of the %s.", most,
			cmp.Or(map[limits.Who]string{limits.EachGroup: "group"}[l.Who], "caller"))
	case l.Calendar != calendar.None:
		fmt.Fprintf(&b, "At most %s in each calendar %s, by the clock of %s.", most, l.Calendar,
			cmp.Or(l.Zone, "UTC"))
	case l.Algorithm == limiter.FixedWindow:
		fmt.Fprintf(&b, "At most %s in each %s, up to %s around a boundary.", most, window,
			limits.Number(2*l.Requests))
	case l.Algorithm == limiter.TokenBucket:
		fmt.Fprintf(&b, "A burst of %s, then an even %s per %s.", most, most, window)
	case l.Algorithm == limiter.Counter:
		fmt.Fprintf(&b, "Approximate, least memory: about %s in any %s.", most, window)
	case l.Requests > exactTo:
		fmt.Fprintf(&b, "At most %s in any %s; up to a 500th is withheld.", most, window)
	default:
		fmt.Fprintf(&b, "Exact: at most %s in any %s.", most, window)
	}
	switch l.Unit {
	case limits.Cost:
	case limits.Calls:
		b.WriteString(" Counts calls, whatever they cost.")
	default:
		fmt.Fprintf(&b, " Counts %s.", l.Unit)
	}
	if l.CountDenied {
		b.WriteString(" Denied calls count too.")
	}
	for i, percent := range l.Notify {
		b.WriteString([]string{" Alerts at ", "/"}[min(i, 1)])
		fmt.Fprint(&b, percent)
	}
	if len(l.Notify) > 0 {
		b.WriteString(" %.")
	}
	if l.Shadow {
		b.WriteString(" Counts only, and denies nothing.")
	}
	return b.String()
}
