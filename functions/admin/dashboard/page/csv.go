package page

import (
	"encoding/csv"
	"net/http"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"
)

// formulaStarts are the characters that begin a formula in a spreadsheet, including their
// full-width and small forms.
const formulaStarts = "=+-@\uff1d\uff0b\uff0d\uff20\ufe66\ufe62\ufe63\ufe6b"

// cellEnds are the characters that end a cell within a text in some spreadsheets. The
// comma is not among them, since the writer quotes a text with one.
const cellEnds = ";\t\r\n"

// plainCell keeps a spreadsheet from running untrusted text as a formula. It puts an
// apostrophe before each part that begins one, for any separator of the spreadsheet.
func plainCell(text string) string {
	if !strings.ContainsAny(text, formulaStarts+"\t\r\n") {
		return text
	}
	var b strings.Builder
	if text != "" && strings.ContainsRune("\t\r\n", rune(text[0])) { // some spreadsheets drop these
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

// startsFormula reports whether text begins a formula. It skips characters that a
// spreadsheet may trim or read as a quote.
func startsFormula(text string) bool {
	text = strings.TrimLeftFunc(text, func(c rune) bool {
		return c == '"' || c == '\ufeff' || !strings.ContainsRune(cellEnds, c) &&
			(unicode.IsSpace(c) || unicode.IsControl(c))
	})
	first, _ := utf8.DecodeRuneInString(text)
	return text != "" && strings.ContainsRune(formulaStarts, first)
}

// Bounds of a file. A Lambda function holds its response in memory and may send 6 MB of
// base64, which is 4.5 MB of text. The rows of the last read, up to CSVRows, come on top of
// maxCSVBytes.
const (
	CSVRows     = 100 // rows to read at a time
	maxCSVBytes = 2 << 20
	maxCSVTime  = 5 * time.Second // for reading rows
)

// Table is a CSV file that is being written.
type Table struct {
	*csv.Writer
	text    strings.Builder
	columns int
	began   time.Time
}

// NewTable returns a file with a header row.
func NewTable(columns ...string) *Table {
	t := &Table{columns: len(columns), began: time.Now()}
	t.Writer = csv.NewWriter(&t.text)
	t.Row(columns...)
	return t
}

// Row appends a row. It escapes cells that a spreadsheet would run as formulas.
func (t *Table) Row(cells ...string) {
	for i, c := range cells {
		cells[i] = plainCell(c)
	}
	_ = t.Write(cells) // a strings.Builder returns no error
	t.Flush()
}

// Full reports whether the file has reached its maximum size.
func (t *Table) Full() bool { return t.text.Len() > maxCSVBytes }

// Ends reports whether to stop reading rows: the file is full, or reading took too long.
func (t *Table) Ends() bool { return t.Full() || time.Since(t.began) > maxCSVTime }

// Send responds with the file. next is the address of the remaining rows, which Send adds
// as a last row and a Link header; empty if there are none.
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
	_, _ = w.Write([]byte(t.text.String())) // fails only after the client disconnected
}

// Stamp writes a time as RFC 3339, or an empty string for the zero time.
func Stamp(t time.Time) string {
	if t.IsZero() {
		return ""
	}
	return t.UTC().Format(time.RFC3339)
}
