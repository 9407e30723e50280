package wording

import (
	"slices"
	"strings"
	"time"

	"tidegate/functions/admin/app"
	"tidegate/functions/admin/dashboard/page"
	"tidegate/internal/cause"
	"tidegate/internal/enforce"
	"tidegate/internal/limiter"
	"tidegate/internal/limits"
	"tidegate/internal/records"
	"tidegate/web/templates"
)

// Applied describes a limit and its use now. plan is the name of the plan where it may
// stand.
func Applied(l enforce.LimitState, plan string, now time.Time) templates.AppliedRow {
	row := templates.AppliedRow{Window: WindowAt(l, now),
		From: app.SourceWords(l.Applied, page.Clip(plan, page.MaxName))}
	if l.Unread {
		row.Note = unread(l)
		row.Window.Frees, row.Window.Unblocks = "–", "–"
	} else if first := firstCounted(l, now); !first.IsZero() {
		row.Since = page.Instant(first)
	}
	return row
}

// firstCounted returns when the first call was made that a long exact limit counts now. It
// is zero if that is about a window ago. A limit that is new, and longer than those before
// it, does not know what came before its first call.
func firstCounted(l enforce.LimitState, now time.Time) time.Time {
	if l.Algorithm != limiter.Log || l.AtOnce || l.Window < time.Hour || l.Used() == 0 || l.Owed > 0 ||
		l.Next <= l.Window/100 {
		return time.Time{}
	}
	return now.Add(l.Next - l.Window)
}

// unread says why the state of a limit is not known.
func unread(l enforce.LimitState) string {
	switch apart := l.Who == limits.EachAddress || l.Param != "" || l.Who == limits.CallerPattern; {
	case l.CountsOnly:
		return "Goes on counting."
	case apart && l.Count.Value == "" && l.Count.Pattern == "":
		return "Counted apart for " + l.For() + "."
	}
	return "Not asked: another limit denied before."
}

// AllApplied lists the limits of a survey: those of every call, then those on routes that
// have counted calls, and the unused ones on other routes apart. It marks the one that
// denied last, and says what those in shadow would have denied. latest are the latest
// denials, kinds the calls of a period, in is the period in words.
func AllApplied(s app.Subject, v enforce.Survey, latest []app.Denial, kinds []records.KindCount,
	in string) (rows, unused []templates.AppliedRow) {
	all := slices.Clone(v.Result.Limits)
	slices.SortStableFunc(all, func(a, b enforce.LimitState) int { return strings.Compare(a.On, b.On) })
	last, denied := s.LastDenial()
	for _, l := range all {
		isLast := denied && app.Named(last.Limit, l)
		row := Applied(l, v.Effective.Plan.Name, v.Result.Now)
		if isLast {
			row.Denied = page.Instant(last.At)
			lastDenied(&row, l, last, latest, s.At)
		}
		if l.Shadow {
			row.Would = wouldDeny(l, kinds) + " " + in
		}
		if l.On != "" && !isLast && (l.Unread || l.Used() == 0) {
			unused = append(unused, row)
		} else {
			rows = append(rows, row)
		}
	}
	return rows, unused
}

// wouldDeny says how many calls a limit in shadow would have denied.
func wouldDeny(l enforce.LimitState, kinds []records.KindCount) string {
	calls := int64(0)
	for _, k := range kinds {
		if k.Cause == cause.Shadow && app.Named(k.Limit, l) {
			calls += k.Calls
		}
	}
	return page.Number(calls) + " would be denied"
}

// lastDenied adds what is recorded of the last denial, if the limit's state is not known.
func lastDenied(row *templates.AppliedRow, l enforce.LimitState, last records.Denier,
	latest []app.Denial, at time.Time) {
	if !l.Unread {
		return
	}
	i := slices.IndexFunc(latest, func(d app.Denial) bool { return d.Limit == last.Limit })
	if l.Who == limits.EachAddress && i >= 0 && latest[i].Network.IsValid() {
		row.Note += " Last full: an address in " + latest[i].Network.String() + "."
	}
	if wait := last.Until.Sub(at); wait > 0 {
		row.Window.Unblocks, row.Window.UnblocksLeft = page.Span(wait), SecondsLeft(wait)
	}
}

// Diagnosis puts a diagnosis into words.
func Diagnosis(d app.Diagnosis) templates.Diagnosis {
	v := templates.Diagnosis{}
	if d.Calls > 0 {
		v.Calls = page.AtLeast(d.Calls, d.AtLeast) + " calls"
		if d.Calls == 1 && !d.AtLeast {
			v.Calls = "1 call"
		}
		v.Calls += " " + became(d)
		v.Since, v.Last, v.By = page.Instant(d.Since), page.Instant(d.Last), page.Clip(d.Words(), MaxText)
	}
	if d.Earlier > 0 {
		v.More = "; " + page.Number(d.Earlier) + " earlier in the last 24 hours"
	}
	wait := d.Banned
	if !d.Denier.Until.IsZero() && (d.Denier.Every || wait == 0) {
		wait = max(wait, d.Denier.Until.Sub(d.At))
	}
	switch {
	case d.Refused != "":
		v.Level, v.State = "bad", "Every call is refused: "+d.Refused+"."
		return v
	case d.Banned == 0 && d.Denier.Part != "":
		v.Level, v.State = "bad", "Calls "+page.Clip(d.Denier.Part, MaxText)+" pass again in"
	case d.Banned == 0 && d.Denier.Limit != "" && d.Calls == 0:
		v.Level, v.State = "bad", d.Denier.Limit+" is used up. The next call passes in"
	case wait > 0:
		v.Level, v.State = "bad", "The next call passes in"
	case d.Denier.Limit != "":
		v.Level, v.State = "bad", d.Denier.Limit+" never admits a call."
		return v
	case d.Calls > 0:
		v.State = "The next call passes."
	case d.AtLeast:
		v.State = "No denied or refused call is known in the last 24 hours; some may be missing."
	case d.New && d.Passed == 0:
		v.State = "Waiting for the first call."
	case d.New && d.Passed == 1:
		v.State = "The first call passed."
	default:
		v.State = "No call denied or refused in the last 24 hours."
	}
	if wait > 0 {
		v.Wait, v.Left = page.Span(wait), SecondsLeft(wait)
	}
	v.Demand = demand(d.Demand)
	return v
}

// became says what became of the calls of a diagnosis.
func became(d app.Diagnosis) string {
	denied, refused := false, false
	for _, b := range d.By {
		denied = denied || b.Cause == cause.Limit
		refused = refused || b.Cause != cause.Limit
	}
	switch {
	case !refused:
		return "denied"
	case !denied:
		return "refused"
	}
	return "denied or refused"
}

// demand says how much a caller sends, and which limit would be enough.
func demand(d app.Demand) string {
	if d.Sends == 0 {
		return ""
	}
	text := "It sends up to " + page.Number(d.Sends) + " a minute, the limit allows " +
		page.Number(d.Allows) + "; "
	if d.Window == time.Minute {
		return text + "allow at least " + page.Number(d.Enough) + " to stop the denials."
	}
	return text + page.Number(d.Enough) + " in " + page.Offset(d.Window) + " are enough for even calls."
}
