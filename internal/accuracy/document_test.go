package accuracy

import (
	"cmp"
	"flag"
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"tidegate/internal/testing/tier"
)

var update = flag.Bool("update", false, "rewrite the tables of docs/algorithms.md")

const (
	document   = "../../docs/algorithms.md"
	tableBegin = "<!-- accuracy:begin -->\n"
	tableEnd   = "<!-- accuracy:end -->"
)

// The tables in docs/algorithms.md equal the computed ones. -update rewrites them.
func TestAlgorithmsDocument(t *testing.T) {
	tier.Two(t, "measures the tables of the document")
	content, err := os.ReadFile(document)
	if err != nil {
		t.Fatal(err)
	}
	before, rest, hasBegin := strings.Cut(string(content), tableBegin)
	committed, after, hasEnd := strings.Cut(rest, tableEnd)
	if !hasBegin || !hasEnd {
		t.Fatalf("%s lacks the markers %s and %s", document, strings.TrimSpace(tableBegin), tableEnd)
	}
	computed := tables()
	stale := staleTable(committed, computed)
	if stale == "" {
		return
	}
	if !*update {
		t.Fatalf("%s is stale: run go generate ./internal/accuracy. Computed:\n%s", document, stale)
	}
	if err := os.WriteFile(document, []byte(before+tableBegin+strings.Join(computed, "")+tableEnd+after),
		0o644); err != nil {
		t.Fatal(err)
	}
}

// staleTable returns the first computed table that is not in the document. If all are,
// but the document has other text or another order, it returns all of them.
func staleTable(committed string, computed []string) string {
	for _, section := range computed {
		if !strings.Contains(committed, section) {
			return section
		}
	}
	if all := strings.Join(computed, ""); all != committed {
		return all
	}
	return ""
}

// tables returns each table under its heading.
func tables() []string {
	var sections []string
	section := func(heading string, rows [][]string) {
		var b strings.Builder
		b.WriteString("\n**" + heading + "\n\n")
		table(&b, rows)
		sections = append(sections, b.String())
	}
	for i, limit := range gridLimits {
		section("Limit "+thousands(limit)+
			" per minute**: false allow % / false denial % / admitted, % of the exact log's; "+
			"worst rolling window, over the limit", parallelTable(grid()[i]))
	}
	for i, limit := range gridLimits {
		section("Limit "+thousands(limit)+
			" per minute, each against its own history**: overfull % / withheld %; "+
			"largest unused part of the window when a call was withheld", ownTable(grid()[i]))
	}
	section("Retry-after**, all runs at 100 per minute: mean and largest error; "+
		"retries at that instant that are denied, and that are later than necessary",
		retryTable(grid()[1]))
	section("Coarse clocks**: boundary attack on 100 per minute; worst rolling window, over the limit",
		clockTable())
	section("A flood**: greedy callers for two minutes at 100 per minute; maximum of stored entries / "+
		"admitted, % of the exact log's", floodTable())
	return sections
}

// table writes rows of cells as Markdown. The first row is the head.
func table(b *strings.Builder, rows [][]string) {
	for i, row := range rows {
		b.WriteString("| " + strings.Join(row, " | ") + " |\n")
		if i == 0 {
			b.WriteString("|---|" + strings.Repeat("---:|", len(row)-1) + "\n")
		}
	}
}

// gridTable returns a row for each algorithm and a column for each traffic. The last
// column has the result of sum over all of an algorithm's outcomes.
func gridTable(results []Result, cell func(Result, Outcome) string, last string,
	sum func([]Outcome) string) [][]string {
	head := []string{""}
	for j, column := range gridTraffic {
		head = append(head, fmt.Sprintf("%s, %s min", column.title,
			thousands(results[j].Scenario.Traffic.Windows)))
	}
	rows := [][]string{append(head, last)}
	for c, a := range compared() {
		row := []string{a.Title}
		var outcomes []Outcome
		for _, r := range results {
			row = append(row, cell(r, r.Outcomes[c]))
			outcomes = append(outcomes, r.Outcomes[c])
		}
		rows = append(rows, append(row, sum(outcomes)))
	}
	return rows
}

func parallelTable(results []Result) [][]string {
	limit := results[0].Scenario.Limit
	return gridTable(results, func(r Result, o Outcome) string {
		return percent(o.FalseAllows, r.Calls) + " / " + percent(o.FalseDenials, r.Calls) + " / " +
			share(o.Admitted, r.Exact.Admitted)
	}, "worst", func(outcomes []Outcome) string {
		worst := slices.MaxFunc(outcomes, func(a, b Outcome) int { return cmp.Compare(a.Worst, b.Worst) })
		return over(worst.Worst, limit)
	})
}

func ownTable(results []Result) [][]string {
	limit := results[0].Scenario.Limit
	return gridTable(results, func(r Result, o Outcome) string {
		return percent(o.Overfull, r.Calls) + " / " + percent(o.Withheld, r.Calls)
	}, "largest unused", func(outcomes []Outcome) string {
		most := slices.MaxFunc(outcomes, func(a, b Outcome) int {
			return cmp.Compare(a.MostWithheld, b.MostWithheld)
		})
		return percent(most.MostWithheld, limit) + " %"
	})
}

func retryTable(results []Result) [][]string {
	rows := [][]string{{"", "mean error", "largest error", "retry denied", "later than necessary"}}
	for c, a := range compared() {
		var sum RetryError
		for _, r := range results {
			e := r.Outcomes[c].Retry
			sum.Samples, sum.Early, sum.Late = sum.Samples+e.Samples, sum.Early+e.Early, sum.Late+e.Late
			sum.Total, sum.Most = sum.Total+e.Total, max(sum.Most, e.Most)
		}
		row := []string{a.Title, "no retry-after", "", "", ""}
		if sum.Samples > 0 {
			early, late := percent(sum.Early, sum.Samples), percent(sum.Late, sum.Samples)
			row = []string{a.Title, seconds(sum.Mean()), seconds(sum.Most),
				early + " %", late + " %"}
		}
		rows = append(rows, row)
	}
	return rows
}

var coarseClocks = []time.Duration{time.Microsecond, time.Millisecond, 10 * time.Millisecond, time.Second}

func clockTable() [][]string {
	rows := [][]string{{""}}
	for _, c := range compared() {
		rows = append(rows, []string{c.Title})
	}
	for _, clock := range coarseClocks {
		rows[0] = append(rows[0], clock.String())
		for c, o := range boundaryWithClock(clock).Outcomes {
			rows[c+1] = append(rows[c+1], over(o.Worst, 100))
		}
	}
	return rows
}

func floodTable() [][]string {
	rates := []int64{1000, 10_000, 100_000}
	rows := [][]string{{""}}
	for _, rate := range rates {
		rows[0] = append(rows[0], thousands(rate/100)+"×")
		exact, outcomes := flood(rate)
		for i, o := range outcomes {
			if len(rows) == i+1 {
				rows = append(rows, []string{o.Title})
			}
			rows[i+1] = append(rows[i+1], thousands(o.stored)+" / "+share(o.Admitted, exact))
		}
	}
	return rows
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

// share formats part of whole in percent with one decimal. It returns 100 without a
// decimal if they are equal.
func share(part, whole int64) string {
	if part == whole {
		return "100"
	}
	return decimal((1000*part + whole/2) / whole)
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
