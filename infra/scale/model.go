// Package scale computes the size of a deployment for a rate of checks, and the cost of a
// million checks, from measurements and list prices. docs/scale.md holds its tables;
// ./scripts/bench model prints them for other rates.
package scale

//go:generate go test -run ^TestDocument$ -update .

import (
	"fmt"
	"math"

	"tidegate/infra/cost"
)

// Assumptions are the model's inputs other than prices.
type Assumptions struct {
	// CheckMicros is the server's processor time for a check, its record of usage
	// included, in µs. Measured.
	CheckMicros float64
	// SimpleMicros is the server's processor time for a GET of 100 bytes, which
	// ElastiCache bills as one ECPU, in µs. Measured.
	SimpleMicros float64
	// Busy is the fraction of a shard's core that checks may use. The rest is for bursts,
	// for a failover and for TLS, which was not measured. Assumed.
	Busy float64
	// Keys is the number of keys. KeyBytes is the maximum memory of one key with its
	// counts and usage, measured for a limit of 100.
	Keys, KeyBytes float64
	// Replicas of each shard.
	Replicas int
	NodeType string
	// NodeBytes is the memory of a node. Full is the fraction of it that data may use:
	// AWS reserves a quarter for replication and snapshots.
	NodeBytes, Full float64
	// PerEnvironment is the maximum of calls a second that Lambda sends one environment.
	PerEnvironment float64
}

// Default returns the assumptions of docs/scale.md.
func Default(m *Measured) Assumptions {
	counts := m.keyCounts()
	largest := fmt.Sprintf("memory.keys%d.", counts[len(counts)-1])
	return Assumptions{
		CheckMicros: m.Value("with_usage.shards1.cpu_us"), SimpleMicros: m.Value("simple.cpu_us"), Busy: .5,
		Keys: 1e6, KeyBytes: m.Value(largest+"registered_bytes") + m.Value(largest+"called_bytes") +
			m.Value("memory.full_log_100.bytes"),
		Replicas: 1, NodeType: "cache.r7g.large", NodeBytes: 13.07 * (1 << 30), Full: .75, PerEnvironment: 10,
	}
}

// Size is a deployment for a rate.
type Size struct {
	Rate float64 // checks a second
	// Shards of node-based ElastiCache. Nodes is Shards times (1 + Replicas).
	Shards, Nodes int
	// ECPUs a second of a serverless cache.
	ECPUs float64
	// Concurrency is the average number of busy environments of the check function.
	// Quota is the concurrency to request from AWS: it can be higher, since Lambda bounds
	// the calls a second of an environment.
	Concurrency, Quota float64
	Gigabytes          float64 // of all keys
	// Serverless and NodeBased are USD a million checks at this rate all month.
	// NodesMonth is the price of the nodes, in USD a month.
	Serverless, NodeBased, NodesMonth float64
}

const secondsPerMonth = 730 * 3600

// Size computes a deployment for a rate of checks a second.
func (a Assumptions) Size(rate float64) Size {
	s := Size{Rate: rate, Gigabytes: a.Keys * a.KeyBytes / 1e9}
	s.Shards = int(max(1, math.Ceil(rate*a.CheckMicros/1e6/a.Busy),
		math.Ceil(a.Keys*a.KeyBytes/(a.NodeBytes*a.Full))))
	s.Nodes = s.Shards * (1 + a.Replicas)
	s.ECPUs = rate * cost.ECPUsPerCheck
	s.Concurrency = rate * cost.BilledMilliseconds / 1e3
	s.Quota = max(s.Concurrency, rate/a.PerEnvironment)
	s.Serverless = perMillion(cost.Deployment{CheckMemory: checkMemory, Secrets: 2, Metrics: checkMetrics,
		StoredGB: s.Gigabytes}, rate)
	nodes := cost.Deployment{CheckMemory: checkMemory, Secrets: 2, Metrics: checkMetrics, Nodes: s.Nodes,
		NodeType: a.NodeType}
	s.NodeBased = perMillion(nodes, rate)
	s.NodesMonth = nodes.Lines()[0].Idle
	return s
}

// checkMemory is the check function's memory in MB, and checkMetrics the number of its
// custom metrics, in stage prod.
const (
	checkMemory  = 512
	checkMetrics = 12
)

// perMillion returns the cost of a million checks, with their share of the fixed monthly
// cost.
func perMillion(d cost.Deployment, rate float64) float64 {
	idle, each := cost.Totals(d.Lines())
	return each + spread(idle, rate)
}

// spread returns the share of a million calls in a monthly price.
func spread(month, rate float64) float64 { return month / (rate * secondsPerMonth / 1e6) }

// Alternative is another way to limit the same calls.
type Alternative struct {
	Name string
	// PerMillion returns the alternative's cost for a million calls, in USD, at a
	// constant rate of calls a second.
	PerMillion func(rate float64) float64
	Promise    string
	Price      string // source of the price
}

// Assumptions about a fleet of Envoys, whose makers publish no figures.
const (
	envoyPerVCPU   = 5_000 // calls a second of Envoy and the rate limit service together on one vCPU. Assumed
	envoyGigabytes = 2     // of memory for each vCPU. Assumed
)

// Alternatives returns what people compare Tidegate with. Their costs are computed with
// the same assumptions.
func (a Assumptions) Alternatives() []Alternative {
	return []Alternative{
		{
			Name: "API Gateway usage plans", PerMillion: func(float64) float64 { return 0 },
			Promise: "best effort, as AWS says; token bucket, no Retry-After; at most 10,000 keys a " +
				"region (November 2026)",
			Price: "part of the API's price",
		},
		{
			Name: "WAF, one rate-based rule", PerMillion: a.wafPerMillion,
			Promise: "an estimate: a user with a limit of 10 saw 159 calls pass in about a minute; " +
				"by address, header, cookie, JA3 or JA4 fingerprint, ASN, or several of them, not by " +
				"a key's plan",
			Price: cost.WebACLSource,
		},
		{
			Name: "Envoy with its rate limit service on Fargate", PerMillion: a.envoyPerMillion,
			Promise: "fixed windows, up to twice the limit at their boundary; limits in YAML; it is also " +
				"the gateway, so there is no price of API Gateway; a load balancer before it is not " +
				"included",
			Price: cost.FargateSource + ", and as many Valkey nodes as Tidegate",
		},
	}
}

func (Assumptions) wafPerMillion(rate float64) float64 {
	idle, each := cost.Totals(cost.WebACL(1))
	return each + spread(idle, rate)
}

func (a Assumptions) envoyPerMillion(rate float64) float64 {
	vcpus := max(2, math.Ceil(rate/envoyPerVCPU/a.Busy)) // two, so that one may fail
	fleet, _ := cost.Totals(cost.Fargate(vcpus, vcpus*envoyGigabytes))
	return spread(fleet+a.Size(rate).NodesMonth, rate)
}
