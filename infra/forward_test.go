package main

import (
	"slices"
	"strings"
	"testing"

	"tidegate/infra/settings"
)

// The forward function gets both functions' log lines of crossed limits. It may only
// deliver events and log. Events that could not be delivered go to a queue.
func TestCrossings(t *testing.T) {
	made := of(t, prod)
	filters := made.all("AWS::Logs::SubscriptionFilter")
	equal(t, "filters", len(filters), 2)
	for _, f := range filters {
		equal(t, "pattern", text(f.Properties["FilterPattern"]), `{ $.event = "limit_crossed" }`)
	}
	equal(t, "without the flag", len(of(t, dev).all("AWS::Logs::SubscriptionFilter")), 0)
	var actions []string
	for id, statements := range made.statements() {
		if !strings.Contains(id, "ForwardRole") {
			continue
		}
		for _, s := range statements {
			for _, action := range list(s["Action"]) {
				actions = append(actions, text(action))
			}
			for _, resource := range list(s["Resource"]) {
				equal(t, "resource is named", resource != "*", true)
			}
		}
	}
	slices.Sort(actions)
	equal(t, "rights", actions, []string{"events:PutEvents", "logs:CreateLogStream", "logs:PutLogEvents",
		"sqs:SendMessage", "sts:AssumeRole"})
	function := made.only(t, "AWS::Lambda::Function", "Forward")
	equal(t, "network", function.Properties["VpcConfig"], nil)
	equal(t, "secrets", environment(t, made, "Forwarding")["KEY_PEPPER"], nil)
	equal(t, "failures", function.Properties.at("DeadLetterConfig", "TargetArn") != nil, true)
	queue := made.only(t, "AWS::SQS::Queue", "CrossingsFailed")
	equal(t, "kept", queue.Properties["MessageRetentionPeriod"], any(14*24*3600.))
	equal(t, "encrypted", queue.Properties["SqsManagedSseEnabled"], any(true))
}

// The topic is encrypted, and the forward function may publish only to it.
func TestCrossingsToSNS(t *testing.T) {
	props := with(settings.Default("dev"), func(p *settings.Props) { p.Crossings = settings.SNS })
	made := of(t, once(props))
	var topic resource
	for _, r := range made.all("AWS::SNS::Topic") {
		if strings.Contains(r.id, "Crossings") {
			topic = r
		}
	}
	equal(t, "key", topic.Properties["KmsMasterKeyId"] != nil, true)
	publishes := 0
	for id, statements := range made.statements() {
		for _, s := range statements {
			if strings.Contains(id, "ForwardRole") &&
				slices.Contains(list(s["Action"]), any("sns:Publish")) {
				publishes++
				equal(t, "to", s["Resource"], any(map[string]any{"Ref": topic.id}))
			}
		}
	}
	equal(t, "statements that let it publish", publishes, 1)
}
