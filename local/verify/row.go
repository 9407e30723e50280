package main

import (
	"fmt"
	"strings"

	"tidegate/docs"
)

// row is one point that AWS does not document, or that an account may configure
// differently. docs/verify.md has its words, checks its probe and its check.
type row struct {
	id       string
	what     string // what is checked
	expected string
	advice   string // what to do after a difference
	probe    *probe // nil for a check by a person
	check    check
}

// rows is the whole table, in the order of the report.
var rows = readRows(docs.Verify)

// readRows reads the lines of the page's tables, which all have the same columns.
func readRows(page string) []row {
	var table []row
	for line := range strings.Lines(page) {
		if !strings.HasPrefix(line, "| `") {
			continue
		}
		cells := strings.Split(strings.ReplaceAll(strings.TrimSpace(line), `\|`, "\x00"), " | ")
		if len(cells) != 6 {
			panic(fmt.Sprintf("docs/verify.md: %d columns, want 6: %s", len(cells), line))
		}
		for i := range cells {
			cells[i] = strings.ReplaceAll(strings.Trim(cells[i], "| "), "\x00", "|")
		}
		id := strings.Trim(cells[0], "`")
		table = append(table, row{id, cells[1], cells[4], cells[5], checks[id].probe, checks[id].check})
	}
	return table
}

// byHand is the reason of rows without a probe.
const byHand = "by hand: docs/verify.md says how"

// judge checks a row with its probe's evidence.
func (r row) judge(seen map[*probe]evidence) outcome {
	if r.probe == nil {
		return skip(byHand)
	}
	e := seen[r.probe]
	if e.reason != "" {
		return skip(e.reason)
	}
	for _, a := range e.answers {
		if a.err != nil {
			return differ("no answer: " + a.err.Error())
		}
	}
	if len(e.answers) == 0 {
		return skip("no call was made")
	}
	return r.check(e)
}
