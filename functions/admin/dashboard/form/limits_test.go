package form

import (
	"net/url"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"tidegate/internal/limits"
	"tidegate/internal/policy"
)

// typedLimits returns the list that a browser sent.
func typedLimits(text string) Limits {
	l := Limits{Most: limits.MaxPlanLimits}
	table := Table{{Name: "limits", Limits: &l}}
	table.Read(url.Values{"limits": {text}})
	return l
}

// Limits that the page shows are read back unchanged, and each has a meaning.
func TestLimitsRoundTrip(t *testing.T) {
	var saved []limits.Limit
	for _, s := range limitSamples {
		l, problem := parseLimit(s.Text)
		if problem != "" {
			t.Errorf("the sample %q: %s", s.Text, problem)
		}
		saved = append(saved, l)
	}
	shown := Limits{Most: limits.MaxPlanLimits}
	shown.Set(saved)
	for _, line := range LimitsField("", shown).Lines {
		if line.Meaning == "" {
			t.Errorf("%s has no meaning", line.Text)
		}
	}
	read := typedLimits(strings.ReplaceAll(shown.Text, "\n", "\r\n") + "\r\n\r\n")
	for i, l := range read.List() {
		if !l.Equal(saved[i]) {
			t.Errorf("got %s, want %s", l, saved[i])
		}
	}
	if len(read.lines) != len(saved) || read.errorCount() > 0 {
		t.Errorf("got %+v of %d limits", read, len(saved))
	}
}

// Arbitrary text never makes the form panic or yields an invalid limit.
func TestFormRejectsInvalidLimits(t *testing.T) {
	words := rapid.SliceOfN(rapid.OneOf(rapid.String(), rapid.StringMatching(`[0-9., _+\-ex]{0,12}`),
		rapid.StringMatching(`[1-9][0-9]{0,4}`), rapid.SampledFrom([]string{" per ", "calls", "second", " days",
			"calendar month", "(Europe/Berlin)", ", counter", ", shadow", "\n", ", on a", ", each {b}",
			", denied calls count", ", notify at 80 %"})), 1, 8)
	rapid.Check(t, func(t *rapid.T) {
		l := typedLimits(strings.Join(words.Draw(t, "words"), ""))
		for i, limit := range l.List() {
			if errs := limit.Errors(); l.lines[i].problem == "" && len(errs) > 0 {
				t.Fatalf("line %q has no error, but is %v", l.lines[i].text, errs)
			}
		}
	})
}

// An error of a validation is shown at its line, also after blank ones; an error of the
// list is at the list.
func TestErrorAtItsLine(t *testing.T) {
	l := typedLimits("10 per minute\n\n50 per hour, on nowhere\n")
	table := Table{{Name: "limits", Limits: &l}}
	for field, want := range map[string]bool{
		"plans[0].limits[1].on": true, "plans[0].limits": true, "plans[0].limits[2].on": false,
		"plans[1].limits[1].on": false,
	} {
		unknown := policy.FieldError{Field: field, Message: "is unknown"}
		if got := table.SetError(unknown, "plans[0]."); got != want {
			t.Errorf("%s: got %t, want %t", field, got, want)
		}
	}
	f := LimitsField("", l)
	if f.Field.Error != "It is unknown." || f.Lines[1].Error != "On is unknown." || f.Lines[0].Error != "" ||
		table.ErrorCount() != 2 {
		t.Errorf("got %q, lines %+v, %d errors", f.Field.Error, f.Lines, table.ErrorCount())
	}
	long := typedLimits(strings.Repeat("10 per minute, shadow\n", 1000))
	if !strings.Contains(long.Error, "at most 8,000 characters") {
		t.Errorf("a longer text is cut: got %q", long.Error)
	}
	if wrong := typedLimits("10 per minute\n100 per fortnight"); wrong.errorCount() != 1 ||
		wrong.lines[1].problem == "" {
		t.Errorf("got %+v, want an error of the second line", wrong.lines)
	}
}
