package command

import (
	"cmp"
	"net/url"
	"strings"
	"time"

	"tidegate/functions/admin/dashboard/form"
	"tidegate/functions/admin/dashboard/page"
	"tidegate/functions/admin/policydoc"
	"tidegate/web/templates"
)

// A form has two fields for a time: a choice, which has durations from now, and an instant
// in UTC, which takes precedence. A hidden field has the instant that the form showed at
// first, to the second, so that it can stay as it is.
const (
	choiceField  = "lasts"
	instantField = "until"
	shownField   = "until-shown"
)

// Choices beside durations and instants.
const (
	never    = "never"
	atChoice = "at" // of the instant that is typed
)

// spans are the durations that a form offers.
var spans = []struct {
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

// moments are the times of day that a form offers, in UTC. A script offers them in the zone
// shown.
var moments = []struct {
	text, moment string
	hour         int
	on           func(time.Weekday) bool
}{
	{"until midnight", "0", 0, func(time.Weekday) bool { return true }},
	{"until Friday 18:00", "18 5", 18, func(d time.Weekday) bool { return d == time.Friday }},
}

// timeOptions returns the choices, each with its instant. A chosen instant stays one.
func timeOptions(none, chosen string, now time.Time) []templates.Option {
	now = now.UTC()
	options := []templates.Option{{Value: never, Text: none}}
	for _, s := range spans {
		options = append(options, templates.Option{Value: s.value, Text: s.text,
			At: toMinute(now.Add(s.span))})
	}
	for _, m := range moments {
		at := now.Truncate(24 * time.Hour).Add(time.Duration(m.hour) * time.Hour)
		for !at.After(now) || !m.on(at.Weekday()) {
			at = at.Add(24 * time.Hour)
		}
		options = append(options, templates.Option{Value: at.Format(time.RFC3339), Text: m.text,
			At: toMinute(at), Moment: m.moment})
	}
	if t, err := time.Parse(time.RFC3339, chosen); err == nil && !form.IsOption(options, chosen) {
		options = append(options, templates.Option{Value: chosen, Text: "until", At: toMinute(t)})
	}
	return append(options, templates.Option{Value: atChoice, Text: "Custom date…"})
}

// toMinute is page.Instant without seconds, for the width of a select.
func toMinute(t time.Time) templates.Instant {
	shown := page.Instant(t)
	shown.Text = t.UTC().Format(policydoc.ToMinute)
	return shown
}

// readTime sets a time to the one that a form has, or to the zero time for never.
func (f field) readTime(v url.Values, to *time.Time) error {
	t, err := typedTime(v, time.Now())
	if missing := f.tag.Get("missing"); err == nil && t.IsZero() && missing != "" {
		err = wrong(missing)
	}
	*to = t
	return err
}

func typedTime(v url.Values, now time.Time) (time.Time, error) {
	choice, text := v.Get(choiceField), strings.TrimSpace(v.Get(instantField))
	shown, err := time.Parse(time.RFC3339, v.Get(shownField))
	unchanged := err == nil && text == shown.UTC().Format(form.UntilForm)
	switch {
	case choice == atChoice && unchanged:
		return shown.UTC(), nil
	case choice == atChoice, text != "" && !unchanged:
		return typedInstant(text, now)
	case choice == never, choice == "":
		return time.Time{}, nil
	}
	for _, s := range spans {
		if s.value == choice {
			return now.UTC().Add(s.span).Truncate(time.Second), nil
		}
	}
	t, err := time.Parse(time.RFC3339, choice)
	if err != nil {
		return time.Time{}, wrong(chooseFromList)
	}
	return t.UTC(), nil
}

func typedInstant(text string, now time.Time) (time.Time, error) {
	text = strings.Replace(strings.TrimSpace(strings.TrimSuffix(text, "UTC")), " ", "T", 1)
	for _, layout := range []string{form.UntilForm, "2006-01-02T15:04:05", time.DateOnly} {
		if t, err := time.ParseInLocation(layout, text, time.UTC); err == nil {
			return t, nil
		}
	}
	return time.Time{}, wrong("Enter a time such as " +
		now.UTC().Add(48*time.Hour).Format(policydoc.ToMinute) + ".")
}

// writeTime adds a time to a form. The zero time is never, or the first choice.
func (f field) writeTime(v url.Values, t time.Time) {
	if t.IsZero() {
		v.Set(choiceField, cmp.Or(f.tag.Get("begins"), never))
		return
	}
	t = t.UTC()
	v.Set(choiceField, atChoice)
	v.Set(instantField, t.Format(form.UntilForm))
	v.Set(shownField, t.Format(time.RFC3339))
}

// showTime returns the two fields. Only the second has the error.
func (f field) showTime(v url.Values, problem string) []templates.FormField {
	choice := cmp.Or(v.Get(choiceField), f.tag.Get("begins"))
	at := templates.FormField{ID: instantField, Label: "Custom date", Kind: templates.TimeField,
		Hint:  "A date replaces the duration.",
		Field: templates.Field{Value: page.Clip(v.Get(instantField), maxShown), Error: problem}}
	if shown := v.Get(shownField); shown != "" {
		at.Hidden = templates.Hidden{Name: shownField, Value: page.Clip(shown, maxShown)}
	}
	options := timeOptions(f.tag.Get("never"), choice, time.Now())
	return []templates.FormField{{ID: choiceField, Label: f.tag.Get("label"), Kind: templates.ChoiceField,
		Options: options, Field: templates.Field{Value: choice}}, at}
}
