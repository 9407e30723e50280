package main

import (
	"strings"
	"testing"

	"tidegate/docs"
)

// Every line of the page's tables has a word in each column. A line that lacks a column
// ends the program at its start.
func TestRowsOfThePage(t *testing.T) {
	if len(rows) != strings.Count(docs.Verify, "\n| `") || len(rows) < len(checks) {
		t.Errorf("%d rows, %d checks", len(rows), len(checks))
	}
	for _, r := range rows {
		for _, text := range []string{r.id, r.what, r.expected, r.advice} {
			if text == "" || strings.HasPrefix(text, "|") {
				t.Errorf("%+v", r)
			}
		}
	}
	got := readRows("| row | what |\n| `a` | b | c | d | `e\\|f` g | h |\n")
	if len(got) != 1 || got[0].id != "a" || got[0].what != "b" || got[0].expected != "`e|f` g" ||
		got[0].advice != "h" {
		t.Errorf("%+v", got)
	}
	defer func() {
		if recover() == nil {
			t.Error("a line of five columns is taken")
		}
	}()
	readRows("| `a` | b | c | d | e |\n")
}
