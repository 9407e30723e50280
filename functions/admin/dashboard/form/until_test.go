package form

import (
	"net/url"
	"strings"
	"testing"
	"time"
)

// Each option of an expiry names the instant that it gives. A chosen instant stays one of
// the options. One in the past gets an error.
func TestUntil(t *testing.T) {
	at := func(text string) time.Time {
		parsed, err := time.Parse("2006-01-02 15:04", text)
		if err != nil {
			t.Fatal(err)
		}
		return parsed
	}
	for _, c := range []struct{ now, text, want string }{
		{"2026-11-25 17:59", "in 1 hour", "2026-11-25 18:59"},
		{"2026-11-25 17:59", "until midnight", "2026-11-26 00:00"},
		{"2026-11-25 00:00", "until midnight", "2026-11-26 00:00"},
		{"2026-11-25 17:59", "until Friday 18:00", "2026-11-27 18:00"},
		{"2026-11-27 17:59", "until Friday 18:00", "2026-11-27 18:00"},
		{"2026-11-27 18:00", "until Friday 18:00", "2026-12-04 18:00"},
		{"2026-12-31 20:00", "until midnight", "2027-01-01 00:00"},
	} {
		found := false
		for _, o := range untilOptions("never", "", at(c.now)) {
			if o.Text != c.text {
				continue
			}
			found = true
			u := ReadUntil(url.Values{"lasts": {o.Value}})
			if got := u.Time(at(c.now)); !got.Equal(at(c.want)) || u.ErrorCount() > 0 ||
				!strings.HasPrefix(o.At.Text, c.want) {
				t.Errorf("%s at %s: %s, shown as %s, want %s", c.text, c.now, got, o.At.Text, c.want)
			}
		}
		if !found {
			t.Errorf("no option is %s", c.text)
		}
	}
	const local = "2026-11-27T17:00:00Z" // Friday 18:00 in Berlin
	options := untilOptions("never", local, at("2026-11-25 12:00"))
	if o := options[len(options)-2]; o.Value != local || o.Text != "until" || o.Moment != "" {
		t.Errorf("the chosen instant is the option %+v", o)
	}
	for text, want := range map[string]string{
		"2026-11-25T11:59:59Z": "in the past", "2201-01-01T00:00:00Z": "before the year 2201",
		"2026-11-27T18:00": ChooseFromList,
	} {
		u := ReadUntil(url.Values{"lasts": {text}})
		if u.Time(at("2026-11-25 12:00")); !strings.Contains(u.Choice.Error, want) {
			t.Errorf("%s: the error is %q, want %q", text, u.Choice.Error, want)
		}
	}
}
