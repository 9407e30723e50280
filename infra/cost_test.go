package main

import (
	"fmt"
	"maps"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"tidegate/infra/cost"
	"tidegate/internal/telemetry"
)

// billed returns a stack with the flags, without synthesis.
func billed(t *testing.T, flags map[string]string) *Stack {
	t.Helper()
	app, _, err := newApp(nil)
	if err != nil {
		t.Fatal(err)
	}
	return NewStack(app, propsOf(t, flags), placeholder)
}

// The bill has the numbers of billed resources in the template.
func TestBill(t *testing.T) {
	for name, c := range map[string]struct {
		flags map[string]string
		build func() (template, error)
	}{"dev": {nil, dev}, "prod": {everything, prod}} {
		t.Run(name, func(t *testing.T) {
			made := of(t, c.build)
			stack := billed(t, c.flags)
			watched, rules := 0, 0
			for _, a := range made.all("AWS::CloudWatch::Alarm") {
				if a.Properties["MetricName"] != nil {
					watched++
				}
				for _, query := range list(a.Properties["Metrics"]) {
					if properties(query.(map[string]any))["MetricStat"] != nil {
						watched++
					}
				}
			}
			for _, acl := range made.all("AWS::WAFv2::WebACL") {
				rules += len(list(acl.Properties["Rules"]))
			}
			nodes := 0
			for _, group := range made.all("AWS::ElastiCache::ReplicationGroup") {
				shards, _ := group.Properties["NumNodeGroups"].(float64)
				replicas, _ := group.Properties["ReplicasPerNodeGroup"].(float64)
				nodes += int(shards * (replicas + 1))
			}
			bill := stack.cost()
			equal(t, "metrics of alarms", bill.Alarms, watched)
			equal(t, "secrets", bill.Secrets, len(made.all("AWS::SecretsManager::Secret")))
			equal(t, "dashboards", bill.Dashboards, len(made.all("AWS::CloudWatch::Dashboard")))
			equal(t, "NAT gateways", bill.NATGateways, len(made.all("AWS::EC2::NatGateway")))
			equal(t, "rules", bill.WebACLRules, rules)
			equal(t, "nodes", bill.Nodes, nodes)
			metrics := len(made.all("AWS::Logs::MetricFilter"))
			if environment(t, made, "Check")["STAGE"] != nil {
				metrics += len(telemetry.Names())
			}
			equal(t, "metrics", bill.Metrics, metrics)
			equal(t, "tracing", bill.Tracing,
				ours(t, made, "Check").Properties.at("TracingConfig", "Mode") == "Active")
			equal(t, "crossings", bill.Crossings != "", len(made.all("AWS::Logs::SubscriptionFilter")) > 0)
			equal(t, "access log", bill.AccessLog, made.only(t, "AWS::ApiGatewayV2::Stage",
				"ExampleHttp").Properties["AccessLogSettings"] != nil)
		})
	}
}

// A dev stage costs at most 10 USD a month and 0.30 USD a million checks. The documents
// have the bill's figures.
func TestBillOfDev(t *testing.T) {
	stack := billed(t, nil)
	idle, perMillion := cost.Totals(stack.cost().Lines())
	if idle > 10 || perMillion > .30 {
		t.Errorf("got %.2f USD a month idle and %.2f a million checks, want at most 10 and 0.30",
			idle, perMillion)
	}
	rows := []string{fmt.Sprintf("| stage dev, as it is | %.2f | %.2f |", idle, perMillion)}
	for _, a := range stack.alternatives() {
		otherIdle, otherPerMillion := cost.Totals(a.Deployment.Lines())
		rows = append(rows, fmt.Sprintf(" | %+.2f | %+.2f |", otherIdle-idle, otherPerMillion-perMillion))
	}
	prodIdle, prodPerMillion := cost.Totals(billed(t, map[string]string{"stage": "prod"}).cost().Lines())
	rows = append(rows, fmt.Sprintf("| stage prod, as it is | %.2f | %.2f |", prodIdle, prodPerMillion),
		cost.PricesNoted)
	document := string(read(t, "../docs/deploy.md"))
	for _, row := range rows {
		if !strings.Contains(document, row) {
			t.Errorf("want %q in docs/deploy.md", row)
		}
	}
	if total := fmt.Sprintf(
		"$%.2f/month plus $%.2f per million checks",
		idle,
		perMillion,
	); !strings.Contains(
		string(read(t, "../README.md")),
		total,
	) {
		t.Errorf("want %q in README.md", total)
	}
}

// docs/operations.md has the cost of crossed limits and its assumption.
func TestBillOfCrossings(t *testing.T) {
	document := strings.ReplaceAll(string(read(t, "../docs/operations.md")), "\n", " ")
	texts := []string{fmt.Sprintf("%d,000 crossed limits a day", cost.CrossingsADay/1000)}
	without, _ := cost.Totals(billed(t, nil).cost().Lines())
	for target, name := range map[string]string{cost.EventBridge: "EventBridge", cost.SNS: "SNS"} {
		with, _ := cost.Totals(billed(t, map[string]string{"crossings": target}).cost().Lines())
		texts = append(texts, fmt.Sprintf("%.2f USD a month with %s", with-without, name))
	}
	for _, text := range texts {
		if !strings.Contains(document, text) {
			t.Errorf("want %q in docs/operations.md", text)
		}
	}
}

// The cost of an alternative in the bill equals that of a deployment with its flag.
func TestBillOfAlternatives(t *testing.T) {
	for _, flags := range []map[string]string{{}, {"stage": "prod", "example": "true", "tracing": "true"}} {
		for _, a := range billed(t, flags).alternatives() {
			name, value, _ := strings.Cut(a.Flag, "=")
			other := maps.Clone(flags)
			other[name] = value
			if diff := cmp.Diff(billed(t, other).cost(), a.Deployment); diff != "" {
				t.Errorf("%v with %s (-deployed +billed):\n%s", flags, a.Flag, diff)
			}
		}
	}
}
