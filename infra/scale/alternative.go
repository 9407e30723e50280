package scale

import (
	"math"

	"tidegate/infra/cost"
)

// Alternative is another way to limit the same calls.
type Alternative struct {
	Name string
	// PerMillion is what it adds to the bill for a million calls at a rate all month, in
	// USD.
	PerMillion func(rate float64) float64
	Promise    string
	Price      string // what it is computed from
}

// Assumptions about an Envoy fleet. Its makers publish no figure; set your own.
const (
	envoyPerVCPU   = 5_000 // calls a second of Envoy and the rate limit service together on one vCPU. Assumed
	envoyGigabytes = 2     // of memory for each vCPU. Assumed
)

// Alternatives are the ways that people compare with, computed with the same assumptions.
func (a Assumptions) Alternatives() []Alternative {
	return []Alternative{
		{
			Name: "API Gateway usage plans", PerMillion: func(float64) float64 { return 0 },
			Promise: "best effort by AWS's own words; token bucket, no Retry-After; at most 10,000 keys a " +
				"region (November 2026)",
			Price: "part of the API's price",
		},
		{
			Name: "WAF, one rate-based rule", PerMillion: a.wafPerMillion,
			Promise: "an estimate; a user at a limit of 10 saw 159 calls pass in about a minute; " +
				"per address, header, cookie, JA3 or JA4 fingerprint, ASN, or several of them, not per " +
				"key's plan",
			Price: cost.WebACLSource,
		},
		{
			Name: "Envoy with its rate limit service on Fargate", PerMillion: a.envoyPerMillion,
			Promise: "fixed windows, up to twice the limit at their boundary; limits in YAML; it is also " +
				"the gateway, so API Gateway's own price " +
				"falls away; a load balancer before it is not counted",
			Price: cost.FargateSource + ", and as many nodes of Valkey as Tidegate",
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
