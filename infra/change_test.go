package main

import (
	"encoding/json"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"
	"testing"

	"tidegate/infra/settings"
)

// change is what an update from one template to another does that its operator may not
// want.
type change struct {
	replaced map[string]string // the type of each replaced resource, by id
	refused  []string          // what CloudFormation refuses, or what loses data
}

// holdsData are types whose replacement loses what they store, or moves what they
// contain.
var holdsData = []string{"AWS::EC2::VPC", "AWS::EC2::Subnet", "AWS::S3::Bucket", "AWS::KMS::Key",
	"AWS::SecretsManager::Secret", "AWS::ElastiCache::ServerlessCache", "AWS::ElastiCache::ReplicationGroup",
	"AWS::Logs::LogGroup", "AWS::ElastiCache::User", "AWS::ElastiCache::UserGroup"}

// changeOf compares two templates as CloudFormation does: it replaces a resource if a
// property that it can only create differs, or refers to a replaced resource.
func changeOf(t *testing.T, before, after template) change {
	t.Helper()
	types := schemasOf(t).types
	c := change{replaced: map[string]string{}}
	for more := true; more; {
		more = false
		for id, old := range before.Resources {
			now, kept := after.Resources[id]
			if !kept || c.replaced[id] != "" {
				continue
			}
			if now.Type != old.Type {
				c.refuse("%s changes its type from %s to %s", id, old.Type, now.Type)
				c.replaced[id] = old.Type
				continue
			}
			for name, p := range types[old.Type].Properties {
				a, b := old.Properties[name], now.Properties[name]
				if p.CausesReplacement == "yes" && (!reflect.DeepEqual(a, b) || c.refers(b)) {
					c.replace(id, name, old, now, types[old.Type])
					more = true
					break
				}
			}
		}
	}
	c.compareNames(before, after, types)
	slices.Sort(c.refused)
	return c
}

func (c *change) refuse(format string, arguments ...any) {
	c.refused = append(c.refused, fmt.Sprintf(format, arguments...))
}

func (c *change) replace(id, property string, old, now resource, kind typeOfResource) {
	c.replaced[id] = old.Type
	name := kind.name(old)
	if name != nil && reflect.DeepEqual(name, kind.name(now)) || slices.Contains(holdsData, old.Type) {
		c.refuse("%s: %s replaces %s", id, property, old.Type)
	}
}

// name returns the name that a template gives a resource; nil if CloudFormation chooses
// it.
func (k typeOfResource) name(r resource) any {
	if r.Type == "AWS::EC2::Route" { // a table has one for each destination
		p := r.Properties
		return []any{p["RouteTableId"], p["DestinationCidrBlock"], p["DestinationIpv6CidrBlock"]}
	}
	for _, property := range append(slices.Clone(k.PrimaryIdentifier), "Name") {
		if name := r.Properties[property]; name != nil && k.Properties[property].CausesReplacement == "yes" {
			return name
		}
	}
	return nil
}

// refers reports whether a value refers to a replaced resource.
func (c *change) refers(value any) bool {
	rendered, err := json.Marshal(value)
	if err != nil {
		return false
	}
	for id := range c.replaced {
		if strings.Contains(string(rendered), `"Ref":"`+id+`"`) ||
			strings.Contains(string(rendered), `"Fn::GetAtt":["`+id+`",`) {
			return true
		}
	}
	return false
}

// compareNames finds names that move to a resource with another id: CloudFormation
// creates the new one while the old one has the name. It also finds what stays behind
// with a name, so that turning the flag on again fails.
func (c *change) compareNames(before, after template, types map[string]typeOfResource) {
	for id, old := range before.Resources {
		name := types[old.Type].name(old)
		if _, kept := after.Resources[id]; kept || name == nil {
			continue
		}
		for other, now := range after.Resources {
			if _, had := before.Resources[other]; !had && now.Type == old.Type &&
				reflect.DeepEqual(types[now.Type].name(now), name) {
				c.refuse("%s and %s have one name", id, other)
			}
		}
		if strings.HasPrefix(old.DeletionPolicy, "Retain") {
			c.refuse("%s stays behind with its name", id)
		}
	}
}

// onNodes has what cannot change of the settings in everything.
func onNodes() settings.Props {
	all := everything()
	return with(settings.Default("prod"), func(p *settings.Props) {
		p.Kind, p.Zones, p.Replicas, p.Version = all.Kind, all.Zones, all.Replicas, all.Version
	})
}

// serverless has everything but what is for nodes.
func serverless() settings.Props {
	return with(everything(), func(p *settings.Props) {
		p.Store, p.Zones = settings.Default("prod").Store, nil
	})
}

// All settings but the fixed ones can be turned on and off later: CloudFormation replaces
// nothing with a name of its own, and nothing that holds data. No subnet of the cache or
// of a function goes.
func TestSettingsCanChange(t *testing.T) {
	for name, c := range map[string]struct {
		before, after func() (template, error)
		replaced      []string
	}{
		"on nodes":   {before: once(onNodes()), after: prod},
		"serverless": {before: minimal, after: once(serverless())},
		"dev": {before: dev, after: once(with(settings.Default("dev"), func(p *settings.Props) {
			p.Keep, p.Example, p.Crossings = true, false, settings.SNS
			p.AdminUser, p.AdminUsersSecret, p.AlarmTopic = "none", "a",
				"arn:aws:sns:eu-west-1:111122223333:a"
		}))},
		"IPv6":         {before: minimal, after: overIPv6},
		"IPv6 for NAT": {before: once(withKeysByURL(settings.NAT)), after: overIPv6},
		"version": {before: once(with(onNodes(), func(p *settings.Props) { p.Version = "8.1" })),
			after: once(onNodes()), replaced: []string{"AWS::ElastiCache::ParameterGroup"}},
	} {
		t.Run(name, func(t *testing.T) {
			before, after := of(t, c.before), of(t, c.after)
			for direction, got := range map[string]change{"on": changeOf(t, before, after),
				"off": changeOf(t, after, before)} {
				if len(got.refused) > 0 {
					t.Errorf("%s: want nothing refused, got\n%s", direction, strings.Join(got.refused, "\n"))
				}
				types := slices.Compact(slices.Sorted(maps.Values(got.replaced)))
				equal(t, direction+": replaced", types, c.replaced)
			}
			for id, r := range before.Resources {
				if r.Type == "AWS::EC2::Subnet" && strings.Contains(id, "Private") {
					for _, property := range []string{"AvailabilityZone", "CidrBlock", "VpcId"} {
						got := after.Resources[id].Properties[property]
						equal(t, id+"."+property, got, r.Properties[property])
					}
				}
			}
		})
	}
}

// Every setting that is fixed moves or replaces the cache, or is one whose harm no template
// shows: another store is another resource, which is empty.
func TestFixedSettingsCannotChange(t *testing.T) {
	fixed := []string{"store", "valkeyVersion", "pepperSecret", "changesBucket"}
	nodes := once(onNodes())
	inNetwork := with(settings.Default("prod"), func(p *settings.Props) {
		p.VPC, p.Subnets = "vpc-0a1b2c3d", []string{"subnet-0a1b2c3d", "subnet-1a1b2c3d"}
	})
	existing := with(inNetwork, func(p *settings.Props) {
		p.Key = "arn:aws:kms:eu-west-1:111122223333:key/0a1b2c3d-0a1b-0a1b-0a1b-0a1b2c3d4e5f"
		p.Snapshot = "arn:aws:elasticache:eu-west-1:111122223333:serverlesscachesnapshot:a"
	})
	for name, c := range map[string]struct {
		before func() (template, error)
		after  settings.Props
		want   string
	}{
		"cidr": {minimal, with(settings.Default("prod"), func(p *settings.Props) { p.CIDR = "10.0.0.0/16" }),
			"SubnetIds replaces AWS::ElastiCache::ServerlessCache"},
		"zones": {nodes, with(onNodes(), func(p *settings.Props) {
			p.Zones = []string{"eu-west-1a",
				"eu-west-1c"}
		}),
			"AvailabilityZone replaces AWS::EC2::Subnet"},
		"replicas": {nodes, with(onNodes(), func(p *settings.Props) { p.Replicas = 1 }),
			"ReplicasPerNodeGroup replaces AWS::ElastiCache::ReplicationGroup"},
		"vpc": {minimal, inNetwork, "SubnetIds replaces AWS::ElastiCache::ServerlessCache"},
		"subnets": {once(existing), with(existing, func(p *settings.Props) {
			p.Subnets = []string{"subnet-0a1b2c3d", "subnet-2a1b2c3d"}
		}), "SubnetIds replaces AWS::ElastiCache::ServerlessCache"},
		"key": {once(existing), with(existing, func(p *settings.Props) {
			p.Key = strings.Replace(p.Key, "0a1b2c3d-", "1a1b2c3d-", 1)
		}), "KmsKeyId replaces AWS::ElastiCache::ServerlessCache"},
		"snapshot": {once(existing), with(existing, func(p *settings.Props) { p.Snapshot += "b" }),
			"SnapshotArnsToRestore replaces AWS::ElastiCache::ServerlessCache"},
	} {
		got := changeOf(t, of(t, c.before), of(t, once(c.after)))
		if !strings.Contains(strings.Join(got.refused, "\n"), c.want) {
			t.Errorf("%s: got %v refused, want %s", name, got.refused, c.want)
		}
		fixed = append(fixed, name)
	}
	slices.Sort(fixed)
	equal(t, "fixed settings", settings.FixedSettings(), fixed)
}
