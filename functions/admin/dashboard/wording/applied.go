package wording

import (
	"slices"
	"strings"
	"time"

	"tidegate/functions/admin/app"
	"tidegate/functions/admin/dashboard/page"
	"tidegate/internal/enforce"
	"tidegate/internal/limits"
	"tidegate/internal/usage/denylog"
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
	}
	return row
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
// denied the last call.
func AllApplied(v enforce.Survey, log denylog.Page) (rows, unused []templates.AppliedRow) {
	all := slices.Clone(v.Result.Limits)
	slices.SortStableFunc(all, func(a, b enforce.LimitState) int { return strings.Compare(a.On, b.On) })
	last, denied := app.LastDenial(log)
	for _, l := range all {
		isLast := denied && !l.CountsOnly && app.Denied(last, l)
		row := Applied(l, v.Effective.Plan.Name, v.Result.Now)
		if isLast {
			row.Denied = page.Instant(last.Time)
			lastDenied(&row, l, last, v)
		}
		if l.On != "" && !isLast && (l.Unread || l.Used() == 0) {
			unused = append(unused, row)
		} else {
			rows = append(rows, row)
		}
	}
	return rows, unused
}

// lastDenied adds what the log knows of the last denial, if the limit's state is not known.
func lastDenied(row *templates.AppliedRow, l enforce.LimitState, last denylog.Entry, v enforce.Survey) {
	if !l.Unread {
		return
	}
	if l.Who == limits.EachAddress && last.Network.IsValid() {
		row.Note += " Last full: an address in " + last.Network.String() + "."
	}
	if wait := app.StillDenied(last, v); wait > 0 {
		row.Window.Unblocks, row.Window.UnblocksLeft = page.Span(wait), SecondsLeft(wait)
	}
}

// Diagnosis puts a diagnosis into words.
func Diagnosis(d app.Diagnosis) templates.Diagnosis {
	v := templates.Diagnosis{}
	if d.Calls > 0 {
		v.Calls = page.Number(d.Calls) + " calls"
		if d.Calls == 1 {
			v.Calls = "1 call"
		}
		v.Since, v.Last, v.By = page.Instant(d.Since), page.Instant(d.Last), page.Clip(d.Words(), MaxText)
	}
	if d.Earlier > 0 {
		v.More = "; " + page.Number(d.Earlier) + " earlier in the last 24 hours"
	}
	if d.Unlogged > 0 {
		v.More += "; " + page.Number(d.Unlogged) + " more were counted but not logged"
	}
	if d.Unreadable > 0 {
		v.More += "; entries that cannot be read: " + page.Number(d.Unreadable)
	}
	switch {
	case d.Refused != "":
		v.Level, v.State = "bad", "Every call is refused: "+d.Refused+"."
	case d.Blocked > 0 && d.Part != "":
		v.Level, v.State = "bad", "Calls "+page.Clip(d.Part, MaxText)+" unblock in"
	case d.Blocked > 0 && d.Calls == 0 && d.Full != "":
		v.Level, v.State = "bad", d.Full+" is used up. Unblocks in"
	case d.Blocked > 0:
		v.Level, v.State = "bad", "Unblocks in"
	case d.Calls > 0:
		v.State = "The next call passes."
	case v.More == "":
		v.State = "No call blocked in the last 24 hours."
	default:
		v.State = "No logged denial in the last 24 hours" + v.More + "."
	}
	if d.Blocked > 0 && d.Refused == "" {
		v.Wait, v.Left = page.Span(d.Blocked), SecondsLeft(d.Blocked)
	}
	return v
}
