package accuracy

import (
	"flag"
	"fmt"
	"os"
	"strconv"
	"strings"
	"testing"
	"time"

	"tidegate/internal/testing/tier"
)

var update = flag.Bool("update", false, "rewrite the table of docs/algorithms.md")

const (
	document   = "../../docs/algorithms.md"
	tableBegin = "<!-- accuracy:begin -->\n"
	tableEnd   = "<!-- accuracy:end -->"
)

// The table in docs/algorithms.md equals the computed one. -update rewrites it.
func TestAlgorithmsDocument(t *testing.T) {
	tier.Two(t, "measures the table of the document")
	content, err := os.ReadFile(document)
	if err != nil {
		t.Fatal(err)
	}
	before, rest, hasBegin := strings.Cut(string(content), tableBegin)
	committed, after, hasEnd := strings.Cut(rest, tableEnd)
	if !hasBegin || !hasEnd {
		t.Fatalf("%s lacks the markers %s and %s", document, strings.TrimSpace(tableBegin), tableEnd)
	}
	computed := "\n" + table(rows())
	if committed == computed {
		return
	}
	if !*update {
		t.Fatalf("%s is stale: run go generate ./internal/accuracy. Computed:\n%s", document, computed)
	}
	if err := os.WriteFile(document, []byte(before+tableBegin+computed+tableEnd+after), 0o644); err != nil {
		t.Fatal(err)
	}
}

// traffics are the columns of gridTraffic in the document, each with its title there.
var traffics = []int{0, 1, 2, 4, 5}

// documentLimit is the index in gridLimits of the limit whose decisions the document has.
const documentLimit = 1

// coarseClock is the resolution of the clock in the last but one column.
const coarseClock = 10 * time.Millisecond

// rows returns the table: for each algorithm the false allows and false denials of each
// traffic, its worst rolling windows, and the largest error of its retry-after.
func rows() [][]string {
	head := []string{""}
	for _, j := range traffics {
		head = append(head, gridTraffic[j].title)
	}
	for _, limit := range gridLimits {
		head = append(head, "worst, "+thousands(limit))
	}
	rows := [][]string{append(head, "worst, clock of "+coarseClock.String(), "retry-after")}
	coarse := boundaryWithClock(coarseClock)
	for c, a := range compared() {
		row := []string{a.Title}
		for _, j := range traffics {
			r := grid()[documentLimit][j]
			row = append(row, percent(r.Outcomes[c].FalseAllows, r.Calls)+" / "+
				percent(r.Outcomes[c].FalseDenials, r.Calls))
		}
		for i, limit := range gridLimits {
			worst := int64(0)
			for _, r := range grid()[i] {
				worst = max(worst, r.Outcomes[c].Worst)
			}
			row = append(row, over(worst, limit))
		}
		rows = append(rows, append(row, over(coarse.Outcomes[c].Worst, 100), largestRetryError(c)))
	}
	return rows
}

// largestRetryError returns the largest error of an algorithm's retry-after in all runs at
// the document's limit.
func largestRetryError(c int) string {
	samples, most := int64(0), time.Duration(0)
	for _, r := range grid()[documentLimit] {
		samples += r.Outcomes[c].Retry.Samples
		most = max(most, r.Outcomes[c].Retry.Most)
	}
	if samples == 0 {
		return "none"
	}
	return seconds(most)
}

// table returns rows of cells as Markdown. The first row is the head.
func table(rows [][]string) string {
	var b strings.Builder
	for i, row := range rows {
		b.WriteString("| " + strings.Join(row, " | ") + " |\n")
		if i == 0 {
			b.WriteString("|---|" + strings.Repeat("---:|", len(row)-1) + "\n")
		}
	}
	return b.String()
}

// percent formats part of whole in percent, with at most three digits. It returns 0 only
// for a part of 0.
func percent(part, whole int64) string {
	tenths := (1000*part + whole/2) / whole
	switch {
	case part == 0:
		return "0"
	case tenths == 0:
		return "<0.1"
	case tenths < 100:
		return decimal(tenths)
	default:
		return strconv.FormatInt((100*part+whole/2)/whole, 10)
	}
}

// over formats by how much a worst rolling window exceeds the limit, in percent of it.
func over(worst, limit int64) string {
	if worst <= limit {
		return "0"
	}
	if excess := percent(worst-limit, limit); excess != "<0.1" {
		return "+" + excess + " %"
	}
	return "< +0.1 %"
}

func decimal(tenths int64) string { return fmt.Sprintf("%d.%d", tenths/10, tenths%10) }

func seconds(d time.Duration) string {
	if d == 0 {
		return "0"
	}
	return decimal(int64((d+50*time.Millisecond)/(100*time.Millisecond))) + " s"
}

func thousands(n int64) string {
	if n < 1000 {
		return strconv.FormatInt(n, 10)
	}
	return fmt.Sprintf("%s,%03d", thousands(n/1000), n%1000)
}
