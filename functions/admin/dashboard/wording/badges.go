package wording

import (
	"time"

	"tidegate/functions/admin/app"
	"tidegate/functions/admin/dashboard/page"
	"tidegate/internal/policy"
	"tidegate/web/templates"
)

// Badges says everything that is out of the ordinary about a key; one of which there is
// nothing to say is active.
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

func lifeBadges(s app.Subject) []templates.Badge {
	var all []templates.Badge
	if s.Is(app.Banned) {
		all = append(all, templates.Badge{
			Text: "banned", Level: "full", Detail: "until " + page.Instant(s.BannedUntil).Text,
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

func limitBadges(s app.Subject) []templates.Badge {
	var all []templates.Badge
	if s.Is(app.Blocked) {
		all = append(all, templates.Badge{
			Text: "blocked now", Level: "full", Detail: "unblocks in " + page.Span(s.Now.RetryAfter()),
			State: "blocked",
		})
	} else if s.Is(app.Near) {
		all = append(all, templates.Badge{Text: "near a limit", Level: "near", State: "near"})
	}
	if s.Is(app.Shadow) {
		all = append(all, templates.Badge{Text: string(s.Effective.Mode), Level: "off", State: "shadow"})
	}
	if s.Override != nil {
		all = append(all, overrideBadge(s.Override, s.At))
	}
	return all
}

func overrideBadge(o *policy.Override, at time.Time) templates.Badge {
	b := templates.Badge{Text: "override", Level: "tag", State: "overridden"}
	switch {
	case !o.ActiveAt(at):
		b.Text, b.Detail = "override ended", page.Instant(o.Until).Text
	case !o.Until.IsZero():
		b.Detail = "for " + page.Span(o.Until.Sub(at)) + " more"
	}
	return b
}
