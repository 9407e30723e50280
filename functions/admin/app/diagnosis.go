package app

import (
	"cmp"
	"slices"
	"strings"
	"time"

	"tidegate/internal/answer"
	"tidegate/internal/cause"
	"tidegate/internal/enforce"
	"tidegate/internal/limits"
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
	Source string // in words: where the limit stands; empty for another cause
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
		blockers[Blocker{Cause: l.Cause, Limit: l.Limit, Plan: l.Plan}] += l.Calls
	}
	for b, calls := range blockers {
		b.Calls, b.Source = calls, b.source(s)
		d.By = append(d.By, b)
	}
	slices.SortFunc(d.By, func(a, b Blocker) int {
		return cmp.Or(cmp.Compare(b.Calls, a.Calls), cmp.Compare(a.Limit, b.Limit),
			cmp.Compare(a.Plan, b.Plan), cmp.Compare(a.Cause, b.Cause))
	})
	return d.blockedFor(log, s)
}

// blockedFor returns the diagnosis with how long calls are denied: by a ban or limits on
// every call, by the limit that denied last, or, where only the log knows the state, for as
// long as the last denial said.
func (d Diagnosis) blockedFor(log denylog.Page, s enforce.Survey) Diagnosis {
	if d.Refused != "" {
		return d
	}
	d.Blocked = max(0, s.Result.BannedUntil.Sub(s.Result.Now))
	banned := d.Blocked > 0
	for _, l := range s.Result.Limits {
		ofEvery := l.On == "" && (l.Who.OfCaller() || l.Who == limits.EachGroup)
		if ofEvery && !l.Unread && l.Denies() && l.RetryAfter > d.Blocked {
			if d.Blocked = l.RetryAfter; !banned {
				d.Full = l.Rate()
			}
		}
	}
	last, found := LastDenial(log)
	if d.Blocked > 0 || !found || last.Limit == "" {
		return d
	}
	for _, l := range s.Result.Limits {
		switch {
		case !Denied(last, l) || l.CountsOnly:
		case l.Unread:
			d.Blocked, d.Part = StillDenied(last, s), partOf(l)
		case l.Denies():
			d.Blocked, d.Part = l.RetryAfter, partOf(l)
		}
	}
	return d
}

// partOf names the calls that a limit counts, if others pass it.
func partOf(l enforce.LimitState) string {
	switch {
	case l.Who == limits.EachAddress:
		return "from that address"
	case l.Param != "":
		return "with that {" + l.Param + "}"
	case l.On != "":
		return "of " + l.On
	}
	return ""
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
func Denied(d denylog.Entry, l enforce.LimitState) bool {
	return d.Cause == cause.Limit && d.Limit == answer.NameOf(l.Limit)
}

// source says where the limit of a blocker stands.
func (b Blocker) source(s enforce.Survey) string {
	if b.Cause != cause.Limit {
		return ""
	}
	entry := denylog.Entry{Denial: denylog.Denial{Cause: b.Cause, Limit: b.Limit}}
	for _, l := range s.Result.Limits {
		if Denied(entry, l) && !l.CountsOnly {
			return SourceWords(l.Applied, b.Plan)
		}
	}
	return "no longer in force"
}

// SourceWords says where a limit stands. plan is the name of the caller's plan.
func SourceWords(l limits.Applied, plan string) string {
	switch l.Source {
	case limits.FromPlan:
		return "plan " + plan
	case limits.FromOverride:
		return "override"
	case limits.FromGroupOverride:
		return "override of the group"
	case limits.FromPolicy:
	}
	return "policy"
}

// DenierWords says what denied a call: "500 per hour", "a ban".
func DenierWords(l denylog.Entry) string { return blockerWords(l.Cause, l.Limit) }

func blockerWords(by cause.Cause, limit string) string {
	switch by {
	case cause.Limit:
		return limit
	case cause.Ban:
		return "a ban"
	default:
		return "an outage of Valkey"
	}
}

// Words describes what blocked the calls: "all by 500 per hour (plan partner)".
func (d Diagnosis) Words() string {
	parts := make([]string, len(d.By))
	for i, b := range d.By {
		parts[i] = "by " + blockerWords(b.Cause, b.Limit)
		if b.Source != "" {
			parts[i] += " (" + b.Source + ")"
		}
		if len(d.By) > 1 {
			parts[i] = limits.Number(b.Calls) + " " + parts[i]
		}
	}
	if len(parts) == 1 {
		return "all " + parts[0]
	}
	return strings.Join(parts, ", ")
}
