package command

import (
	"net/url"
	"strings"
	"testing"
	"time"
)

// Each option of an expiry names the instant that it gives. A chosen instant stays one of
// the options.
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
		for _, o := range timeOptions("never", "", at(c.now)) {
			if o.Text != c.text {
				continue
			}
			found = true
			got, err := typedTime(url.Values{"lasts": {o.Value}}, at(c.now))
			if !got.Equal(at(c.want)) || err != nil ||
				!strings.HasPrefix(o.At.Text, c.want) {
				t.Errorf("%s at %s: %s, shown as %s, want %s", c.text, c.now, got, o.At.Text, c.want)
			}
		}
		if !found {
			t.Errorf("no option is %s", c.text)
		}
	}
	const local = "2026-11-27T17:00:00Z" // Friday 18:00 in Berlin
	options := timeOptions("never", local, at("2026-11-25 12:00"))
	if o := options[len(options)-2]; o.Value != local || o.Text != "until" || o.Moment != "" {
		t.Errorf("the chosen instant is the option %+v", o)
	}
	if _, err := typedTime(url.Values{"lasts": {"2026-11-27T18:00"}}, at("2026-11-25 12:00")); err == nil {
		t.Error("a choice that is none is accepted")
	}
}
