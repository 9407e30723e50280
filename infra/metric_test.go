package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"tidegate/internal/telemetry"
)

// written returns the metrics in a log line of the stage's check function, each as
// "namespace name dimensions".
func written(t *testing.T, stage string) []string {
	t.Helper()
	var line bytes.Buffer
	metrics, err := telemetry.NewMetrics(&line,
		telemetry.Options{Service: telemetry.CheckService, Stage: stage}, time.Now)
	if err != nil {
		t.Fatal(err)
	}
	metrics.Record(telemetry.Check{Store: time.Millisecond})
	if err := metrics.Flush(); err != nil {
		t.Fatal(err)
	}
	var values map[string]any
	var format struct {
		AWS struct {
			CloudWatchMetrics []struct {
				Namespace  string
				Dimensions [][]string
				Metrics    []struct{ Name string }
			}
		} `json:"_aws"`
	}
	for _, into := range []any{&values, &format} {
		if err := json.Unmarshal(line.Bytes(), into); err != nil {
			t.Fatal(err)
		}
	}
	var all []string
	for _, set := range format.AWS.CloudWatchMetrics {
		for _, dimensions := range set.Dimensions {
			var pairs []string
			for _, name := range dimensions {
				pairs = append(pairs, name+"="+fmt.Sprint(values[name]))
			}
			slices.Sort(pairs)
			for _, m := range set.Metrics {
				all = append(all, set.Namespace+" "+m.Name+" "+strings.Join(pairs, " "))
			}
		}
	}
	return all
}

// Alarms use only metrics that the check function writes.
func TestMetricsAreThoseOfTheFunction(t *testing.T) {
	on(t, func(t *testing.T, made template) {
		if strings.HasSuffix(t.Name(), "/dev") {
			return // TestDevHasNoMetrics
		}
		write := written(t, text(environment(t, made, "Check")["STAGE"]))
		watched := alarmed(made)
		if len(watched) < 4 {
			t.Errorf("got alarms on %q, want at least 4", watched)
		}
		for _, m := range watched {
			if !slices.Contains(write, m) {
				t.Errorf("got %s in an alarm, want metrics that the function writes", m)
			}
		}
	})
}

// A dev stage has no metrics of the functions, to save their cost: the function writes
// none, and no alarm uses them. There are alarms on AWS's own metrics.
func TestDevHasNoMetrics(t *testing.T) {
	made := of(t, dev)
	equal(t, "the function's stage", environment(t, made, "Check")["STAGE"], nil)
	equal(t, "what the dashboard shows", environment(t, made, "Admin")["STAGE"], "dev")
	equal(t, "alarms on metrics of the function", len(alarmed(made)), 0)
	made.only(t, "AWS::CloudWatch::Alarm", "AlarmCheckThrottles")
}

// alarmed returns the function's metrics that alarms watch, alone or in an expression.
func alarmed(made template) []string {
	var all []string
	add := func(m properties) {
		if m["Namespace"] != telemetry.Namespace {
			return
		}
		var pairs []string
		for _, dimension := range list(m["Dimensions"]) {
			pair, _ := dimension.(map[string]any)
			pairs = append(pairs, text(pair["Name"])+"="+text(pair["Value"]))
		}
		slices.Sort(pairs)
		all = append(all, text(m["Namespace"])+" "+text(m["MetricName"])+" "+strings.Join(pairs, " "))
	}
	for _, a := range made.all("AWS::CloudWatch::Alarm") {
		add(a.Properties)
		for _, query := range list(a.Properties["Metrics"]) {
			if m, ok := properties(query.(map[string]any)).at("MetricStat", "Metric").(map[string]any); ok {
				add(m)
			}
		}
	}
	return all
}

// The alarm on failures does not count REST API calls without a valid credential,
// although Lambda counts them as errors.
func TestRefusedCallsAreNoFailures(t *testing.T) {
	for _, build := range []func() (template, error){prod, minimal} {
		alarm := of(t, build).only(t, "AWS::CloudWatch::Alarm", "AlarmCheckErrors").Properties
		var watched, expressions []string
		for _, query := range list(alarm["Metrics"]) {
			q := properties(query.(map[string]any))
			watched = append(watched, text(q["Id"])+"="+text(q.at("MetricStat", "Metric", "MetricName")))
			if e := text(q["Expression"]); e != "" {
				expressions = append(expressions, e)
			}
		}
		for _, want := range []string{"failed=Errors", "calls=Invocations",
			"unauthorized=" + telemetry.Unauthorized.String()} {
			if !slices.Contains(watched, want) {
				t.Errorf("got %q, want %s among them", watched, want)
			}
		}
		equal(t, "expression", expressions, []string{"100 * (failed - FILL(unauthorized, 0)) / calls"})
	}
}

// docs/operations.md has every alarm.
func TestAlarmsAreDocumented(t *testing.T) {
	runbook := string(read(t, "../docs/operations.md"))
	for _, build := range []func() (template, error){dev, prod} {
		for _, a := range of(t, build).all("AWS::CloudWatch::Alarm") {
			name := text(a.Properties["AlarmName"])
			name = strings.TrimRight(name[strings.LastIndex(name, "-")+1:], "0123456789")
			if !strings.Contains(runbook, "`"+name+"`") {
				t.Errorf("want alarm %s in docs/operations.md", name)
			}
		}
	}
}
