package main

import (
	"strings"
	"testing"

	"tidegate/docs"
)

// Every row of the page has a text in each column. readRows panics if a column is
// missing.
func TestRowsOfThePage(t *testing.T) {
	if len(rows) != strings.Count(docs.Verify, "\n| `") || len(rows) < len(checks) {
		t.Errorf("got %d rows, want one for each line of docs/verify.md and for each of %d checks",
			len(rows), len(checks))
	}
	for _, r := range rows {
		for _, text := range []string{r.id, r.what, r.expected, r.advice} {
			if text == "" || strings.HasPrefix(text, "|") {
				t.Errorf("got %+v, want a text in each column", r)
			}
		}
	}
	got := readRows("| row | what |\n| `a` | b | c | d | `e\\|f` g | h |\n")
	if len(got) != 1 || got[0].id != "a" || got[0].what != "b" || got[0].expected != "`e|f` g" ||
		got[0].advice != "h" {
		t.Errorf("got %+v, want the four cells", got)
	}
	defer func() {
		if recover() == nil {
			t.Error("got no panic for a line of five columns")
		}
	}()
	readRows("| `a` | b | c | d | e |\n")
}
