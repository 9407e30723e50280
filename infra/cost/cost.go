// Package cost computes what a deployment costs: a month without calls, and a million
// checks. Every line of the bill shows its arithmetic and the source of its list price.
package cost

import (
	"fmt"
)

// The assumptions about one check. Those marked "assumed" are not measured on a real
// account.
const (
	// ECPUsPerCheck is the number of ECPUs that a check takes. A simple command is one
	// ECPU, and more processor time counts in proportion. By ./scripts/bench scale a
	// check that records its usage takes 4.7 times the server's time of a GET (21.1 and
	// 4.5 µs), and 15.8 µs in the script. AWS's own estimator (agent-toolkit-for-aws,
	// serverless_estimator.py) counts 3 µs in a script as one ECPU. Assumed, since AWS
	// publishes no formula.
	ECPUsPerCheck = 6
	// BilledMilliseconds is the billed duration of a check: well under a millisecond in
	// the handler, one or two for the round trip to Valkey. Assumed.
	BilledMilliseconds = 3
	// LogBytes is the size of the occasional line of a denial, for each check. Lambda's
	// own lines are switched off. Assumed.
	LogBytes = 50
	// MetricsLogBytes is the size of the function's metrics lines, for each check.
	// Assumed.
	MetricsLogBytes = 200
	// accessLogBytes is the size of a line of an HTTP API's access log. Assumed.
	accessLogBytes = 400
	// CheckBytes is the size of a check's request and reply at the cache. With two zones
	// half of them cross to the other. Assumed.
	CheckBytes = 1000
	zoneShare  = .5
	// traced is the fraction of the calls that X-Ray records by default, beyond the first
	// of each second.
	traced = .05
	// valkeyMinimum is the minimum storage, in GB, that a serverless cache of Valkey is
	// billed for.
	valkeyMinimum = .1
)

const hoursPerMonth = 730

// Deployment has the billed parts of a deployment.
type Deployment struct {
	// Nodes is the number of ElastiCache nodes; 0 means a serverless cache.
	Nodes    int
	NodeType string
	// SyncWrites is true if nodes acknowledge a write only when a log has it, which costs
	// extra.
	SyncWrites bool

	CheckMemory         int // MB
	Secrets, Dashboards int
	Alarms              int  // metrics that alarms watch
	Metrics             int  // custom metrics that the functions write
	AccessLog           bool // of the HTTP API that the calls come through
	NATGateways         int
	WebACLRules         int // 0 means no web ACL
	Tracing             bool
	Journal             bool // every change is kept in a bucket
	// Crossings is the service that gets events of crossed limits; empty for none.
	Crossings string
}

// Line is one row of the table.
type Line struct {
	What       string
	Idle       float64 // USD a month
	PerMillion float64 // USD a million checks
	Arithmetic string
	Source     string
	// Unknown is true if this package does not know the price.
	Unknown bool
}

// Lines returns Tidegate's part of the bill, without API Gateway's price of the calls,
// which Calls returns.
func (d Deployment) Lines() []Line {
	lines := []Line{
		d.store(), requests(), d.duration(), logs("the function's log", LogBytes),
		monthly("KMS key", kmsKey, 1), monthly("secrets", secret, d.Secrets),
		monthly("metrics that alarms watch", alarm, d.Alarms),
	}
	lines = append(lines, d.observed()...)
	if d.Nodes == 0 {
		lines = append(lines, ecpus())
	}
	if d.SyncWrites {
		lines = append(lines, unknown("ElastiCache, synchronous writes",
			"no price of written data in this list"))
	}
	if d.NATGateways > 0 {
		lines = append(lines, hourly("NAT gateways, for OIDC or a JWKS by URL", natGateway, d.NATGateways),
			hourly("public addresses of the NAT gateways", publicAddress, d.NATGateways))
	}
	if d.WebACLRules > 0 {
		lines = append(lines, WebACL(d.WebACLRules)...)
	}
	if d.Journal {
		lines = append(lines, Journal()...)
	}
	if d.Crossings != "" {
		lines = append(lines, Crossings(d.Crossings)...)
	}
	return lines
}

// The services of Deployment.Crossings.
const (
	EventBridge = "eventbridge"
	SNS         = "sns"
)

// The assumptions about crossed limits. The forward function gets each in an invocation
// of its own.
const (
	CrossingsADay       = 1_000
	forwardMilliseconds = 50
	forwardMemory       = 128 // MB
)

// Crossings returns the lines for a month of crossed limits that the forward function
// sends to a service.
func Crossings(to string) []Line {
	const events = CrossingsADay * hoursPerMonth / 24.
	each := fmt.Sprintf("%d crossed limits a day", CrossingsADay)
	target := line("EventBridge, crossed limits", eventBridgeEvents, events/1e6, 0, each)
	if to == SNS {
		target = line("SNS, crossed limits", snsRequests, events/1e6, 0, each)
	}
	return []Line{
		line("Lambda, requests of the forward function", lambdaRequests, events/1e6, 0, each),
		line("Lambda, time of the forward function", lambdaDuration,
			events*forwardMilliseconds/1e3*forwardMemory/1024, 0,
			fmt.Sprintf("%s × %d ms × %d MB", each, forwardMilliseconds, forwardMemory)),
		target,
	}
}

// The assumptions about the journal. docs/operations.md measures the bytes.
const (
	ChangesADay = 1_000
	ChangeBytes = 950
)

// Journal returns the lines for a month of changes in S3: a PUT and a GET for each
// change, and a month of storage.
func Journal() []Line {
	const changes = ChangesADay * hoursPerMonth / 24.
	each := fmt.Sprintf("%d changes a day", ChangesADay)
	return []Line{
		line("S3, PUT requests of the journal", s3Put, changes/1e3, 0, each),
		line("S3, GET requests of the journal", s3Get, changes/1e3, 0, each),
		line("S3, storage of a month's changes", s3Storage, changes*ChangeBytes/1e9, 0,
			fmt.Sprintf("%s × %d bytes", each, ChangeBytes)),
	}
}

// observed returns the lines for records of the calls.
func (d Deployment) observed() []Line {
	var lines []Line
	if d.Dashboards > 0 {
		lines = append(lines, monthly("CloudWatch dashboard", dashboard, d.Dashboards))
	}
	if d.Metrics > 0 {
		lines = append(lines, monthly("metrics of the functions", customMetric, d.Metrics),
			logs("the metrics' lines", MetricsLogBytes))
	}
	if d.AccessLog {
		lines = append(lines, logs("the HTTP API's access log", accessLogBytes))
	}
	if d.Tracing {
		lines = append(lines, line("X-Ray traces", trace, 0, traced,
			fmt.Sprintf("%.0f%% of the calls", 100*traced)))
	}
	return lines
}

// Calls returns API Gateway's price of a million calls, which is the same without
// Tidegate.
func Calls() []Line {
	return []Line{
		line("a REST API's calls", restCalls, 0, 1, "1 call a check"),
		line("an HTTP API's calls", httpCalls, 0, 1, "1 call a check"),
	}
}

// Later returns what the totals leave out: it comes with time, or depends on where AWS runs
// function and cache.
func Later() []Line {
	const gigabytes = CheckBytes * zoneShare * 1e6 / 1e9
	return []Line{
		line("each of the KMS key's first two yearly rotations", kmsRotation, 1, 0, "1"),
		line("traffic between zones", zoneTraffic, 0, 2*gigabytes,
			fmt.Sprintf("2 directions × %s GB", decimal(gigabytes))),
	}
}

// Totals adds the lines up.
func Totals(lines []Line) (idle, perMillion float64) {
	for _, l := range lines {
		idle += l.Idle
		perMillion += l.PerMillion
	}
	return idle, perMillion
}

// line returns the line of one price: idle units a month without calls, and perMillion
// units for a million checks.
func line(what string, p Price, idle, perMillion float64, arithmetic string) Line {
	return Line{
		What: what, Idle: idle * p.USD, PerMillion: perMillion * p.USD, Source: p.Source,
		Arithmetic: fmt.Sprintf("%s × %s USD a %s", arithmetic, decimal(p.USD), p.Unit),
	}
}

func monthly(what string, p Price, n int) Line { return line(what, p, float64(n), 0, fmt.Sprint(n)) }

func hourly(what string, p Price, n int) Line {
	return line(what, p, float64(n)*hoursPerMonth, 0, fmt.Sprintf("%d × %d hours", n, hoursPerMonth))
}

func (d Deployment) store() Line {
	if d.Nodes == 0 {
		return line("ElastiCache serverless, storage", serverlessStorage, valkeyMinimum*hoursPerMonth, 0,
			fmt.Sprintf("%s GB × %d hours", decimal(valkeyMinimum), hoursPerMonth))
	}
	what := fmt.Sprintf("ElastiCache, %d × %s", d.Nodes, d.NodeType)
	usd, known := nodes[d.NodeType]
	if !known {
		return unknown(what, "no price of this node type in this list")
	}
	return hourly(what, Price{usd, "node-hour", elastiCache}, d.Nodes)
}

func unknown(what, why string) Line {
	return Line{What: what, Arithmetic: why, Source: elastiCache, Unknown: true}
}

func ecpus() Line {
	return line("ElastiCache serverless, ECPUs", serverlessECPU, 0, ECPUsPerCheck,
		fmt.Sprintf("%d ECPUs a check", ECPUsPerCheck))
}

func requests() Line {
	return line("Lambda requests", lambdaRequests, 0, 1, "1 request a check")
}

func (d Deployment) duration() Line {
	gigabytes := float64(d.CheckMemory) / 1024
	return line("Lambda duration", lambdaDuration, 0, 1e6*BilledMilliseconds/1e3*gigabytes,
		fmt.Sprintf("10⁶ × %d ms × %s GB", BilledMilliseconds, decimal(gigabytes)))
}

func logs(of string, bytes float64) Line {
	return line("CloudWatch Logs: "+of, logIngestion, 0, bytes*1e6/1e9,
		fmt.Sprintf("10⁶ × %.0f bytes", bytes))
}

// WebACL returns the cost of a web ACL with a number of rules.
func WebACL(rules int) []Line {
	return []Line{
		monthly("WAF web ACL", webACL, 1), monthly("WAF rules", webACLRule, rules),
		line("WAF requests", webACLRequests, 0, 1, "1 request a check"),
	}
}
