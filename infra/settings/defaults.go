package settings

import "cmp"

// setDefaults sets the unset fields. Read has set those that are true by default.
func (p *Props) setDefaults() {
	p.Stage = cmp.Or(p.Stage, "dev")
	prod := p.Stage == "prod"
	p.CIDR = cmp.Or(p.CIDR, "10.42.0.0/22")
	p.CORSOrigin = cmp.Or(p.CORSOrigin, "*")
	p.LogDays = cmp.Or(p.LogDays, pick(prod, 180, 14))
	p.LogLevel = cmp.Or(p.LogLevel, "info")
	p.Login.User = cmp.Or(p.Login.User, "admin")
	p.NATGateways = cmp.Or(p.NATGateways, pick(p.Keep, 2, 1))
	s := &p.Store
	s.Kind = cmp.Or(s.Kind, Serverless)
	s.MaxStorageGB, s.MaxECPUs = cmp.Or(s.MaxStorageGB, 5), cmp.Or(s.MaxECPUs, 100_000)
	s.Version = cmp.Or(s.Version, s.defaultVersion())
	s.NodeType = cmp.Or(s.NodeType, pick(prod, "cache.r7g.large", "cache.t4g.small"))
	s.Shards, s.Replicas = cmp.Or(s.Shards, pick(prod, 2, 1)), cmp.Or(s.Replicas, 1)
	if p.Keep {
		s.SnapshotDays = cmp.Or(s.SnapshotDays, 7)
	}
	p.Check.Memory, p.Admin.Memory = cmp.Or(p.Check.Memory, 512), cmp.Or(p.Admin.Memory, 512)
	// A new account may have 10 environments in total, none of which can be reserved. So
	// only prod reserves any.
	p.Check.Concurrency = cmp.Or(p.Check.Concurrency, pick(prod, 100, Unreserved))
	p.Admin.Concurrency = cmp.Or(p.Admin.Concurrency, pick(prod, 5, Unreserved))
}

func pick[T any](condition bool, yes, no T) T {
	if condition {
		return yes
	}
	return no
}
