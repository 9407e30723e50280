package main

import (
	"fmt"
	"os"
	"strings"
	"testing"
)

// price is a line of the table of costs: us-east-1's list prices of 2026-11-21 in USD.
type price struct {
	what string
	// idle is for a month without a call, and million for a million checks.
	idle, million float64
	arithmetic    string
	kind          int
}

// The kinds of lines.
const (
	inDev  = iota // part of a dev stage
	inProd        // part of a prod stage beside those
	option        // added by a setting
)

// Assumptions until they are measured on a real account.
const (
	hours       = 730.0
	checkECPUs  = 6.0
	checkMillis = 3.0
	logBytes    = 50.0
	metricBytes = 200.0
)

var prices = []price{
	{"serverless cache, up to 0.1 GB", .1 * hours * .084, checkECPUs * .0023,
		"0.1 GB × 730 hours × 0.084; 6 ECPUs × 0.0023", inDev},
	{"Lambda", 0, .2 + checkMillis/1000*.5*1e6*.0000133334,
		"0.20 a million requests; 3 ms × 0.5 GB × 0.0000133334 a GB-second", inDev},
	{"logs", 0, logBytes * 1e6 / 1e9 * .5, "50 bytes a check × 0.50 a GB", inDev},
	{"KMS key and two secrets", 1 + 2*.4, 0, "1.00 + 2 × 0.40", inDev},
	{"ten metrics of alarms", 10 * .1, 0, "10 × 0.10", inDev},
	{"each minute: the log of changes", hours * 60 * (.005/1000 + .2/1e6 + .1*.5*.0000133334), 0,
		"43,800 lists × 0.005 a thousand; as many calls of 0.1 s × 0.5 GB; not counted: objects, 0.023 a GB",
		inDev},
	{"`metrics=true`, and its alarms", 12*.3 + 6*.1, metricBytes * 1e6 / 1e9 * .5,
		"12 × 0.30 and 6 × 0.10; 200 bytes of log a check × 0.50 a GB", inProd},
	{"the alarm on `checkConcurrency`", .1, 0, "0.10", inProd},
	{"`tracing=true`", 0, .05 * 5, "5 % of the calls × 5.00 a million traces", option},
	{"each further GB in a serverless cache", hours * .084, 0,
		"730 hours × 0.084; a million keys are about 2 GB, and `maxStorageGB` is the bound", option},
	{"each NAT gateway", hours * (.045 + .005), 0, "730 hours × (0.045 + 0.005)", option},
	{"`internet=ipv6` instead", 0, 0, "an egress-only internet gateway has no price", option},
	{
		"`store=nodes`, each cache.r7g.large",
		hours * .1752,
		0,
		"730 hours × 0.1752; minus the serverless cache",
		option,
	},
	{
		"`store=url`",
		-(.1*hours*.084 + 4*.1),
		-checkECPUs * .0023,
		"no cache, and four alarms less; a secret of yours, 0.40",
		option,
	},
}

// The table of costs in docs/deploy.md is made of this list.
func TestCosts(t *testing.T) {
	const page, begin, end = "../docs/deploy.md", "| USD | a month idle |", "\n\nSome figures"
	var b strings.Builder
	b.WriteString("| USD | a month idle | a million checks | arithmetic |\n|---|---:|---:|---|\n")
	idle, million := 0.0, 0.0
	for kind, stage := range []string{"dev", "prod", ""} {
		for _, p := range prices {
			if p.kind != kind {
				continue
			}
			what, format := p.what, "| %s | %.2f | %.2f | %s |\n"
			if kind != inDev {
				what, format = "with "+p.what, "| %s | %+.2f | %+.2f | %s |\n"
			}
			if kind != option {
				idle, million = idle+p.idle, million+p.million
			}
			fmt.Fprintf(&b, format, what, p.idle, p.million, p.arithmetic)
		}
		if stage != "" {
			fmt.Fprintf(&b, "| **stage %s, as it is** | **%.2f** | **%.2f** | |\n", stage, idle, million)
		}
	}
	table := strings.TrimSpace(b.String())
	text := string(read(t, page))
	from := strings.Index(text, begin)
	to := strings.Index(text, end)
	if from < 0 || to < from {
		t.Fatalf("%s has no table of costs", page)
	}
	if text[from:to] == table {
		return
	}
	if !*update {
		t.Fatalf("go -C infra test . -run TestCosts -update accepts this table:\n%s", table)
	}
	if err := os.WriteFile(page, []byte(text[:from]+table+text[to:]), 0o600); err != nil {
		t.Fatal(err)
	}
}
