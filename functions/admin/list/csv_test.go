package list

import (
	"encoding/csv"
	"net/http/httptest"
	"strings"
	"testing"
)

// formulaIn splits a text at a separator, drops quotes and spaces before each cell, and
// returns the first cell that a spreadsheet would run; empty for none. It shares no code
// with plainCell.
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

type row struct {
	ID     string `json:"id"`
	Name   string `json:"name"`
	Reason string `json:"reason"`
}

// No text becomes a formula in a spreadsheet, for any separator of cells.
func TestCellsAreNoFormulas(t *testing.T) {
	separators := []string{",", ";", "\t"}
	for _, start := range []string{"=", "+", "-", "@", "\uff1d", "\uff0b", "\uff0d", "\uff20", "\ufe66"} {
		for _, before := range []string{
			"", " ", "\"", "\u00a0", "\ufeff", "\v", "\t", "\r", "\n", "x;", "x; ", "x;\"", "x;;", "x\t",
			"x\t\t", "x\r", "x\n", "x\r\n", ";",
			"a;b;\"\" ", "x;\"\";", `x"";`,
		} {
			text := before + start + `cmd|' /C calc'!A0`
			file := NewFile[row]()
			file.Row(row{"id", text, "the end"})
			for _, separator := range separators {
				// Commas within quotes do not separate cells: encoding/csv checks those
				// below.
				if found := formulaIn(file.text.String(), separator); found != "" && separator != "," {
					t.Errorf("%q: a spreadsheet with separator %q runs %q in %q", text, separator, found,
						file.text.String())
				}
			}
			rows, err := csv.NewReader(strings.NewReader(file.text.String())).ReadAll()
			if err != nil || len(rows) != 2 || len(rows[1]) != 3 || rows[1][2] != "the end" {
				t.Fatalf("%q: got rows %q, %v, want a row of 3 cells after the header", text, rows, err)
			}
			if found := formulaIn(rows[1][1], "\x00"); found != "" {
				t.Errorf("%q: a spreadsheet runs %q in %q", text, found, rows[1][1])
			}
			if got := strings.NewReplacer("'", "", "\r\n",
				"\n").Replace(rows[1][1]); got != strings.NewReplacer("'", "", "\r\n", "\n").Replace(text) {
				t.Errorf("got %q, want %q with apostrophes", rows[1][1], text)
			}
		}
	}
}

// Texts that are no formulas are unchanged.
func TestPlainCellsStay(t *testing.T) {
	for _, text := range []string{
		"", "acme", "10 per 10 seconds, 5 per 1 minute", "a; b; c", "a-b", "user@example.com",
		`{"limits":[{"requests":1}],"x":-1}`, "1+1=2", "'quoted'",
	} {
		if got := plainCell(text); got != text {
			t.Errorf("got %q, want %q", got, text)
		}
	}
}

// The last row of an incomplete file has the address of the remaining rows. It has as
// many columns as the others.
func TestTableLinksRemainingRows(t *testing.T) {
	for _, next := range []string{"", "/keys.csv?after=x"} {
		file, w := NewFile[row](), httptest.NewRecorder()
		file.Row(row{"1", "acme", "free"})
		file.Send(w, "keys.csv", next)
		rows, err := csv.NewReader(w.Body).ReadAll()
		if err != nil {
			t.Fatal(err)
		}
		link := w.Header().Get("Link")
		if next == "" {
			if len(rows) != 2 || link != "" {
				t.Errorf("complete file: got rows %q, link %q, want 2 rows and no link", rows, link)
			}
			continue
		}
		if len(rows) != 3 || rows[2][0] != "More rows follow: "+next || link != "<"+next+`>; rel="next"` {
			t.Errorf("incomplete file: got rows %q, link %q, want a third row and a link to %s",
				rows, link, next)
		}
	}
}
