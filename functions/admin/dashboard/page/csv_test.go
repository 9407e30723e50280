package page

import (
	"encoding/csv"
	"net/http/httptest"
	"strings"
	"testing"
)

// formulaIn is an independent reader: it splits a text at a separator, drops quotes and
// spaces around each cell, and returns the first that a spreadsheet would run.
func formulaIn(text, separator string) string {
	for line := range strings.FieldsFuncSeq(text, func(c rune) bool { return c == '\n' || c == '\r' }) {
		for cell := range strings.SplitSeq(line, separator) {
			cell = strings.TrimLeft(cell, "\" \u00a0\ufeff\v\t")
			for _, start := range []string{"=", "+", "-", "@", "\uff1d", "\uff0b", "\uff0d",
				"\uff20", "\ufe66"} {
				if strings.HasPrefix(cell, start) {
					return cell
				}
			}
		}
	}
	return ""
}

// No text becomes a formula in a spreadsheet, whichever character separates its cells.
func TestCellsAreNoFormulas(t *testing.T) {
	separators := []string{",", ";", "\t"}
	for _, start := range []string{"=", "+", "-", "@", "\uff1d", "\uff0b", "\uff0d", "\uff20", "\ufe66"} {
		for _, before := range []string{
			"", " ", "\"", "\u00a0", "\ufeff", "\v", "\t", "\r", "\n", "x;", "x; ", "x;\"", "x;;", "x\t",
			"x\t\t", "x\r", "x\n", "x\r\n", ";",
			"a;b;\"\" ", "x;\"\";", `x"";`,
		} {
			text := before + start + `cmd|' /C calc'!A0`
			file := NewTable("id", "name", "reason")
			file.Row("id", text, "the end")
			for _, separator := range separators {
				// A comma within quotes separates nothing, so a reader of commas is the
				// one of the library.
				if found := formulaIn(file.text.String(), separator); found != "" && separator != "," {
					t.Errorf("%q: with %q between cells %q is run, in %q", text, separator, found,
						file.text.String())
				}
			}
			rows, err := csv.NewReader(strings.NewReader(file.text.String())).ReadAll()
			if err != nil || len(rows) != 2 || len(rows[1]) != 3 || rows[1][2] != "the end" {
				t.Fatalf("%q: %q, %v", text, rows, err)
			}
			if found := formulaIn(rows[1][1], "\x00"); found != "" {
				t.Errorf("%q: %q is run, in %q", text, found, rows[1][1])
			}
			if got := strings.NewReplacer("'", "", "\r\n",
				"\n").Replace(rows[1][1]); got != strings.NewReplacer("'", "", "\r\n", "\n").Replace(text) {
				t.Errorf("%q became %q", text, rows[1][1])
			}
		}
	}
}

// Other texts stay as they are.
func TestPlainCellsStay(t *testing.T) {
	for _, text := range []string{
		"", "acme", "10 per 10 seconds, 5 per 1 minute", "a; b; c", "a-b", "user@example.com",
		`{"limits":[{"requests":1}],"x":-1}`, "1+1=2", "'quoted'",
	} {
		if got := plainCell(text); got != text {
			t.Errorf("%q became %q", text, got)
		}
	}
}

// A file that does not have all rows says so in its last one, as wide as the others.
func TestTableSaysWhatFollows(t *testing.T) {
	for _, next := range []string{"", "/keys.csv?after=x"} {
		file, w := NewTable("id", "name", "plan"), httptest.NewRecorder()
		file.Row("1", "acme", "free")
		file.Send(w, "keys.csv", next)
		rows, err := csv.NewReader(w.Body).ReadAll()
		if err != nil {
			t.Fatal(err)
		}
		link := w.Header().Get("Link")
		if next == "" {
			if len(rows) != 2 || link != "" {
				t.Errorf("a whole file has %q, link %q", rows, link)
			}
			continue
		}
		if len(rows) != 3 || rows[2][0] != "More rows follow: "+next || link != "<"+next+`>; rel="next"` {
			t.Errorf("%q, link %q", rows, link)
		}
	}
}
