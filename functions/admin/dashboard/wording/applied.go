package wording

import (
	"slices"
	"strings"
	"time"

	"tidegate/functions/admin/app"
	"tidegate/functions/admin/dashboard/page"
	"tidegate/functions/admin/policydoc"
	"tidegate/internal/enforce"
	"tidegate/internal/policy"
	"tidegate/internal/usage/denylog"
	"tidegate/web/templates"
)

// Applied describes a limit and its use now. source is where a key's own limits come from,
// and group the key's group.
func Applied(l enforce.SurveyedLimit, source, group string, now time.Time) templates.AppliedRow {
	row := templates.AppliedRow{Window: WindowAt(l.Usage, now)}
	if l.Scope == policy.ScopeKey {
		source = "key, " + source
	}
	row.Scope = page.Clip(app.ScopeWords(l.Scope, source, group, l.Rule), 2*page.MaxName)
	if l.Mode == policy.Shadow {
		row.Tags = []string{"shadow"}
	}
	if l.Replaced {
		row.Tags = append(row.Tags, "replaced: counts, denies nothing")
	}
	if l.Unread {
		row.Note = "Each address has its own count."
		row.Window = templates.Window{Limit: policydoc.Rate(l.Limit), Counted: countedText(l.Limit),
			Remaining: "–", Resets: "–", Unblocks: "–"}
	}
	return row
}

// LimitSource names where a key's own limits come from: its plan, or an override.
func LimitSource(e policy.Effective) string {
	switch {
	case e.Override == nil:
		return "plan " + page.Clip(e.Plan.Name, page.MaxName)
	case e.Source == "group":
		return "group override"
	}
	return "override"
}

// FullestScope says whose calls the fullest limit of a key counts, and where it comes from.
func FullestScope(s app.Subject) string {
	return page.Clip(app.ScopeWords(s.Fullest.Scope, LimitSource(s.Effective), s.Group, s.Fullest.Rule),
		2*page.MaxName)
}

// AllApplied lists the limits of a survey: those of every call, then those of route rules
// that have counted calls, and the unused ones of other rules apart. It marks the one that
// denied the last call.
func AllApplied(v enforce.Survey, log denylog.Page) (rows, unused []templates.AppliedRow) {
	limits := slices.Clone(v.Limits)
	slices.SortStableFunc(limits, func(a, b enforce.SurveyedLimit) int {
		return strings.Compare(a.Rule, b.Rule)
	})
	last, denied := app.LastDenial(log)
	for _, l := range limits {
		isLast := denied && !l.Replaced && app.Denied(last, l)
		source := LimitSource(v.Effective)
		if l.Replaced {
			source = "plan " + page.Clip(v.Effective.Plan.Name, page.MaxName)
		}
		row := Applied(l, source, v.Result.Group, v.Result.Now)
		if isLast {
			row.Denied = page.Instant(last.Time)
			lastOfAddress(&row, l, last, v)
		}
		if l.Rule != "" && !isLast && (l.Unread || l.Used() == 0) {
			unused = append(unused, row)
		} else {
			rows = append(rows, row)
		}
	}
	return rows, unused
}

// lastOfAddress adds what the log knows of the last address, if the limit is on each.
func lastOfAddress(row *templates.AppliedRow, l enforce.SurveyedLimit, last denylog.Entry, v enforce.Survey) {
	if !l.Unread {
		return
	}
	if last.Network.IsValid() {
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
