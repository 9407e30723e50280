package verify

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"strings"
	"time"
	"unicode/utf8"
)

// report is the result of a run, in the form of its JSON.
type report struct {
	Began     time.Time `json:"began"`
	REST      string    `json:"rest,omitempty"`
	HTTP      string    `json:"http,omitempty"`
	Dashboard string    `json:"dashboard,omitempty"`
	Calls     int64     `json:"calls"`
	OK        int       `json:"ok"`
	Differs   int       `json:"differs"`
	Skipped   int       `json:"skipped"`
	Rows      []result  `json:"rows"`
}

// result is one row of a report.
type result struct {
	ID       string  `json:"id"`
	What     string  `json:"what"`
	Expected string  `json:"expected"`
	Seen     string  `json:"seen,omitempty"`
	Verdict  verdict `json:"verdict"`
	Reason   string  `json:"reason,omitempty"` // why the row is skipped
	Do       string  `json:"do,omitempty"`     // advice after a difference
}

func (r *report) add(row row, o outcome) {
	line := result{ID: row.id, What: row.what, Expected: row.expected, Verdict: o.verdict}
	switch o.verdict {
	case skipped:
		line.Reason = o.seen
		r.Skipped++
	case differs:
		line.Seen, line.Do = o.seen, row.advice
		r.Differs++
	default:
		line.Seen = o.seen
		r.OK++
	}
	r.Rows = append(r.Rows, line)
}

func (r *report) summary() string {
	return fmt.Sprintf("%d ok, %d differ, %d skipped; %d HTTP calls.", r.OK, r.Differs, r.Skipped, r.Calls)
}

// Widths of the table's columns on a terminal.
const (
	whatWidth     = 56
	expectedWidth = 44
	seenWidth     = 90
)

// print writes the table for a terminal. One line counts the rows that a person must
// check.
func (r *report) print(w io.Writer) {
	var b strings.Builder
	hand := 0
	for _, row := range r.Rows {
		if row.Reason == byHand {
			hand++
			continue
		}
		seen := row.Seen
		if row.Verdict == skipped {
			seen = row.Reason
		}
		fmt.Fprintf(&b, "%-8s %-22s %s %s %s\n", row.Verdict, row.ID, fit(row.What, whatWidth),
			fit(row.Expected, expectedWidth), strings.TrimSpace(fit(seen, seenWidth)))
		if row.Do != "" {
			fmt.Fprintf(&b, "         → %s\n", row.Do)
		}
	}
	fmt.Fprintf(&b, "%-8s %d rows %s\n", skipped, hand, byHand)
	_, _ = fmt.Fprintf(w, "\n%-8s %-22s %s %s %s\n%s\n%s\n", "VERDICT", "ROW", fit("WHAT", whatWidth),
		fit("EXPECTED", expectedWidth), "SEEN, OR WHY SKIPPED", b.String(), r.summary())
}

// fit pads or cuts a text to a width.
func fit(text string, width int) string {
	if n := utf8.RuneCountInString(text); n <= width {
		return text + strings.Repeat(" ", width-n)
	}
	return string([]rune(text)[:width-1]) + "…"
}

// write writes the report to the file of -json, without secrets.
func (r *report) write(file string, secrets []string) error {
	if file == "" {
		return nil
	}
	text, err := json.MarshalIndent(r, "", "  ")
	if err == nil {
		err = os.WriteFile(file, redact(append(text, '\n'), secrets), 0o644)
	}
	if err != nil {
		return fmt.Errorf("-json: %w", err)
	}
	return nil
}

// secrets returns the strings that no output may contain.
func (s *session) secrets() []string {
	var all []string
	for _, secret := range []string{s.key, s.token} {
		if secret != "" {
			all = append(all, secret)
		}
	}
	return all
}

func (s *session) redacted(w io.Writer) io.Writer { return &redactor{w, s.secrets()} }

// redactor removes the secrets from what it writes. Each Write must have whole lines.
type redactor struct {
	w       io.Writer
	secrets []string
}

func (r *redactor) Write(p []byte) (int, error) {
	if _, err := r.w.Write(redact(p, r.secrets)); err != nil {
		return 0, err
	}
	return len(p), nil
}

func redact(text []byte, secrets []string) []byte {
	for _, secret := range secrets {
		text = bytes.ReplaceAll(text, []byte(secret), []byte("[secret]"))
	}
	return text
}
