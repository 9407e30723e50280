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

// onNodes has what cannot change of the flags in everything.
var onNodes = map[string]string{"stage": "prod", "store": "nodes", "zones": everything["zones"],
	"replicas": everything["replicas"], "valkeyVersion": everything["valkeyVersion"]}

// serverless has everything but what is for nodes.
func serverless() map[string]string {
	flags := maps.Clone(everything)
	for _, name := range []string{"store", "zones", "shards", "replicas", "valkeyDurability",
		"valkeyVersion"} {
		delete(flags, name)
	}
	return flags
}

// All flags but the fixed ones can be turned on and off later: CloudFormation replaces
// nothing with a name of its own, and nothing that holds data. No subnet moves.
func TestFlagsCanChange(t *testing.T) {
	for name, c := range map[string]struct {
		before, after func() (template, error)
		replaced      []string
	}{
		"on nodes":   {before: once(onNodes), after: prod},
		"serverless": {before: minimal, after: once(serverless())},
		"dev": {before: dev, after: once(map[string]string{"keep": "true", "example": "false",
			"crossings": "sns", "natGateways": "2", "adminUser": "none",
			"adminUsersSecretName": "a"})},
		"version": {before: once(with(onNodes, "valkeyVersion=8.1")), after: once(onNodes),
			replaced: []string{"AWS::ElastiCache::ParameterGroup"}},
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
		})
	}
}

// Every flag that settings fixes moves or replaces the cache, or is one whose harm no
// template shows: another store is another resource, which is empty.
func TestFixedFlagsCannotChange(t *testing.T) {
	fixed := []string{"store", "valkeyVersion"}
	nodes := once(onNodes)
	for flag, c := range map[string]struct {
		before func() (template, error)
		after  map[string]string
		want   string
	}{
		"cidr": {minimal, map[string]string{"stage": "prod", "cidr": "10.0.0.0/16"}, "Cache: SubnetIds"},
		"zones": {nodes, with(onNodes, "zones=eu-west-1a,eu-west-1c"),
			"AvailabilityZone replaces AWS::EC2::Subnet"},
		"replicas": {nodes, with(onNodes, "replicas=1"), "Nodes: ReplicasPerNodeGroup"},
	} {
		got := changeOf(t, of(t, c.before), of(t, once(c.after)))
		if !strings.Contains(strings.Join(got.refused, "\n"), c.want) {
			t.Errorf("%s: got %v refused, want %s", flag, got.refused, c.want)
		}
		fixed = append(fixed, flag)
	}
	slices.Sort(fixed)
	equal(t, "fixed flags", settings.FixedFlags(), fixed)
}

// with returns flags with more flags.
func with(flags map[string]string, more ...string) map[string]string {
	all := maps.Clone(flags)
	for _, flag := range more {
		name, value, _ := strings.Cut(flag, "=")
		all[name] = value
	}
	return all
}
