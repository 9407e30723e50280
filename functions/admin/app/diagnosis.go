package app

import (
	"cmp"
	"slices"
	"strconv"
	"strings"
	"time"

	"tidegate/functions/admin/policydoc"
	"tidegate/internal/answer"
	"tidegate/internal/cause"
	"tidegate/internal/enforce"
	"tidegate/internal/policy"
	"tidegate/internal/usage/denylog"
)

// Diagnosis says what blocked a caller's calls lately, and until when.
type Diagnosis struct {
	// Calls is the number of calls of the latest run of denials, in which no two are more
	// than runGap apart. It is 0 if no denial of the last 24 hours is logged.
	Calls       int64
	Since, Last time.Time // of the run
	By          []Blocker // what blocked them, most calls first
	Earlier     int64     // denied calls of the last 24 hours before the run
	// Unlogged is the number of denied calls of the last 24 hours that the log omits, and
	// Unreadable that of entries that cannot be read. If any, the other figures are least
	// values.
	Unlogged, Unreadable int64
	Refused              string        // why every call is refused now; empty if it is not
	Blocked              time.Duration // how long a call is denied from now on; 0 if it passes
	// Part names the calls that are denied, such as "from that address", if others pass.
	Part string
	// Full is the limit that blocks every call now, in words; empty for none.
	Full string
}

// Blocker is what blocked calls.
type Blocker struct {
	Cause  cause.Cause
	Limit  string // as clients know it; empty for another cause than a limit
	Plan   string
	Group  string
	Rule   string
	Source string // in words: where the limit comes from; empty for another cause
	Calls  int64
}

// runGap is the longest time without a denial within a run.
const runGap = time.Hour

// Diagnose returns the diagnosis of a key, from its denials of the last 24 hours, newest
// first, and the state of its limits. Refused credentials are not denials.
func Diagnose(log denylog.Page, unlogged int64, s enforce.Survey) Diagnosis {
	d := Diagnosis{Unlogged: unlogged, Unreadable: log.Unreadable, Refused: s.Refused}
	blockers := map[Blocker]int64{}
	for _, l := range log.Denials {
		switch {
		case l.Cause.Refuses():
			continue
		case d.Calls > 0 && (d.Earlier > 0 || d.Since.Sub(l.Time) > runGap):
			d.Earlier += l.Calls
			continue
		case d.Calls == 0:
			d.Last = l.Time
		}
		d.Calls, d.Since = d.Calls+l.Calls, l.Time
		b := Blocker{Cause: l.Cause, Limit: l.Limit, Plan: l.Plan, Group: l.Group}
		if strings.HasPrefix(l.Limit, policy.ScopeRoute) {
			b.Rule = l.Rule
		}
		blockers[b] += l.Calls
	}
	for b, calls := range blockers {
		b.Calls, b.Source = calls, b.source(s)
		d.By = append(d.By, b)
	}
	slices.SortFunc(d.By, func(a, b Blocker) int {
		return cmp.Or(cmp.Compare(b.Calls, a.Calls), cmp.Compare(a.Limit, b.Limit),
			cmp.Compare(a.Plan, b.Plan), cmp.Compare(a.Rule, b.Rule), cmp.Compare(a.Cause, b.Cause))
	})
	return d.blockedFor(log, s)
}

// blockedFor returns the diagnosis with how long calls are denied: by a ban or limits on
// every call, by the limit of a route that denied last, or, where only the log knows the
// state, for as long as the last denial said.
func (d Diagnosis) blockedFor(log denylog.Page, s enforce.Survey) Diagnosis {
	if d.Refused != "" {
		return d
	}
	if d.Blocked = s.Result.RetryAfter(); d.Blocked > 0 {
		if full, found := s.Result.Binding(); found && s.Result.BannedUntil.IsZero() {
			d.Full = policydoc.Rate(full.Limit)
		}
		return d
	}
	last, found := LastDenial(log)
	if !found || last.Limit == "" {
		return d
	}
	for _, l := range s.Limits {
		if !Denied(last, l) {
			continue
		}
		if l.Unread {
			d.Blocked, d.Part = StillDenied(last, s), "from that address"
		} else if l.Denies() && !l.Replaced {
			d.Blocked, d.Part = l.RetryAfter, "of rule "+l.Rule
		}
	}
	return d
}

// StillDenied returns how long the caller that got a denial is denied from now on, by what
// the denial said; 0 if it passes.
func StillDenied(l denylog.Entry, s enforce.Survey) time.Duration {
	return max(0, l.Time.Add(l.RetryAfter).Sub(s.Result.Now))
}

// LastDenial returns the newest denial of a log that is no refused credential.
func LastDenial(log denylog.Page) (denylog.Entry, bool) {
	i := slices.IndexFunc(log.Denials, func(l denylog.Entry) bool { return !l.Cause.Refuses() })
	if i < 0 {
		return denylog.Entry{}, false
	}
	return log.Denials[i], true
}

// Denied reports whether a limit caused a denial.
func Denied(l denylog.Entry, limit enforce.SurveyedLimit) bool {
	return l.Cause == cause.Limit && l.Limit == answer.NameOf(limit.LimitState) &&
		(limit.Rule == "" || limit.Rule == l.Rule)
}

// source says where the limit of a blocker comes from.
func (b Blocker) source(s enforce.Survey) string {
	if b.Cause != cause.Limit {
		return ""
	}
	_, scope := LimitWords(b.Limit)
	words := ScopeWords(scope, "plan "+b.Plan, b.Group, b.Rule)
	entry := denylog.Entry{Denial: denylog.Denial{Cause: b.Cause, Limit: b.Limit, Rule: b.Rule}}
	i := slices.IndexFunc(s.Limits, func(l enforce.SurveyedLimit) bool {
		return Denied(entry, l) && !l.Replaced
	})
	switch {
	case i < 0:
		return words + ", no longer in force"
	case scope == policy.ScopeKey && s.Effective.Override != nil:
		return "override"
	}
	return words
}

// ScopeWords says whose calls a limit counts. source is where a key's own limits come from:
// its plan or an override.
func ScopeWords(scope, source, group, rule string) string {
	switch scope {
	case policy.ScopeKey:
		return source
	case policy.ScopeGroup:
		return "group " + group
	case policy.ScopeIP:
		return "each address"
	case policy.ScopeRoute:
		return "this key, rule " + rule
	case policy.ScopeRouteIP:
		return "each address, rule " + rule
	case policy.ScopeGlobal:
		return "all callers"
	case policy.ScopeRouteAll:
		return "all callers, rule " + rule
	}
	return scope
}

// DenierWords says what denied a call: "500 per hour (plan partner)", "a ban".
func DenierWords(l denylog.Entry) string {
	_, scope := LimitWords(l.Limit)
	return blockerWords(l.Cause, l.Limit, ScopeWords(scope, "plan "+l.Plan, l.Group, l.Rule))
}

func blockerWords(by cause.Cause, limit, source string) string {
	switch by {
	case cause.Limit:
		limit, _ = LimitWords(limit)
		return limit + " (" + source + ")"
	case cause.Ban:
		return "a ban"
	default:
		return "an outage of Valkey"
	}
}

// LimitWords splits a limit's name for clients into the limit, as pages write it, and its
// scope.
func LimitWords(name string) (limit, scope string) {
	scope = policy.ScopeKey
	if first, rest, found := strings.Cut(name, " "); found && strings.Trim(first, "0123456789") != "" {
		scope, name = first, rest
	}
	digits, rest, _ := strings.Cut(name, " ")
	if n, err := strconv.ParseInt(digits, 10, 64); err == nil {
		name = policydoc.Number(n) + " " + strings.Replace(rest, "per 1 ", "per ", 1)
	}
	return name, scope
}

// Words describes what blocked the calls: "all by 500 per hour (plan partner)".
func (d Diagnosis) Words() string {
	parts := make([]string, len(d.By))
	for i, b := range d.By {
		parts[i] = "by " + blockerWords(b.Cause, b.Limit, b.Source)
		if len(d.By) > 1 {
			parts[i] = policydoc.Number(b.Calls) + " " + parts[i]
		}
	}
	if len(parts) == 1 {
		return "all " + parts[0]
	}
	return strings.Join(parts, ", ")
}
