package scale_test

import (
	"math"
	"testing"

	"tidegate/infra/cost"
	"tidegate/infra/scale"
	"tidegate/internal/telemetry"
)

func assumptions() scale.Assumptions {
	return scale.Assumptions{
		CheckMicros: 10, Busy: .5, Keys: 1e6, KeyBytes: 2_000, Replicas: 1, NodeType: "cache.r7g.large",
		NodeBytes: 1e10, Full: .75, PerEnvironment: 10,
	}
}

// The sizes equal those computed by hand: a core does 100,000 checks a second and may be
// half busy, and 2 GB fit in one node.
func TestSize(t *testing.T) {
	const months = 730 * 3600 // seconds
	for _, c := range []struct {
		rate               float64
		shards, nodes      int
		ecpus, busy, quota float64
	}{
		{1, 1, 2, 6, .003, .1},
		{50_000, 1, 2, 300_000, 150, 5_000},
		{50_001, 2, 4, 300_006, 150.003, 5_000.1},
		{1_000_000, 20, 40, 6_000_000, 3_000, 100_000},
	} {
		s := assumptions().Size(c.rate)
		if s.Shards != c.shards || s.Nodes != c.nodes || !near(s.ECPUs, c.ecpus) ||
			!near(s.Concurrency, c.busy) || !near(s.Quota, c.quota) {
			t.Errorf("got %+v, want %+v", s, c)
		}
		millions := c.rate * months / 1e6
		// 2 GB × 730 h × .084 + 1 key + 2 secrets × .40 + 12 metrics × .30; .20 + 10⁶ ×
		// .003 s × .5 GB × .0000133334 + .25 GB × .50 + 6 × .0023
		if want := .3588001 + (2*730*.084+1.8+3.6)/millions; !near(s.Serverless, want) {
			t.Errorf("serverless at %g a second: %.6f USD a million, want %.6f", c.rate, s.Serverless, want)
		}
		if want := float64(c.nodes) * 730 * .1752; !near(s.NodesMonth, want) {
			t.Errorf("%d nodes: got %g USD a month, want %g", c.nodes, s.NodesMonth, want)
		}
		if want := .3450001 + (s.NodesMonth+1.8+3.6)/millions; !near(s.NodeBased, want) {
			t.Errorf("nodes at %g a second: %.6f USD a million, want %.6f", c.rate, s.NodeBased, want)
		}
	}
}

// Memory can need more shards than checks do.
func TestSizeByMemory(t *testing.T) {
	a := assumptions()
	a.Keys = 1e7 // 20 GB in nodes that hold 7.5
	if s := a.Size(100); s.Shards != 3 || !near(s.Gigabytes, 20) {
		t.Errorf("%+v, want 3 shards of 20 GB", s)
	}
}

// The costs equal those computed by hand: 1 call a second is 2.628 million a month.
func TestAlternatives(t *testing.T) {
	want := map[string]float64{
		"API Gateway usage plans":  0,
		"WAF, one rate-based rule": .60 + 6/2.628,
		// 2 vCPUs and 4 GB, and 2 nodes
		"Envoy with its rate limit service on Fargate": (730*(2*.03238+4*.00356) + 2*730*.1752) / 2.628,
	}
	for _, other := range assumptions().Alternatives() {
		if got := other.PerMillion(1); !near(got, want[other.Name]) {
			t.Errorf("%s: %.4f USD a million, want %.4f", other.Name, got, want[other.Name])
		}
	}
	// At 100,000 a second 40 vCPUs at half of 5,000 each.
	fleet := assumptions().Alternatives()[2].PerMillion(100_000)
	if want := (730*(40*.03238+80*.00356) + 4*730*.1752) / 262_800; !near(fleet, want) {
		t.Errorf("a fleet: %.4f USD a million, want %.4f", fleet, want)
	}
}

// The model's number of metrics is the number that the check function writes.
func TestMetricsAreCounted(t *testing.T) {
	a := assumptions()
	a.KeyBytes = 0
	names := float64(len(telemetry.Names()))
	// Storage, the key and the secrets cost 7.932 a month, and checks are too few to cost
	// anything.
	if got, want := a.Size(1e-6).Serverless*2.628e-6, 7.932+.30*names; !near(got, want) {
		t.Errorf("%.4f USD a month, want %.4f", got, want)
	}
}

// The assumed ECPUs of a check are the higher of two readings of AWS's documents: the
// server's time for a check relative to that for a simple command, or one ECPU for each
// 3 µs in the script.
func TestECPUsPerCheck(t *testing.T) {
	m, err := scale.Recorded()
	if err != nil {
		t.Fatal(err)
	}
	a := scale.Default(m)
	if want := math.Ceil(max(a.CheckMicros/a.SimpleMicros,
		m.Value("with_usage.shards1.script_us")/3)); cost.ECPUsPerCheck != want {
		t.Errorf("cost.ECPUsPerCheck is %d; the measurements of docs/scale.md make it %.0f",
			cost.ECPUsPerCheck, want)
	}
}

func near(a, b float64) bool { return math.Abs(a-b) <= 1e-6*max(1, math.Abs(b)) }
