package form

import (
	"net/url"
	"strconv"
	"strings"
	"time"

	"tidegate/functions/admin/dashboard/page"
	"tidegate/functions/admin/policydoc"
	"tidegate/web/templates"
)

// Until holds a typed expiry: a duration from now, or an instant. A typed instant takes
// precedence over the choice.
type Until struct {
	Choice Input // untilNever, UntilAt, the value of one of untilSpans, or an instant of RFC 3339
	At     Input
	shown  time.Time // the instant that the form showed at first; zero for none
}

const (
	untilNever = "never"
	// UntilAt is the choice of an instant.
	UntilAt = "at"
	// UntilForm is the layout of an instant: the value of a datetime-local field, in UTC.
	UntilForm = "2006-01-02T15:04"

	maxYear = 2200 // last year of an expiry
)

// untilSpans are the durations that the form offers.
var untilSpans = []struct {
	value, text string
	span        time.Duration
}{
	{"1h", "in 1 hour", time.Hour},
	{"4h", "in 4 hours", 4 * time.Hour},
	{"1d", "in 1 day", 24 * time.Hour},
	{"7d", "in 7 days", 7 * 24 * time.Hour},
	{"30d", "in 30 days", 30 * 24 * time.Hour},
	{"90d", "in 90 days", 90 * 24 * time.Hour},
	{"365d", "in 365 days", 365 * 24 * time.Hour},
}

// NewUntil returns the input that shows an expiry. The zero time means never.
func NewUntil(t time.Time) Until {
	if t.IsZero() {
		return Until{Choice: Input{Text: untilNever}}
	}
	t = t.UTC()
	return Until{Choice: Input{Text: UntilAt}, At: Input{Text: t.Format(UntilForm)}, shown: t}
}

// untilMoments are the times of day that the form offers, in UTC. A script offers them in
// the zone shown.
var untilMoments = []struct {
	text, moment string
	hour         int
	on           func(time.Weekday) bool
}{
	{"until midnight", "0", 0, func(time.Weekday) bool { return true }},
	{"until Friday 18:00", "18 5", 18, func(d time.Weekday) bool { return d == time.Friday }},
}

// untilOptions returns the options of an expiry, each with its instant. A chosen instant
// stays an option.
func untilOptions(never, chosen string, now time.Time) []templates.Option {
	now = now.UTC()
	options := []templates.Option{{Value: untilNever, Text: never}}
	for _, s := range untilSpans {
		options = append(options, templates.Option{Value: s.value, Text: s.text,
			At: toMinute(now.Add(s.span))})
	}
	for _, m := range untilMoments {
		at := now.Truncate(24 * time.Hour).Add(time.Duration(m.hour) * time.Hour)
		for !at.After(now) || !m.on(at.Weekday()) {
			at = at.Add(24 * time.Hour)
		}
		options = append(options, templates.Option{Value: at.Format(time.RFC3339), Text: m.text,
			At: toMinute(at), Moment: m.moment})
	}
	if t, err := time.Parse(time.RFC3339, chosen); err == nil && !IsOption(options, chosen) {
		options = append(options, templates.Option{Value: chosen, Text: "until", At: toMinute(t)})
	}
	return append(options, templates.Option{Value: UntilAt, Text: "Custom date…"})
}

// toMinute is page.Instant without seconds, for the width of a select.
func toMinute(t time.Time) templates.Instant {
	shown := page.Instant(t)
	shown.Text = t.UTC().Format(policydoc.ToMinute)
	return shown
}

// unchanged reports whether the typed instant is the one that the form showed at first.
func (u *Until) unchanged() bool {
	return !u.shown.IsZero() && u.At.Text == u.shown.Format(UntilForm)
}

// Time returns the typed expiry, or the zero time for never. It sets an error if the
// expiry is invalid. It must be after now unless it is unchanged.
func (u *Until) Time(now time.Time) time.Time {
	switch {
	case u.Choice.Text == UntilAt && u.unchanged():
		return u.shown
	case u.Choice.Text == UntilAt, strings.TrimSpace(u.At.Text) != "" && !u.unchanged():
		return u.instant(now)
	case u.Choice.Text == untilNever, u.Choice.Text == "":
		return time.Time{}
	}
	for _, s := range untilSpans {
		if s.value == u.Choice.Text {
			return now.UTC().Add(s.span).Truncate(time.Second)
		}
	}
	t, err := time.Parse(time.RFC3339, u.Choice.Text)
	if err != nil {
		u.Choice.Error = ChooseFromList
		return time.Time{}
	}
	u.Choice.Error = wrongInstant(t, now)
	return t.UTC()
}

// wrongInstant returns the error of an expiry; empty for a valid one.
func wrongInstant(t, now time.Time) string {
	switch {
	case !t.After(now):
		return "This time is in the past. Enter a future time."
	case t.Year() > maxYear:
		return "Enter a time before the year " + strconv.Itoa(maxYear+1) + "."
	}
	return ""
}

// End is Time for an end that cannot stay as it is once it has passed.
func (u *Until) End(now time.Time) time.Time {
	t := u.Time(now)
	if !t.IsZero() && u.ErrorCount() == 0 {
		u.At.Error = wrongInstant(t, now)
	}
	return t
}

// BanEnd returns the typed end of a ban. It sets an error for never.
func (u *Until) BanEnd(now time.Time) time.Time {
	t := u.Time(now)
	if t.IsZero() && u.ErrorCount() == 0 {
		u.Choice.Error = "Choose how long the ban lasts. To block permanently, revoke the key."
	}
	return t
}

// instant returns the typed instant. It sets an error if the instant is invalid.
func (u *Until) instant(now time.Time) time.Time {
	text := strings.TrimSpace(strings.TrimSuffix(strings.TrimSpace(u.At.Text), "UTC"))
	text = strings.Replace(text, " ", "T", 1)
	for _, layout := range []string{UntilForm, "2006-01-02T15:04:05", time.DateOnly} {
		if t, err := time.ParseInLocation(layout, text, time.UTC); err == nil {
			u.At.Error = wrongInstant(t, now)
			return t
		}
	}
	u.At.Error = "Enter a time such as " + now.UTC().Add(48*time.Hour).Format(policydoc.ToMinute) + "."
	return time.Time{}
}

// BanFields returns the fields for the end of a ban.
func BanFields(u Until) []templates.FormField {
	if u.Choice.Text == "" {
		u.Choice.Text = "1h"
	}
	return UntilFields(u, "Choose a duration")
}

// ErrorCount returns the number of errors.
func (u *Until) ErrorCount() int { return CountErrors(u.Choice, u.At) }

// Table returns a table that sets the errors at paths.
func (u *Until) Table(paths ...string) Table {
	var t Table
	for _, path := range paths {
		t = append(t, Entry{Name: "until", Input: &u.At, Path: path})
	}
	return t
}

// shownField is the hidden field with the instant that the form showed at first, to the
// second.
const shownField = "until-shown"

// ReadUntil reads the expiry that a browser sent.
func ReadUntil(values url.Values) Until {
	u := Until{Choice: Typed(values, "lasts", MaxInput), At: Typed(values, "until", MaxInput)}
	t, err := time.Parse(time.RFC3339, values.Get(shownField))
	if err == nil && t.Year() <= maxYear {
		u.shown = t.UTC()
	}
	return u
}

// UntilFields returns the fields for an expiry. never is the text of the option without
// an expiry.
func UntilFields(u Until, never string) []templates.FormField {
	at := templates.FormField{ID: "until", Label: "Custom date", Kind: templates.TimeField,
		Hint: "A date replaces the duration.", Field: Field(u.At)}
	if at.Field.Value = page.Clip(u.At.Text, MaxInput); !u.shown.IsZero() {
		at.Hidden = templates.Hidden{Name: shownField, Value: u.shown.Format(time.RFC3339)}
	}
	return []templates.FormField{ChoiceField("lasts", "Expires",
		untilOptions(never, u.Choice.Text, time.Now()), u.Choice), at}
}
