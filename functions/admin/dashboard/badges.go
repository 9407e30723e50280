package dashboard

import (
	"time"

	"tidegate/internal/limiter"
	"tidegate/internal/policy"
	"tidegate/web/templates"
)

// expiresSoon is how long before its end an expiry or an override is told of in the list.
const expiresSoon = 30 * 24 * time.Hour

// keyStates are what the list of keys can be narrowed to; each is the state of a badge.
var keyStates = []templates.Option{
	{Value: "", Text: "any state"},
	{Value: "overridden", Text: "overridden"},
	{Value: "blocked", Text: "blocked now"},
	{Value: "near", Text: "near a limit"},
	{Value: "shadow", Text: "in shadow, or off"},
	{Value: "banned", Text: "banned"},
	{Value: "expiring", Text: "expired, or expiring"},
	{Value: "revoked", Text: "revoked"},
	{Value: "unreadable", Text: "unreadable"},
}

func isKeyState(state string) bool {
	for _, o := range keyStates {
		if o.Value == state {
			return true
		}
	}
	return false
}

// subject is a key, what holds for it, and what a call of it would get now.
type subject struct {
	policy.Key
	effective policy.Effective
	now       limiter.Decision
	at        time.Time // of our clock, by which expiries are told
}

func newSubject(set *policy.Set, k policy.Key, now limiter.Decision, at time.Time) subject {
	e, _ := set.Effective(k, at)
	return subject{k, e, now, at}
}

// badges says everything that is out of the ordinary; a key of which there is nothing to say is active.
func (s subject) badges() []templates.Badge {
	if s.Status != policy.Active {
		return []templates.Badge{{Text: string(s.Status), Level: "off", State: string(s.Status)}}
	}
	all := append(s.lifeBadges(), s.limitBadges()...)
	if len(all) == 0 || all[0].State == "overridden" {
		all = append([]templates.Badge{{Text: "active", Level: "free"}}, all...)
	}
	return all
}

func (s subject) lifeBadges() []templates.Badge {
	var all []templates.Badge
	if s.Banned.After(s.at) {
		all = append(all, templates.Badge{Text: "banned", Level: "full", Detail: "until " + instant(s.Banned).Text, State: "banned"})
	}
	switch {
	case s.Expires.IsZero():
	case !s.Expires.After(s.at):
		all = append(all, templates.Badge{Text: "expired", Level: "off", Detail: instant(s.Expires).Text, State: "expiring"})
	case s.Expires.Sub(s.at) < expiresSoon:
		all = append(all, templates.Badge{Text: "expires", Level: "near", Detail: "in " + span(s.Expires.Sub(s.at)), State: "expiring"})
	}
	return all
}

func (s subject) limitBadges() []templates.Badge {
	var all []templates.Badge
	if len(s.now.Limits) > 0 && !s.now.Allowed && s.effective.Mode == policy.Enforce {
		all = append(all, templates.Badge{Text: "blocked now", Level: "full", Detail: "next call free in " + span(s.now.RetryAfter()), State: "blocked"})
	} else if s.near() {
		all = append(all, templates.Badge{Text: "near a limit", Level: "near", State: "near"})
	}
	if s.effective.Mode == policy.Shadow || s.effective.Mode == policy.Off {
		all = append(all, templates.Badge{Text: string(s.effective.Mode), Level: "off", State: "shadow"})
	}
	if s.Override != nil {
		all = append(all, overrideBadge(s.Override, s.at))
	}
	return all
}

func overrideBadge(o *policy.Override, at time.Time) templates.Badge {
	b := templates.Badge{Text: "override", Level: "tag", State: "overridden"}
	switch {
	case !o.ActiveAt(at):
		b.Text, b.Detail = "override ended", instant(o.Until).Text
	case !o.Until.IsZero():
		b.Detail = "for " + span(o.Until.Sub(at)) + " more"
	}
	return b
}

func (s subject) near() bool {
	for _, u := range s.now.Limits {
		if percent(u.Used(), u.Limit.Requests) >= nearShare {
			return true
		}
	}
	return false
}

// is reports whether the key is in a state; every key is in none.
func (s subject) is(state string) bool {
	if state == "" {
		return true
	}
	for _, b := range s.badges() {
		if b.State == state {
			return true
		}
	}
	return false
}
