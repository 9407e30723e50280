package policydoc

import (
	"cmp"
	"fmt"
	"net/netip"
	"strconv"
	"strings"
	"time"

	"tidegate/internal/limiter"
	"tidegate/internal/policy"
	"tidegate/internal/route"
)

// Number writes 1000000 as 1,000,000.
func Number(n int64) string {
	digits := strconv.FormatInt(n, 10)
	sign := ""
	if n < 0 {
		sign, digits = "-", digits[1:]
	}
	var b strings.Builder
	for i, d := range digits {
		if i > 0 && (len(digits)-i)%3 == 0 {
			b.WriteByte(',')
		}
		b.WriteRune(d)
	}
	return sign + b.String()
}

// Rate writes the numbers of a limit: "1,000 per 10 minutes", "5 per second" or "1,000
// per calendar month (Europe/Berlin)".
func Rate(l limiter.Limit) string {
	if l.Calendar == limiter.NoCalendar {
		return Number(l.Requests) + " per " + strings.TrimPrefix(limiter.FormatWindow(l.Window), "1 ")
	}
	return Number(l.Requests) + " per calendar " + l.Calendar.String() + " (" + cmp.Or(l.Zone, utc) + ")"
}

const (
	utc         = "UTC"
	denialsMark = "denied calls count"
	slotsMark   = " slots"
	notifyMark  = "notify at "
	shadowMark  = "shadow"
	// estimateMark is the former name of the counter, still read.
	estimateMark = "estimate"
)

// Marks says what sets a limit apart from a plain log.
func Marks(l limiter.Limit) []string {
	var marks []string
	if l.Algorithm != limiter.Log {
		marks = append(marks, Algorithm(l.Algorithm))
	}
	if l.CountDenied {
		marks = append(marks, denialsMark)
	}
	if l.Slots != 0 {
		marks = append(marks, Number(int64(l.Slots))+slotsMark)
	}
	if text := l.Notify.String(); text != "" {
		marks = append(marks, notifyMark+text)
	}
	if l.Shadow {
		marks = append(marks, shadowMark)
	}
	return marks
}

// Algorithm names an algorithm for people.
func Algorithm(a limiter.Algorithm) string {
	switch a {
	case limiter.Log:
		return "exact"
	case limiter.TokenBucket:
		return "token bucket"
	case limiter.FixedWindow:
		return "fixed window"
	case limiter.Counter:
	}
	return a.String()
}

// LimitText writes all of a limit: "100 per 10 seconds, denied calls count".
func LimitText(l limiter.Limit) string {
	return strings.Join(append([]string{Rate(l)}, Marks(l)...), ", ")
}

// Each writes every limit of a list.
func Each(limits []limiter.Limit) []string {
	words := make([]string, len(limits))
	for i, l := range limits {
		words[i] = LimitText(l)
	}
	return words
}

// LimitsText writes a list of limits.
func LimitsText(limits []limiter.Limit) string { return strings.Join(Each(limits), "; ") }

func orNone(text string) string {
	if text == "" {
		return "none"
	}
	return text
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
