package main

import (
	"strconv"

	"tidegate/infra/cost"
	"tidegate/infra/settings"
	"tidegate/internal/telemetry"
)

// alarmMetrics is the number of metrics that CloudWatch bills for alarms: each metric of
// an expression.
func (s *Stack) alarmMetrics() int {
	n := 0
	for _, a := range s.listAlarms() {
		n += a.metrics()
	}
	return n
}

// cost returns what the deployment's bill includes.
func (s *Stack) cost() cost.Deployment {
	observe := s.props.Observe
	d := cost.Deployment{
		CheckMemory: s.props.Check.Memory, Secrets: s.secrets.count(), Alarms: s.alarmMetrics(),
		Tracing:   observe.Tracing,
		AccessLog: observe.AccessLogs && s.props.Example,
		Crossings: s.props.Crossings,
	}
	if observe.Metrics {
		d.Metrics = len(telemetry.Names())
	}
	if s.journal != nil {
		d.Journal = true
		d.Metrics++ // the journal's errors
	}
	if observe.Dashboard {
		d.Dashboards = 1
	}
	if s.props.Store.Kind == settings.Nodes {
		d.Nodes, d.NodeType = s.props.Store.Shards*(s.props.Store.Replicas+1), s.props.Store.NodeType
		d.SyncWrites = s.props.Store.Durability == settings.Sync
	}
	if s.props.WAF {
		d.WebACLRules = webACLRules
	}
	if check, admin := s.props.Egress(); check || admin {
		d.NATGateways = s.props.NATGateways
	}
	return d
}

// alternatives returns the same deployment with one flag of Observe inverted.
func (s *Stack) alternatives() []cost.Alternative {
	with := func(flag string, on bool, change func(*settings.Observe)) cost.Alternative {
		other := *s
		change(&other.props.Observe)
		return cost.Alternative{Flag: flag + "=" + strconv.FormatBool(!on), Deployment: other.cost()}
	}
	now := s.props.Observe
	all := []cost.Alternative{
		with("tracing", now.Tracing, func(o *settings.Observe) { o.Tracing = !o.Tracing }),
		with("metrics", now.Metrics, func(o *settings.Observe) {
			o.Metrics = !o.Metrics
			o.Dashboard = o.Metrics // its default
		}),
		with("accessLogs", now.AccessLogs, func(o *settings.Observe) { o.AccessLogs = !o.AccessLogs }),
	}
	if now.Metrics {
		all = append(all, with("cloudWatchDashboard", now.Dashboard, func(o *settings.Observe) {
			o.Dashboard = !o.Dashboard
		}))
	}
	return all
}
