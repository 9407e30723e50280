package main

import (
	"tidegate/infra/cost"
	"tidegate/internal/telemetry"
)

// alarmMetrics are what CloudWatch bills alarms for: each metric of an expression.
func (s *Stack) alarmMetrics() int {
	n := 0
	for _, a := range s.alarms {
		n += a.metrics()
	}
	return n
}

// cost is what there is to pay for.
func (s *Stack) cost() cost.Deployment {
	d := cost.Deployment{
		CheckMemory: s.props.Check.Memory, Secrets: s.secrets.count(), Alarms: s.alarmMetrics(), Dashboards: 1, Metrics: len(telemetry.Names()),
		Tracing: true,
	}
	if s.props.Store.Kind == Nodes {
		d.Nodes, d.NodeType = s.props.Store.Shards*(s.props.Store.Replicas+1), s.props.Store.NodeType
	}
	if s.props.WAF {
		d.WebACLRules = webACLRules
	}
	if check, admin := s.props.egress(); check || admin {
		d.NATGateways = s.props.NATGateways
	}
	return d
}
