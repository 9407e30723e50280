package scale

import (
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"

	"tidegate/infra/cost"
)

// Rates are the rates in the tables of docs/scale.md, in checks a second.
var Rates = []float64{100, 1_000, 10_000, 100_000, 1_000_000}

// table formats rows of cells as Markdown. The first row is the head.
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

// Sizes returns the table of deployments for the rates.
func (a Assumptions) Sizes(rates []float64) string {
	rows := [][]string{{
		"checks a second", "shards (nodes)", "ECPUs a second", "busy environments",
		"concurrency quota to request",
		"serverless, USD a million", "nodes, USD a million", "nodes, USD a month",
	}}
	for _, rate := range rates {
		s := a.Size(rate)
		rows = append(rows, []string{
			thousands(rate), fmt.Sprintf("%d (%d)", s.Shards, s.Nodes), thousands(s.ECPUs),
			thousands(math.Ceil(s.Concurrency)), thousands(math.Ceil(s.Quota)),
			fmt.Sprintf("%.2f", s.Serverless), fmt.Sprintf("%.2f", s.NodeBased), thousands(s.NodesMonth),
		})
	}
	return table(rows)
}

// Comparison returns the table of the costs of the alternatives, in USD a million calls.
func (a Assumptions) Comparison(rates []float64) string {
	head := []string{"USD a million calls, at"}
	serverless, nodes := []string{"Tidegate, serverless cache"}, []string{"Tidegate, nodes"}
	for _, rate := range rates {
		s := a.Size(rate)
		head = append(head, thousands(rate)+"/s")
		serverless, nodes = append(serverless, fmt.Sprintf("%.2f", s.Serverless)),
			append(nodes, fmt.Sprintf("%.2f", s.NodeBased))
	}
	rows := [][]string{head, serverless, nodes}
	for _, other := range a.Alternatives() {
		row := []string{other.Name}
		for _, rate := range rates {
			row = append(row, fmt.Sprintf("%.2f", other.PerMillion(rate)))
		}
		rows = append(rows, row)
	}
	return table(rows)
}

// Promises returns a list of what each alternative promises and of its price's source.
func (a Assumptions) Promises() string {
	var b strings.Builder
	fmt.Fprintf(&b, "Prices of us-east-1 without free tiers, noted on %s.\n\n", cost.PricesNoted)
	for _, other := range a.Alternatives() {
		fmt.Fprintf(&b, "- **%s**: %s. Price: %s.\n", other.Name, other.Promise, other.Price)
	}
	return b.String()
}

// Inputs returns the table of the model's inputs.
func (a Assumptions) Inputs() string {
	return table([][]string{
		{"input", "value", "source"},
		{"server's time for a check, usage included", number(a.CheckMicros) + " µs", "measured, above"},
		{"server's time for a GET of 100 bytes, one ECPU", number(a.SimpleMicros) + " µs",
			"measured in the same run"},
		{"bytes of a key that has used its limit of 100", thousands(a.KeyBytes), "measured, above"},
		{"keys", thousands(a.Keys), "assumed"},
		{"maximum load of a shard's core", percent(a.Busy),
			"assumed: the rest is for bursts, a failover, and TLS, which was not measured"},
		{"speed of ElastiCache's cores", "as the core of the measurement", "assumed"},
		{"replicas of a shard", strconv.Itoa(a.Replicas), "chosen"},
		{"node", fmt.Sprintf("%s, %.2f GiB, of which %s hold data", a.NodeType, a.NodeBytes/(1<<30),
			percent(a.Full)),
			"aws.amazon.com/elasticache/pricing; a quarter is reserved by default"},
		{"ECPUs, milliseconds and log of a check",
			fmt.Sprintf("%d, %d ms, %d bytes", cost.ECPUsPerCheck, cost.BilledMilliseconds,
				cost.LogBytes+cost.MetricsLogBytes),
			"assumed, as in `infra/cost`: verify.md lists what a real account has to confirm"},
		{"maximum calls a second of one environment", number(a.PerEnvironment),
			"docs.aws.amazon.com/lambda/latest/dg/lambda-concurrency.html"},
		{"Envoy and its rate limit service together",
			fmt.Sprintf("%s calls a second a vCPU, %d GB each", thousands(envoyPerVCPU), envoyGigabytes),
			"assumed, load as above: their makers publish no figure"},
	})
}

// Checks returns the table of the servers' time for checks.
func (m *Measured) Checks() string {
	rows := [][]string{{
		"", "checks a second, servers and clients together", "server's time for a check, µs",
		"thereof in the script, µs", "checks a second and core",
		"busiest shard / even share",
	}}
	for _, row := range []struct{ title, name string }{
		{"1 shard, one limit", "one_limit.shards1"}, {"1 shard, two limits", "two_limits.shards1"},
		{"1 shard, one limit, usage recorded", "with_usage.shards1"},
		{"2 shards, one limit", "one_limit.shards2"}, {"3 shards, one limit", "one_limit.shards3"},
	} {
		v := func(name string) float64 { return m.Value(row.name + "." + name) }
		rows = append(rows, []string{
			row.title, thousands(v("rate")), number(v("cpu_us")), number(v("script_us")),
			thousands(v("per_core")), number(v("busiest_share")),
		})
	}
	return table(rows)
}

// Growth returns the table of the rate of checks by environments and shards.
func (m *Measured) Growth() string {
	rows := [][]string{{"environments"}}
	for shards := 1; shards <= 3; shards++ {
		rows[0] = append(rows[0], fmt.Sprintf("shards: %d; checks a second", shards),
			"p50, µs", "p99, µs", "busy cores: servers, clients")
	}
	for environments := 1; environments <= 64; environments *= 2 {
		row := []string{strconv.Itoa(environments)}
		for shards := 1; shards <= 3; shards++ {
			v := func(name string) float64 {
				return m.Value(fmt.Sprintf("growth.shards%d.environments%d.%s", shards, environments, name))
			}
			row = append(row, thousands(v("rate")), thousands(v("p50_us")), thousands(v("p99_us")),
				number(v("server_cores"))+", "+number(v("client_cores")))
		}
		rows = append(rows, row)
	}
	return table(rows)
}

// Memory returns the table of the memory of keys, and of the cost of an edit of the plan
// that all of them have.
func (m *Measured) Memory() string {
	rows := [][]string{{
		"keys", "bytes a key: record, lists, audit", "thereof audit",
		"added by its first call: count, usage", "edit of their plan, ms",
		"edit: bytes sent to the server", "edit: server's time, ms", "keys created a second",
	}}
	for _, n := range m.keyCounts() {
		memory := func(name string) string {
			return thousands(m.Value(fmt.Sprintf("memory.keys%d.%s", n, name)))
		}
		edit := func(name string) float64 { return m.Value(fmt.Sprintf("edit.keys%d.%s", n, name)) }
		rows = append(rows, []string{
			thousands(float64(n)), memory("registered_bytes"), memory("audit_bytes"), memory("called_bytes"),
			number(edit("ms")), thousands(edit("bytes")),
			number(edit("cpu_ms")), memory("made"),
		})
	}
	return table(rows)
}

// Sharing describes the capacity of a limit that all callers share.
func (m *Measured) Sharing() string {
	v := func(name string) float64 { return m.Value("global." + name) }
	return fmt.Sprintf("%s environments share a global limit of %s calls: of %s calls they allow %s. "+
		"With a limit that is never reached they make\n"+
		"%s checks a second, %s without a global limit. The shard that holds its counts spends %s µs on "+
		"each check of all callers, so\n"+
		"one global limit carries at most %s checks a second and core, whatever the number of shards.\n",
		thousands(v("environments")), thousands(v("limit")), thousands(v("attempts")),
		thousands(v("admitted")),
		thousands(v("rate")), thousands(v("rate_without")), number(v("hot_shard_us")),
		thousands(v("per_hot_core"))) + m.leasing()
}

// leasing describes the capacity of the same limit when leased; empty unless that was
// measured.
func (m *Measured) leasing() string {
	v := func(name string) float64 { return m.Value("global." + name) }
	if v("lease_ms") == 0 {
		return ""
	}
	return fmt.Sprintf("\nWith a lease of %s ms they allow %s calls, and with a limit that is never reached "+
		"they make %s checks a second. The busiest shard\n"+
		"spends %s µs on each check of all callers, the work for its own callers included: %s checks a "+
		"second and core.\n",
		thousands(v("lease_ms")), thousands(v("leased_admitted")), thousands(v("leased_rate")),
		number(v("leased_hot_shard_us")),
		thousands(v("leased_per_hot_core")))
}

// Document returns the generated parts of docs/scale.md: what was measured, the growth
// with environments and shards, and what the model computes.
func Document(m, growth *Measured) (measured, grown, computed string) {
	a := Default(m)
	measured = fmt.Sprintf("\n%s, %s: `./scripts/bench scale`.\n\n%s\n%s\nA full log of 100 calls takes %s "+
		"bytes more for a key.\n\n%s\n",
		m.Machine, m.Day, m.Checks(), m.Memory(),
		thousands(m.Value("memory.full_log_100.bytes")), m.Sharing())
	grown = fmt.Sprintf("\n%s, %s. A simple command took %s µs of server time; in the run below, %s µs."+
		"\n\n%s\n",
		growth.Machine, growth.Day, number(growth.Value("simple.cpu_us")), number(m.Value("simple.cpu_us")),
		growth.Growth())
	computed = "\n" + strings.Join([]string{a.Inputs(), a.Sizes(Rates), a.Comparison(Rates),
		a.Promises()}, "\n") + "\n"
	return measured, grown, computed
}

// thousands formats a number without a fraction, with commas between thousands.
func thousands(x float64) string {
	digits := strconv.FormatFloat(math.Round(x), 'f', 0, 64)
	var parts []string
	for len(digits) > 3 {
		parts = append(parts, digits[len(digits)-3:])
		digits = digits[:len(digits)-3]
	}
	parts = append(parts, digits)
	slices.Reverse(parts)
	return strings.Join(parts, ",")
}

// number formats a number with three significant digits.
func number(x float64) string { return strconv.FormatFloat(x, 'g', 3, 64) }

func percent(x float64) string { return fmt.Sprintf("%.0f %%", 100*x) }

// The size and the margins of the picture, in pixels.
const (
	pictureWidth, pictureHeight = 640, 340
	left, top, right, bottom    = 70, 20, 90, 50
)

const pictureStyle = `<style>
text { font: 13px system-ui, sans-serif; fill: #1f2328 }
.g { stroke: #d1d9e0 } .l { fill: none; stroke-width: 2 }
.s1 { stroke: #0969da } .s2 { stroke: #1a7f37 } .s3 { stroke: #bc4c00 }
@media (prefers-color-scheme: dark) {
text { fill: #e6edf3 } .g { stroke: #3d444d }
.s1 { stroke: #4493f8 } .s2 { stroke: #3fb950 } .s3 { stroke: #f0883e }
}
</style>
`

// Picture draws the rates of Growth as SVG: a line for each number of shards.
func (m *Measured) Picture() string {
	rate := func(shards, environments int) float64 {
		return m.Value(fmt.Sprintf("growth.shards%d.environments%d.rate", shards, environments))
	}
	const doublings, step = 6, 20_000.0 // 64 environments; a line of the grid
	most := step
	for shards := 1; shards <= 3; shards++ {
		for d := range doublings + 1 {
			most = max(most, math.Ceil(rate(shards, 1<<d)/step)*step)
		}
	}
	x := func(doubling int) float64 {
		return left + float64(pictureWidth-left-right)*float64(doubling)/doublings
	}
	y := func(rate float64) float64 {
		return pictureHeight - bottom - (pictureHeight-top-bottom)*rate/most
	}
	var b strings.Builder
	fmt.Fprintf(&b, `<svg xmlns="http://www.w3.org/2000/svg" width="%d" height="%d" viewBox="0 0 %d %d" `+
		`role="img" aria-label="Checks a second from 1 to 64 environments, on 1, 2 and 3 shards">`+"\n",
		pictureWidth, pictureHeight, pictureWidth, pictureHeight)
	b.WriteString(pictureStyle)
	for value := 0.0; value <= most; value += step {
		fmt.Fprintf(&b, `<line class="g" x1="%d" y1="%.1f" x2="%d" y2="%.1f"/>`+"\n", left, y(value),
			pictureWidth-right, y(value))
		fmt.Fprintf(&b, `<text x="%d" y="%.1f" text-anchor="end">%s</text>`+"\n", left-8, y(value)+4,
			thousands(value))
	}
	for d := range doublings + 1 {
		fmt.Fprintf(&b, `<text x="%.1f" y="%d" text-anchor="middle">%d</text>`+"\n", x(d),
			pictureHeight-bottom+20, 1<<d)
	}
	fmt.Fprintf(&b, `<text x="%.1f" y="%d" text-anchor="middle">environments</text>`+"\n", x(doublings/2),
		pictureHeight-8)
	for shards := 1; shards <= 3; shards++ {
		var points []string
		for d := range doublings + 1 {
			points = append(points, fmt.Sprintf("%.1f,%.1f", x(d), y(rate(shards, 1<<d))))
		}
		fmt.Fprintf(&b, `<polyline class="l s%d" points="%s"/>`+"\n", shards, strings.Join(points, " "))
		// The ends of the lines are close together, so the labels are in a legend, in
		// their order.
		at := top + 18*float64(shards)
		fmt.Fprintf(&b, `<line class="l s%d" x1="%d" y1="%.1f" x2="%d" y2="%.1f"/>`+"\n", shards,
			pictureWidth-right+12, at-4, pictureWidth-right+28, at-4)
		fmt.Fprintf(&b, `<text x="%d" y="%.1f">%d shard%s</text>`+"\n", pictureWidth-right+34, at, shards,
			map[bool]string{true: "", false: "s"}[shards == 1])
	}
	return b.String() + "</svg>\n"
}
