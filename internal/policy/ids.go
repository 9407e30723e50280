package policy

import (
	"crypto/sha256"
	"encoding/base64"
)

// GlobalID is the subject of the limits of all callers.
const GlobalID = "global"

// RouteID is the id under which the usage of a route is recorded.
func RouteID(name string) string { return "route-" + RouteTag(name) }

// RouteTag is the part of a route's names in Valkey that stands for its name: 12 characters.
func RouteTag(name string) string {
	sum := sha256.Sum256([]byte(name))
	return base64.RawURLEncoding.EncodeToString(sum[:9])
}
