package cost_test

import (
	"fmt"
	"math"
	"os"
	"slices"
	"strings"
	"testing"

	"tidegate/infra/cost"
)

func near(a, b float64) bool { return math.Abs(a-b) < .005 }

// The totals equal those computed by hand from the same prices.
func TestTotals(t *testing.T) {
	for name, c := range map[string]struct {
		deployment       cost.Deployment
		idle, perMillion float64
	}{
		// .1 GB × 730 h × .084 + 1 key + 2 secrets × .40; .20 + 10⁶ × .003 s × .5 GB ×
		// .0000133334 + .05 GB × .50 + 6 × .0023
		"serverless": {cost.Deployment{CheckMemory: 512, Secrets: 2}, 6.132 + 1 + .8,
			.20 + .02 + .025 + .0138},
		// 6 nodes × 730 h × .1752 + 1 key
		"nodes": {cost.Deployment{Nodes: 6, NodeType: "cache.r7g.large", CheckMemory: 512}, 767.376 + 1,
			.20 + .02 + .025},
		// a NAT gateway and its address, 730 h × (.045 + .005)
		"egress": {cost.Deployment{NATGateways: 1, CheckMemory: 512}, 6.132 + 1 + 36.5, .2588},
		// 10 alarms, 1 dashboard, 12 metrics and their .20 GB; a web ACL of 3 rules; an
		// access log of .40 GB; 5 % traced
		"all": {
			cost.Deployment{CheckMemory: 1024, Alarms: 10, Dashboards: 1, Metrics: 12, WebACLRules: 3,
				AccessLog: true, Tracing: true},
			6.132 + 1 + 1 + 3 + 3.6 + 5 + 3, .20 + .04 + .025 + .10 + .0138 + .60 + .20 + .25,
		},
		// 1,000 × 730 / 24 = 30,417 crossed limits: .20 and 1.00, or .50, a million, and
		// 50 ms of .125 GB each
		"eventbridge": {cost.Deployment{CheckMemory: 512, Crossings: cost.EventBridge},
			6.132 + 1 + .0061 + .0304 + .0025, .2588},
		"sns": {cost.Deployment{CheckMemory: 512, Crossings: cost.SNS},
			6.132 + 1 + .0061 + .0152 + .0025, .2588},
	} {
		t.Run(name, func(t *testing.T) {
			idle, perMillion := cost.Totals(c.deployment.Lines())
			if !near(idle, c.idle) || !near(perMillion, c.perMillion) {
				t.Errorf("idle %.3f, a million checks %.4f; want %.3f, %.4f", idle, perMillion,
					c.idle, c.perMillion)
			}
		})
	}
}

func TestPrint(t *testing.T) {
	var out strings.Builder
	if err := (cost.Deployment{Nodes: 2, NodeType: "cache.x9.huge", CheckMemory: 512, Secrets: 2}).Print(
		&out); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"2 × cache.x9.huge", "no price of this node type", "10⁶ × 3 ms × 0.5 GB",
		"0.80", "Tidegate", "an HTTP API's calls"} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("want %q in:\n%s", want, out.String())
		}
	}
}

// The row of an alternative, what it adds or saves, stands below the total. The lines
// above the total do not include it.
func TestPrintAlternatives(t *testing.T) {
	now := cost.Deployment{CheckMemory: 512, Dashboards: 1}
	traced, plain := now, now
	traced.Tracing, plain.Dashboards = true, 0
	var out strings.Builder
	alternatives := []cost.Alternative{{Flag: "tracing=true", Deployment: traced},
		{Flag: "cloudWatchDashboard=false", Deployment: plain}}
	if err := now.Print(&out, alternatives...); err != nil {
		t.Fatal(err)
	}
	var rows []string
	for row := range strings.Lines(out.String()) {
		rows = append(rows, strings.Join(strings.Fields(row), " "))
	}
	for _, want := range []string{"Tidegate 10.13 0.26", "with -c tracing=true +0.00 +0.25",
		"with -c cloudWatchDashboard=false -3.00 +0.00"} {
		if !slices.Contains(rows, want) {
			t.Errorf("want %q in:\n%s", want, out.String())
		}
	}
	if !strings.Contains(rows[0], "list prices noted 20") || strings.Contains(out.String(), "X-Ray") {
		t.Errorf("want the date of the prices and no line of X-Ray in:\n%s", out.String())
	}
}

// Every line says how it was computed and where its price is from.
func TestLinesExplainThemselves(t *testing.T) {
	everything := cost.Deployment{
		CheckMemory: 512,
		Secrets:     2,
		Alarms:      1,
		Dashboards:  1,
		Metrics:     1,
		NATGateways: 1,
		WebACLRules: 1,
		AccessLog:   true,
		Tracing:     true,
		Journal:     true,
	}
	for _, l := range slices.Concat(everything.Lines(), cost.Calls(), cost.Later()) {
		if l.Arithmetic == "" || !strings.HasPrefix(l.Source, "aws.amazon.com/") || l.Idle == 0 &&
			l.PerMillion == 0 {
			t.Errorf("got %+v, want an amount with its arithmetic and source", l)
		}
	}
}

// The journal adds, for 1,000 changes a day: 30,417 PUT at .005 and GET at .0004 a
// thousand, and 29 MB of storage. docs/operations.md has the same figures.
func TestJournal(t *testing.T) {
	with, _ := cost.Totals(cost.Deployment{Journal: true}.Lines())
	without, _ := cost.Totals(cost.Deployment{}.Lines())
	if got := fmt.Sprintf("%.4f", with-without); got != "0.1649" {
		t.Errorf("the journal adds %s USD a month, want 0.1649", got)
	}
	page, err := os.ReadFile("../../docs/operations.md")
	if err != nil {
		t.Fatal(err)
	}
	requests, _ := cost.Totals(cost.Journal()[:2])
	text := strings.Join(strings.Fields(string(page)), " ")
	for _, want := range []string{fmt.Sprintf("%.2f USD a month for requests", requests),
		fmt.Sprintf("about %d bytes", cost.ChangeBytes)} {
		if !strings.Contains(text, want) {
			t.Errorf("docs/operations.md lacks %q", want)
		}
	}
}

// docs/deploy.md has what comes on top of the totals: a month of the key after each of two
// rotations, and half of 1 GB a million checks to the other zone and back.
func TestLater(t *testing.T) {
	rotation, traffic := cost.Later()[0].Idle, cost.Later()[1].PerMillion
	page, err := os.ReadFile("../../docs/deploy.md")
	if err != nil {
		t.Fatal(err)
	}
	text := strings.Join(strings.Fields(string(page)), " ")
	for _, want := range []string{fmt.Sprintf("two yearly rotations, %.2f USD a month", rotation),
		fmt.Sprintf("traffic between zones, %.2f USD a million checks", traffic)} {
		if !strings.Contains(text, want) {
			t.Errorf("docs/deploy.md lacks %q", want)
		}
	}
	if fmt.Sprintf("%.2f %.2f", rotation, traffic) != "1.00 0.01" {
		t.Errorf("got %.2f and %.2f, want 1.00 and 0.01", rotation, traffic)
	}
}
