package dashboard

import (
	"strings"
	"time"

	"tidegate/web/templates"
)

// untilInput is an end as it was typed: a span from now, or an instant.
type untilInput struct {
	choice input // "", "at", or a span
	at     input
}

const (
	untilNever = "never"
	untilAt    = "at"
	untilForm  = "2006-01-02 15:04"
)

// untilSpans are the spans that are offered.
var untilSpans = []struct {
	value, text string
	span        time.Duration
}{
	{"1h", "for 1 hour", time.Hour},
	{"4h", "for 4 hours", 4 * time.Hour},
	{"1d", "for 1 day", 24 * time.Hour},
	{"7d", "for 7 days", 7 * 24 * time.Hour},
	{"30d", "for 30 days", 30 * 24 * time.Hour},
	{"90d", "for 90 days", 90 * 24 * time.Hour},
	{"365d", "for 365 days", 365 * 24 * time.Hour},
}

func newUntil(t time.Time) untilInput {
	if t.IsZero() {
		return untilInput{choice: input{text: untilNever}}
	}
	return untilInput{choice: input{text: untilAt}, at: input{text: t.UTC().Format(untilForm)}}
}

func untilOptions(never string) []templates.Option {
	options := []templates.Option{{Value: untilNever, Text: never}}
	for _, s := range untilSpans {
		options = append(options, templates.Option{Value: s.value, Text: s.text})
	}
	return append(options, templates.Option{Value: untilAt, Text: "until the time beside this"})
}

// time returns the end, zero for none, and notes if it makes no sense. Ends lie after
// now.
func (u *untilInput) time(now time.Time) time.Time {
	switch u.choice.text {
	case untilNever, "":
		return time.Time{}
	case untilAt:
		return u.instant(now)
	}
	for _, s := range untilSpans {
		if s.value == u.choice.text {
			return now.UTC().Add(s.span).Truncate(time.Second)
		}
	}
	u.choice.wrong = chooseFromList
	return time.Time{}
}

func (u *untilInput) instant(now time.Time) time.Time {
	text := strings.TrimSpace(strings.TrimSuffix(strings.TrimSpace(strings.Replace(u.at.text, "T", " ", 1)), "UTC"))
	for _, layout := range []string{untilForm, "2006-01-02 15:04:05", time.DateOnly} {
		t, err := time.ParseInLocation(layout, text, time.UTC)
		switch {
		case err != nil:
			continue
		case !t.After(now):
			u.at.wrong = "This is past. Type a time that is to come."
		case t.Year() > 2200:
			u.at.wrong = "This is too far away."
		}
		return t
	}
	u.at.wrong = "Type a time in UTC such as " + now.UTC().Add(48*time.Hour).Format(untilForm) + "."
	return time.Time{}
}

func (u *untilInput) errors() int {
	n := 0
	for _, in := range []input{u.choice, u.at} {
		if in.wrong != "" {
			n++
		}
	}
	return n
}
