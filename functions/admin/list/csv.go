package list

import (
	"encoding"
	"encoding/csv"
	"encoding/json"
	"fmt"
	"net/http"
	"reflect"
	"slices"
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

// File is a CSV file that is being written. It has a column for each value that an item has
// as JSON; a value within another has the names of both.
type File[T any] struct {
	*csv.Writer
	text    strings.Builder
	columns []column
	began   time.Time
}

type column struct {
	name  string
	index []int
	omits [][]int // indexes of fields that JSON leaves out if they are zero
}

// NewFile returns a file with a header row.
func NewFile[T any]() *File[T] {
	f := &File[T]{columns: columnsOf(reflect.TypeFor[T](), column{}), began: time.Now()}
	f.Writer = csv.NewWriter(&f.text)
	header := make([]string, len(f.columns))
	for i, c := range f.columns {
		header[i] = c.name
	}
	f.write(header)
	return f
}

// columnsOf returns the columns of a type within another.
func columnsOf(t reflect.Type, in column) []column {
	var all []column
	for _, f := range reflect.VisibleFields(t) {
		name, options, _ := strings.Cut(f.Tag.Get("json"), ",")
		if name == "" || name == "-" {
			continue
		}
		c := column{in.name + name, slices.Concat(in.index, f.Index), in.omits}
		if strings.Contains(options, "omit") {
			c.omits = append(slices.Clone(in.omits), c.index)
		}
		within := f.Type
		if within.Kind() == reflect.Pointer {
			within = within.Elem()
		}
		if within.Kind() == reflect.Struct && !within.Implements(reflect.TypeFor[encoding.TextMarshaler]()) {
			c.name += "."
			all = append(all, columnsOf(within, c)...)
			continue
		}
		all = append(all, c)
	}
	return all
}

// Row appends an item. It escapes cells that a spreadsheet would run as formulas.
func (f *File[T]) Row(item T) {
	cells, row := make([]string, len(f.columns)), reflect.ValueOf(&item).Elem()
	omitted := func(index []int) bool {
		v, err := row.FieldByIndexErr(index)
		return err != nil || v.IsZero()
	}
	for i, c := range f.columns {
		if v, err := row.FieldByIndexErr(c.index); err == nil && !slices.ContainsFunc(c.omits, omitted) {
			cells[i] = cellOf(v)
		}
	}
	f.write(cells)
}

func (f *File[T]) write(cells []string) {
	for i, c := range cells {
		cells[i] = plainCell(c)
	}
	_ = f.Write(cells) // a strings.Builder returns no error
	f.Flush()
}

// cellOf returns a value as text. The parts of a list are joined by semicolons.
func cellOf(v reflect.Value) string {
	if v.IsZero() && v.Kind() != reflect.Int && v.Kind() != reflect.Int64 {
		return ""
	}
	switch {
	case v.Kind() == reflect.Pointer:
		return cellOf(v.Elem())
	case v.Kind() == reflect.Slice:
		parts := make([]string, v.Len())
		for i := range parts {
			parts[i] = cellOf(v.Index(i))
		}
		return strings.Join(parts, "; ")
	}
	switch is := v.Interface().(type) {
	case time.Time:
		return is.UTC().Format(time.RFC3339Nano)
	case encoding.TextMarshaler:
		text, _ := is.MarshalText() // the values of a domain have a text
		return string(text)
	case fmt.Stringer:
		return is.String()
	}
	if v.Kind() == reflect.Struct || v.Kind() == reflect.Map {
		text, _ := json.Marshal(v.Interface()) // every such value is encoded for the API, too
		return string(text)
	}
	return fmt.Sprint(v.Interface())
}

// Full reports whether the file has reached its maximum size.
func (f *File[T]) Full() bool { return f.text.Len() > maxCSVBytes }

// Ends reports whether to stop reading rows: the file is full, or reading took too long.
func (f *File[T]) Ends() bool { return f.Full() || time.Since(f.began) > maxCSVTime }

// Send responds with the file. next is the address of the remaining rows, which Send adds
// as a last row and a Link header; empty if there are none.
func (f *File[T]) Send(w http.ResponseWriter, name, next string) {
	h := w.Header()
	h.Set("Content-Type", "text/csv; charset=utf-8; header=present")
	h.Set("Content-Disposition", `attachment; filename="`+name+`"`)
	if next != "" {
		h.Set("Link", "<"+next+`>; rel="next"`)
		last := make([]string, len(f.columns))
		last[0] = "More rows follow: " + next
		f.write(last)
	}
	w.WriteHeader(http.StatusOK)
	_, _ = w.Write([]byte(f.text.String())) // fails only after the client disconnected
}
