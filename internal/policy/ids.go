package policy

import (
	"crypto/sha256"
	"encoding/base64"
	"strconv"
)

// GlobalID is the subject of the limits of all callers.
const GlobalID = "global"

// RouteID is the id under which the usage of a route is recorded.
func RouteID(name string) string { return "route-" + RouteTag(name) }

// RouteTag is the part of a route's or a group's names in Valkey that stands for its
// name: 12 characters.
func RouteTag(name string) string {
	sum := sha256.Sum256([]byte(name))
	return base64.RawURLEncoding.EncodeToString(sum[:9])
}

// GroupID is the subject of a group of keys: what its limits count lies there.
func GroupID(name string) string { return "group-" + RouteTag(name) }

// GroupState is the part of the name of what a plan's limits per group count: each plan's
// are counted apart.
func GroupState(plan int) string { return "s" + strconv.Itoa(plan) }
