// Package wording owns the texts by which pages describe limits, overrides and the state of a
// key, and the options for plans. The packages below dashboard
// import it. It reads nothing from Valkey.
package wording

import (
	"cmp"
	"strconv"
	"time"

	"tidegate/functions/admin/app"
	"tidegate/functions/admin/dashboard/page"
	"tidegate/functions/admin/policydoc"
	"tidegate/internal/enforce"
	"tidegate/internal/limiter/calendar"
	"tidegate/internal/limits"
	"tidegate/internal/policy"
	"tidegate/web/templates"
)

// MaxText bounds the text of a value before or after a change, in characters.
const MaxText = 400

// Window describes a limit and its current use.
func Window(l enforce.LimitState) templates.Window {
	share := app.Percent(l.Used(), l.Requests)
	w := templates.Window{
		Limit:    l.Rate(),
		For:      cmp.Or(l.For(), limits.Limit{Who: limits.EachCaller}.For()),
		Used:     page.Number(l.Used()),
		Of:       page.Number(l.Requests),
		Share:    strconv.Itoa(int(share)),
		Level:    "free",
		Frees:    "–",
		Unblocks: "–",
	}
	for _, mark := range l.Marks() {
		if mark != w.For {
			w.Marks = append(w.Marks, page.Clip(mark, page.MaxName))
		}
	}
	if l.CountsOnly {
		w.Marks = append(w.Marks, "counts only")
	}
	switch {
	case l.Owed > 0:
		w.Level = "full"
		w.Note = "owes " + page.Number(l.Owed)
	case l.Remaining <= 0:
		w.Level = "full"
		w.Note = "full"
	case l.NearlyUsedUp():
		w.Level = "near"
		w.Note = w.Share + " %"
	}
	if l.Next > 0 {
		w.Frees, w.FreesLeft = page.Span(l.Next), SecondsLeft(l.Next)
	}
	if l.RetryAfter > 0 {
		w.Unblocks, w.UnblocksLeft = page.Span(l.RetryAfter), SecondsLeft(l.RetryAfter)
	}
	if l.Never {
		w.Unblocks = "never"
	}
	return w
}

// WindowAt is Window with the forecast of a calendar quota, in its time zone.
func WindowAt(l enforce.LimitState, now time.Time) templates.Window {
	w := Window(l)
	full, found := app.FullAt(l, now)
	if !found {
		return w
	}
	zone, err := time.LoadLocation(l.Zone)
	if err != nil { // that of a saved limit is known
		return w
	}
	form := "on 2 January"
	if l.Calendar == calendar.Day {
		form = "at 15:04"
	}
	w.Forecast = "At this rate full " + full.In(zone).Format(form) + " (" + zone.String() + ")"
	return w
}

// SecondsLeft returns the seconds that the page's script counts down, with milliseconds.
func SecondsLeft(d time.Duration) string {
	return strconv.FormatFloat(max(d, 0).Seconds(), 'f', 3, 64)
}

// Badges returns a badge for each condition of a key. A key without a condition, or with
// only an override, also gets the badge active.
func Badges(s app.Subject) []templates.Badge {
	if s.Status != policy.Active {
		return []templates.Badge{{Text: string(s.Status), Level: "off", State: string(s.Status)}}
	}
	all := append(lifeBadges(s), limitBadges(s)...)
	if len(all) == 0 || all[0].State == "overridden" {
		all = append([]templates.Badge{{Text: "active", Level: "free"}}, all...)
	}
	return all
}

// lifeBadges returns the badges for a ban and the expiry.
func lifeBadges(s app.Subject) []templates.Badge {
	var all []templates.Badge
	if s.Is(app.Banned) {
		all = append(all, templates.Badge{
			Text: "banned", Level: "full", Detail: "until " + page.Instant(s.Banned).Text,
			State: "banned",
		})
	}
	switch {
	case s.Expires.IsZero():
	case !s.Expires.After(s.At):
		all = append(all, templates.Badge{
			Text: "expired", Level: "off", Detail: page.Instant(s.Expires).Text, State: "expiring",
		})
	case s.Expires.Sub(s.At) < app.ExpiresSoon:
		all = append(all, templates.Badge{
			Text: "expires", Level: "near", Detail: "in " + page.Span(s.Expires.Sub(s.At)), State: "expiring",
		})
	}
	return all
}

// limitBadges returns the badges for the use of limits and an override.
func limitBadges(s app.Subject) []templates.Badge {
	var all []templates.Badge
	if len(s.Deniers) > 0 {
		all = append(all, blockedBadge(s.Deniers[0], s.At))
	} else if s.Is(app.Near) {
		all = append(all, templates.Badge{Text: "near a limit", Level: "near", State: "near"})
	}
	if s.Is(app.Shadow) {
		text := "shadow"
		if len(s.Effective.Limits) == 0 {
			text = "no limits"
		}
		all = append(all, templates.Badge{Text: text, Level: "off", State: "shadow"})
	}
	if s.Override != nil {
		all = append(all, overrideBadge("override", s.Override, s.At))
	}
	if s.Effective.Source == "group" {
		b := overrideBadge("group override", s.Effective.Override, s.At)
		b.State = "" // no list has such keys
		all = append(all, b)
	}
	return all
}

// blockedBadge is the badge of a caller some or all of whose calls a limit denies now.
func blockedBadge(by app.Denier, at time.Time) templates.Badge {
	b := templates.Badge{Text: "denied now", Level: "full", State: "blocked"}
	if by.Part != "" {
		b.Text = "denied now " + page.Clip(by.Part, page.MaxName)
	}
	if !by.Until.IsZero() {
		b.Detail = "next call in " + page.Span(by.Until.Sub(at))
	}
	return b
}

// CallerBadges returns the badge of a caller without a record: what denies its calls now.
func CallerBadges(denied []app.Denier, at time.Time) []templates.Badge {
	if len(denied) == 0 {
		return []templates.Badge{{Text: "active", Level: "free"}}
	}
	b := blockedBadge(denied[0], at)
	b.Detail = page.Clip(denied[0].Limit, page.MaxName) + ", " + b.Detail
	return []templates.Badge{b}
}

func overrideBadge(text string, o *policy.Override, at time.Time) templates.Badge {
	b := templates.Badge{Text: text, Level: "tag", State: "overridden"}
	switch {
	case !o.ActiveAt(at):
		b.Text = "override ended"
		b.Detail = page.Instant(o.Until).Text
	case !o.Until.IsZero():
		b.Detail = "for " + page.Span(o.Until.Sub(at)) + " more"
	}
	return b
}

// Override describes an override without its reason. No override means the plan's limits.
func Override(o *policy.Override) string {
	if o == nil {
		return "the plan's"
	}
	words := cmp.Or(policydoc.LimitsText(o.Limits), "no limits")
	if !o.Until.IsZero() {
		words += ", until " + page.Instant(o.Until).Text
	}
	return words
}

// PlanOptions returns an option for each plan, whose value is its name.
func PlanOptions(set *policy.Set) []templates.Option {
	var options []templates.Option
	for _, p := range set.Plans {
		options = append(options, templates.Option{
			Value: p.Name,
			Text:  page.Clip(page.Clip(p.Name, page.MaxName)+": "+policydoc.LimitsText(p.Limits), MaxText),
		})
	}
	return options
}

// OrNone returns text, or "none" if text is empty.
func OrNone(text string) string {
	if text == "" {
		return "none"
	}
	return text
}
