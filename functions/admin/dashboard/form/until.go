package form

import (
	"net/url"
	"strings"
	"time"

	"tidegate/web/templates"
)

// Until is an end as it was typed: a span from now, or an instant.
type Until struct {
	Choice Input // "", "at", or a span
	At     Input
}

// UntilAt is the choice of an instant, which is written as UntilForm has it.
const (
	untilNever = "never"
	UntilAt    = "at"
	UntilForm  = "2006-01-02 15:04"
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

// NewUntil begins with an end; a zero time is none.
func NewUntil(t time.Time) Until {
	if t.IsZero() {
		return Until{Choice: Input{Text: untilNever}}
	}
	return Until{Choice: Input{Text: UntilAt}, At: Input{Text: t.UTC().Format(UntilForm)}}
}

func untilOptions(never string) []templates.Option {
	options := []templates.Option{{Value: untilNever, Text: never}}
	for _, s := range untilSpans {
		options = append(options, templates.Option{Value: s.value, Text: s.text})
	}
	return append(options, templates.Option{Value: UntilAt, Text: "Custom date…"})
}

// Time returns the end, zero for none, and notes if it makes no sense. Ends lie after
// now.
func (u *Until) Time(now time.Time) time.Time {
	switch u.Choice.Text {
	case untilNever, "":
		return time.Time{}
	case UntilAt:
		return u.instant(now)
	}
	for _, s := range untilSpans {
		if s.value == u.Choice.Text {
			return now.UTC().Add(s.span).Truncate(time.Second)
		}
	}
	u.Choice.Error = ChooseFromList
	return time.Time{}
}

func (u *Until) instant(now time.Time) time.Time {
	text := strings.TrimSpace(
		strings.TrimSuffix(strings.TrimSpace(strings.Replace(u.At.Text, "T", " ", 1)), "UTC"),
	)
	for _, layout := range []string{UntilForm, "2006-01-02 15:04:05", time.DateOnly} {
		t, err := time.ParseInLocation(layout, text, time.UTC)
		switch {
		case err != nil:
			continue
		case !t.After(now):
			u.At.Error = "This time is past. Enter a future time."
		case t.Year() > 2200:
			u.At.Error = "This is too far away."
		}
		return t
	}
	u.At.Error = "Enter a UTC time such as " + now.UTC().Add(48*time.Hour).Format(UntilForm) + "."
	return time.Time{}
}

// ErrorCount counts the fields that are wrong.
func (u *Until) ErrorCount() int {
	n := 0
	for _, in := range []Input{u.Choice, u.At} {
		if in.Error != "" {
			n++
		}
	}
	return n
}

// ReadUntil reads what a browser sent.
func ReadUntil(values url.Values) Until {
	return Until{Choice: Typed(values, "lasts", MaxInput), At: Typed(values, "until", MaxInput)}
}

// UntilFields ask for an end; never is the words for none.
func UntilFields(u Until, never string) []templates.FormField {
	at := TextField("until", "Time, UTC", "2026-12-31 18:00", MaxInput, u.At)
	return []templates.FormField{ChoiceField("lasts", "Expires", untilOptions(never), u.Choice), at}
}
