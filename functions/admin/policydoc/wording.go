package policydoc

import (
	"cmp"
	"fmt"
	"net/netip"
	"strconv"
	"strings"

	"tidegate/internal/limiter"
	"tidegate/internal/policy"
	"tidegate/internal/route"
)

// ToMinute is the layout of an instant, in UTC, without seconds.
const ToMinute = "2006-01-02 15:04 UTC"

// PlanText describes a plan, except its name.
func PlanText(p policy.Plan) string {
	text := LimitsText(p.Limits) + "; " + ModeText(p.Mode) + "; " + DegradedText(p)
	if len(p.PerGroup) > 0 {
		text += "; each group " + LimitsText(p.PerGroup)
	}
	if len(p.Allow) > 0 {
		text += "; opens " + AllowText(p.Allow)
	}
	return text
}

// AllowText lists the routes that a plan or a key allows; "all" without a list.
func AllowText(allow []route.Pattern) string { return cmp.Or(join(allow), "all") }

// ModeText formats a mode. An empty mode is enforce.
func ModeText(m policy.Mode) string { return string(policy.OrEnforce(m)) }

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

func costText(r policy.Route) string { return Number(r.Cost) + SettleText(r) }

// SettleText follows a route's cost. It says whether the cost is settled, how much a
// settlement may charge to shared limits. It is empty
// for a route without either setting.
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

// RouteText describes a route, except its name.
func RouteText(r policy.Route) string {
	parts := []string{r.Pattern.String(), "cost " + costText(r)}
	for _, l := range []struct{ what, limits string }{
		{"each caller", LimitsText(r.PerKey)}, {"each address", LimitsText(r.PerIP)},
		{"all callers together", LimitsText(r.Shared)},
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

// ScopeText describes a scope; empty without limits.
func ScopeText(s policy.Scope) string {
	if len(s.Limits) == 0 {
		return ""
	}
	return LimitsText(s.Limits) + "; " + ModeText(s.Mode)
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

// Meaning says in sentences what a limit does: "Exact: at most 100 in any 10 seconds."
func Meaning(l limiter.Limit) string {
	most, window := Number(l.Requests), strings.TrimPrefix(limiter.FormatWindow(l.Window), "1 ")
	slots := int64(cmp.Or(l.Slots, limiter.DefaultSlots))
	var b strings.Builder
	switch {
	case l.Calendar != limiter.NoCalendar:
		fmt.Fprintf(&b, "At most %s in each calendar %s, by the clock of %s.", most, l.Calendar,
			cmp.Or(l.Zone, utc))
	case l.Algorithm == limiter.FixedWindow:
		fmt.Fprintf(&b, "At most %s in each %s, up to %s around a boundary.", most, window,
			Number(2*l.Requests))
	case l.Algorithm == limiter.TokenBucket:
		fmt.Fprintf(&b, "A burst of %s, then an even %s per %s.", most, most, window)
	case l.Algorithm == limiter.Counter:
		fmt.Fprintf(&b, "Approximate, least memory: about %s in any %s.", most, window)
	case l.Requests > slots: // a slot stands for several calls
		fmt.Fprintf(&b, "Exact to %s calls: at most %s in any %s.", Number((l.Requests+slots-1)/slots), most,
			window)
	default:
		fmt.Fprintf(&b, "Exact: at most %s in any %s.", most, window)
	}
	if l.Calls {
		b.WriteString(" Counts calls, whatever they cost.")
	}
	if l.CountDenied {
		b.WriteString(" Denied calls count too.")
	}
	if text := l.Notify.String(); text != "" {
		b.WriteString(" Alerts at " + text + ".")
	}
	if l.Shadow {
		b.WriteString(" Counts only, and denies nothing.")
	}
	return b.String()
}
