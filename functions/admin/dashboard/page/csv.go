package page

import (
	"encoding/csv"
	"net/http"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"
)

// Spreadsheets take a cell that begins with one of these for a formula, in their full and
// small widths too.
const formulaStarts = "=+-@\uff1d\uff0b\uff0d\uff20\ufe66\ufe62\ufe63\ufe6b"

// cellEnds may end a cell within a text, depending on the spreadsheet's separator. The
// file's own commas are safe, since a text with one is quoted.
const cellEnds = ";\t\r\n"

// plainCell keeps what people typed from being run as a formula by a spreadsheet. An
// apostrophe goes before each part that would begin one, whatever separates cells there.
func plainCell(text string) string {
	if !strings.ContainsAny(text, formulaStarts+"\t\r\n") {
		return text
	}
	var b strings.Builder
	if text != "" && strings.ContainsRune("\t\r\n", rune(text[0])) { // which some drop
		b.WriteByte('\'')
	}
	for text != "" {
		end := strings.IndexAny(text, cellEnds) + 1
		if end == 0 {
			end = len(text)
		}
		if startsFormula(text) {
			b.WriteByte('\'')
		}
		b.WriteString(text[:end])
		text = text[end:]
	}
	return b.String()
}

// startsFormula looks behind what a spreadsheet may trim or take for quotes.
func startsFormula(text string) bool {
	text = strings.TrimLeftFunc(text, func(c rune) bool {
		return c == '"' || c == '\ufeff' || !strings.ContainsRune(cellEnds, c) &&
			(unicode.IsSpace(c) || unicode.IsControl(c))
	})
	first, _ := utf8.DecodeRuneInString(text)
	return text != "" && strings.ContainsRune(formulaStarts, first)
}

// maxCSVBytes bounds a file: an answer of a function is held in memory, and may have
// 6 MB.
const maxCSVBytes = 4 << 20

// Bounds of a file that reads fill.
const (
	CSVRows = 500             // of each read that fills a file
	csvTime = 5 * time.Second // after which a file of such reads ends
)

// Table is a CSV file in the making.
type Table struct {
	*csv.Writer
	text    strings.Builder
	columns int
	began   time.Time
}

// NewTable begins a file with the names of its columns.
func NewTable(columns ...string) *Table {
	t := &Table{columns: len(columns), began: time.Now()}
	t.Writer = csv.NewWriter(&t.text)
	t.Row(columns...)
	return t
}

// Row appends a row, of cells that no spreadsheet takes for formulas.
func (t *Table) Row(cells ...string) {
	for i, c := range cells {
		cells[i] = plainCell(c)
	}
	_ = t.Write(cells) // a Builder takes everything
	t.Flush()
}

// Full reports whether the file may not grow.
func (t *Table) Full() bool { return t.text.Len() > maxCSVBytes }

// Ends reports whether no further read fills the file: it is full, or took too long.
func (t *Table) Ends() bool { return t.Full() || time.Since(t.began) > csvTime }

// Send answers with the file. next is the address of the rows that follow; empty when
// nothing is left out. Otherwise the last row says so.
func (t *Table) Send(w http.ResponseWriter, name, next string) {
	h := w.Header()
	h.Set("Content-Type", "text/csv; charset=utf-8; header=present")
	h.Set("Content-Disposition", `attachment; filename="`+name+`"`)
	if next != "" {
		h.Set("Link", "<"+next+`>; rel="next"`)
		last := make([]string, t.columns)
		last[0] = "More rows follow: " + next
		t.Row(last...)
	}
	w.WriteHeader(http.StatusOK)
	_, _ = w.Write([]byte(t.text.String())) // fails only when nobody listens any more
}

// Stamp writes an instant as RFC 3339 has it; nothing for a zero time.
func Stamp(t time.Time) string {
	if t.IsZero() {
		return ""
	}
	return t.UTC().Format(time.RFC3339)
}
