package templates

import (
	"strconv"
	"time"

	"github.com/a-h/templ"
)

// List is a page with the rows of a list.
type List struct {
	Page    Page
	Trail   []Choice
	Heading templ.Component // nil for the page's title
	Count   string          // how many there are; may be empty
	Lead    string
	Actions templ.Component // at the end of the heading; nil for none
	Range   *Range          // of the list's time; nil for none
	Search  string          // address that gets the form as a POST; empty for a GET of the list
	On      string          // name of the list at Search; empty for the keys
	Path    string          // address of the list
	Filters []Filter
	Hidden  []Hidden // parameters that the form keeps
	Chips   []Chip
	Clear   string      // address without a filter
	Problem string      // error of the filter; empty if it is valid
	Choices *KeyChoices // keys that a typed name matches; nil unless there are several
	Live    *Live       // nil for a page that is not refreshed
	Above   templ.Component
	Table   Table
	Empty   Empty
	Below   templ.Component
	Notes   []string // what the list leaves out
	First   string   // address of the first page; empty on it
	Next    string   // address of the next page; empty on the last
	Export  string   // address of the list as CSV; empty for none
	After   templ.Component
}

// Filter is a parameter of a list that a field of the form sets.
type Filter struct {
	Name, Label string
	Hint        string // what to type; may be empty
	Value       string
	Shown       string   // the value on its chip; empty for the text of its option, or the value
	Options     []Option // the known values; nil for a text
}

// Table has the columns and rows of a list.
type Table struct {
	ID      string
	Caption string // for screen readers
	Heads   []Head
	Rows    []Row
}

// Head is the head of a column.
type Head struct {
	Text  string
	Class string          // num, soft, narrow or wide: how its cells look, and where they show
	Sort  string          // address of the list in the order of the column; empty for none
	Order string          // the present order of the column: ascending or descending; may be empty
	Top   templ.Component // before the text; may be nil
}

// Row is a row of a table, with a cell for each head.
type Row struct {
	ID    string // may be empty
	Cells []templ.Component
	// Lines are cells of the last heads, of which the row has several below each other. The
	// last cell of a shorter line takes the rest.
	Lines [][]templ.Component
}

// lined reports whether rows have several lines.
func (t Table) lined() bool { return len(t.Rows) > 0 && t.Rows[0].Lines != nil }

// rest returns how many columns a cell of a row's line takes.
func (t Table) rest(row Row, line []templ.Component, i int) string {
	if i < len(line)-1 {
		return "1"
	}
	return strconv.Itoa(len(t.Heads) - len(row.Cells) - i)
}

const toSecond = "2006-01-02 15:04:05"

func secondOf(t time.Time) Instant {
	return Instant{Text: t.UTC().Format(toSecond) + " UTC", Machine: t.UTC().Format(time.RFC3339)}
}
