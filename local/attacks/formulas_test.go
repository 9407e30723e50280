//go:build unix

package attacks

import (
	"encoding/csv"
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"
)

// formulas are texts that a spreadsheet evaluates: at the start of a cell, or after a
// character that it takes for a separator.
var formulas = []string{
	"=1+1", "+1+1", "-1+1", "@SUM(1)", "\t=1+1", "\r=1+1", "=cmd|' /C calc'!A0", "x;=1+1", "x\t=1+1",
	"x,=1+1", "＝1+1", "＋1+1", "－1+1",
	"＠SUM(1)", " =1+1", "x\n=1+1", "x\";=1+1",
}

// cells parses a file as a spreadsheet with this separator does.
func cells(t *testing.T, text string, separator rune) []string {
	t.Helper()
	reader := csv.NewReader(strings.NewReader(text))
	reader.Comma, reader.LazyQuotes, reader.FieldsPerRecord = separator, true, -1
	records, err := reader.ReadAll()
	if err != nil {
		t.Fatal(err)
	}
	return slices.Concat(records...)
}

// No cell of an exported file is a formula, whichever separator the spreadsheet uses.
func TestAttackFormulas(t *testing.T) {
	a, i := attack(t, "formulas in exported files",
		"names, tags and reasons that begin as a formula, at the start of a cell and behind `;`, tab "+
			"and line break, ASCII and full-width, in `keys.csv` and `audit.csv`")
	header := i.page(t)
	stored := 0
	for _, formula := range formulas {
		a.probe()
		name, err := json.Marshal(formula)
		if err != nil {
			t.Fatal(err)
		}
		body := fmt.Sprintf(`{"name":%s,"plan":"wide","env":"formula","tags":[%s],"reason":%s}`,
			name, name, name)
		if got := i.site.send(t, http.MethodPost, "/api/v1/keys", body,
			header...); got.status == http.StatusCreated {
			stored++
		}
	}
	if stored < 8 {
		t.Fatalf("%d texts were stored, want at least 8 to test the files with", stored)
	}
	for _, file := range []string{"/keys.csv", "/audit.csv"} {
		got := i.site.get(t, file, header...)
		if got.status != http.StatusOK || !strings.Contains(got.body, "1+1") {
			t.Fatalf("%s: %d %.300s", file, got.status, got.body)
		}
		for _, separator := range ",;\t" {
			for _, cell := range cells(t, got.body, separator) {
				if start := strings.TrimLeft(cell, `"`); start != "" &&
					strings.ContainsAny(firstRune(start), "=+-@\t\r＝＋－＠") {
					t.Errorf("%s, separated by %q: a cell begins %.40q", file, separator, cell)
				}
			}
		}
	}
}

func firstRune(text string) string {
	for _, r := range text {
		return string(r)
	}
	return ""
}
