package verify

import (
	_ "embed"
	"fmt"
	"io"
	"strings"
)

// table has the text of every row, in Markdown tables.
//
//go:embed rows.md
var table string

// row is one expectation: a point that AWS does not document, or that an account may
// configure differently. rows.md has its text. A person checks the rows hand-….
type row struct {
	id       string
	what     string // what is checked
	source   string // the page of AWS that documents it
	how      string // how verify or a person checks it
	expected string
	advice   string // what to do after a difference
}

// rows are all rows, in the order of the report.
var rows = readRows(table)

// readRows reads the rows from Markdown tables. It panics if a row does not have six
// columns.
func readRows(text string) []row {
	var all []row
	for line := range strings.Lines(text) {
		if !strings.HasPrefix(line, "| `") {
			continue
		}
		cells := strings.Split(strings.ReplaceAll(strings.TrimSpace(line), `\|`, "\x00"), " | ")
		if len(cells) != 6 {
			panic(fmt.Sprintf("rows.md: %d columns, want 6: %s", len(cells), line))
		}
		for i := range cells {
			cells[i] = strings.ReplaceAll(strings.Trim(cells[i], "| "), "\x00", "|")
		}
		all = append(all, row{strings.Trim(cells[0], "`"), cells[1], cells[2], cells[3], cells[4], cells[5]})
	}
	return all
}

// list prints every row.
func list(w io.Writer) {
	for _, r := range rows {
		_, _ = fmt.Fprintf(w, "%s: %s\n  AWS's word  %s\n  how         %s\n  expected    %s\n"+
			"  otherwise   %s\n\n", r.id, r.what, r.source, r.how, r.expected, r.advice)
	}
}
