package main

import (
	"testing"

	"tidegate/internal/telemetry"
)

// The bill is of what the template has.
func TestBill(t *testing.T) {
	for name, c := range map[string]struct {
		flags map[string]string
		build func() (template, error)
	}{"dev": {nil, dev}, "prod": {everything, prod}} {
		t.Run(name, func(t *testing.T) {
			made := of(t, c.build)
			app, _, err := newApp(c.flags)
			if err != nil {
				t.Fatal(err)
			}
			stack, err := synthesise(app, placeholder)
			if err != nil {
				t.Fatal(err)
			}
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
			equal(t, "metrics", bill.Metrics, len(telemetry.Names()))
		})
	}
}
