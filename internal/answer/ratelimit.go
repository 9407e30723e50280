package answer

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"tidegate/internal/enforce"
	"tidegate/internal/limiter"
	"tidegate/internal/limits"
)

// The RateLimit and RateLimit-Policy fields are those of
// draft-ietf-httpapi-ratelimit-headers: lists of Structured Fields (RFC 9651), whose
// items are the names of limits.

// Bounds of what a client sees of limits. Many can apply to a call, and HTTP APIs pass on
// at most 10,240 bytes of headers.
const (
	maxFields = 10
	maxBytes  = 2048 // of both fields
	maxName   = 100  // bytes
)

// named is a limit with the name that clients know.
type named struct {
	enforce.LimitState
	name string
}

// size returns how many bytes a limit takes in both fields, at most.
func (l named) size() int { return 2*len(quoted(l.name)) + len(l.Unit) + 58 }

// reported returns the enforced limits. If they are too many or too long, it returns those
// that denied and those with the least remaining.
func reported(states []enforce.LimitState) []named {
	all := make([]named, 0, len(states))
	seen := make(map[string]int, len(states))
	for _, l := range states {
		if l.Unread || !l.Enforced() {
			continue
		}
		name := NameOf(l.Limit)
		if seen[name]++; seen[name] > 1 {
			name = fmt.Sprintf("%s (%d)", name, seen[name])
		}
		all = append(all, named{l, name})
	}
	total := 0
	for _, l := range all {
		total += l.size()
	}
	if len(all) <= maxFields && total <= maxBytes {
		return all
	}
	slices.SortStableFunc(all, urgency)
	total = 0
	for i, l := range all {
		if total += l.size(); i == maxFields || total > maxBytes {
			return all[:i]
		}
	}
	return all
}

// urgency orders limits: first those that denied, by the longest wait, then those with
// the smallest share remaining.
func urgency(a, b named) int {
	return cmp.Or(cmp.Compare(b.RetryAfter, a.RetryAfter),
		cmp.Compare(a.Remaining*b.Requests, b.Remaining*a.Requests))
}

// NameOf returns the name by which clients know a limit: "30 per minute on search", "100
// per minute each address". A name longer than 100 bytes is cut, and ends with three dots.
func NameOf(l limits.Limit) string {
	name := l.Rate()
	if l.On != "" {
		name += " on " + l.On
	}
	for _, text := range l.Except {
		name += " except " + text
	}
	if l.Who > limits.EachCaller {
		name += " " + l.For()
	}
	if len(name) > maxName {
		name = strings.ToValidUTF8(name[:maxName-3], "") + "..."
	}
	return name
}

// The quota units of the parameter qu. The draft defines requests, which is also its
// default, and allows others.
const (
	unitRequests = "requests"
	unitCost     = "cost"
)

// policyField returns each limit's quota and window in seconds, rounded up. A calendar
// period has no window of a fixed length. If some limit counts in a unit, it returns the
// unit of each.
func policyField(all []named) string {
	unit := func(l named) bool { return l.Unit != limits.Cost }
	mixed := slices.ContainsFunc(all, unit)
	items := make([]string, len(all))
	for i, l := range all {
		items[i] = fmt.Sprintf("%s;q=%d", quoted(l.name), l.Requests)
		if l.Calendar == limiter.NoCalendar && !l.AtOnce {
			items[i] += fmt.Sprintf(";w=%d", WholeSeconds(l.Span()))
		}
		switch {
		case !mixed:
		case l.Unit == limits.Calls:
			items[i] += fmt.Sprintf(";qu=%q", unitRequests)
		case l.Unit == limits.Cost:
			items[i] += fmt.Sprintf(";qu=%q", unitCost)
		default:
			items[i] += ";qu=" + quoted(l.Unit)
		}
	}
	return strings.Join(items, ", ")
}

// stateField returns what remains of each limit and the seconds until more does, rounded
// up. An unused limit has no t.
func stateField(limits []named) string {
	items := make([]string, len(limits))
	for i, l := range limits {
		items[i] = fmt.Sprintf("%s;r=%d", quoted(l.name), l.Remaining)
		if l.Next > 0 {
			items[i] += fmt.Sprintf(";t=%d", WholeSeconds(l.Next))
		}
	}
	return strings.Join(items, ", ")
}

// quoted returns a String of Structured Fields: printable ASCII in quotes. It replaces
// any other character by a question mark.
func quoted(text string) string {
	var b strings.Builder
	b.WriteByte('"')
	for _, r := range text {
		switch {
		case r == '"' || r == '\\':
			b.WriteByte('\\')
			b.WriteRune(r)
		case r < ' ' || r > '~':
			b.WriteByte('?')
		default:
			b.WriteRune(r)
		}
	}
	b.WriteByte('"')
	return b.String()
}

// violated names the limits that denied.
func violated(limits []named) []string {
	names := []string{}
	for _, l := range limits {
		if l.Full() {
			names = append(names, l.name)
		}
	}
	return names
}
