package settings

import (
	"regexp"
	"slices"
	"strings"
)

// versions of Valkey that ElastiCache offers, the oldest first.
var versions = []string{"7.2", "8.0", "8.1", "8.2", "9.0", "9.1"}

const (
	defaultVersion = "8.1"
	// durableVersion is the oldest version with durability.
	durableVersion = "9.0"
)

// Durability is how a cache of nodes keeps what it has acknowledged. The zero value is a
// cache's usual replication, which may lose the last writes when a node fails.
type Durability string

// The kinds of durability. Both write to a log in several availability zones: Sync before
// a write is acknowledged, Async within ten seconds after.
const (
	Sync  Durability = "sync"
	Async Durability = "async"
)

// durableTypes are the families of nodes that have durability.
var durableTypes = regexp.MustCompile(`^cache\.(r6g|r7g|m6g|m7g|c7gn)\.`)

// defaultVersion is the version of a cache whose flags name none.
func (s *Store) defaultVersion() string {
	if s.Durability != "" {
		return durableVersion
	}
	return defaultVersion
}

// MajorVersion is the version in the names of serverless engines and families of
// parameters.
func (s *Store) MajorVersion() string {
	major, _, _ := strings.Cut(s.Version, ".")
	return major
}

// check checks the type of nodes, the version and the durability.
func (s *Store) check(want wants) {
	want(nodeType.MatchString(s.NodeType), "nodeType", s.NodeType, "must be a type such as cache.r7g.large")
	known := slices.Index(versions, s.Version)
	want(known >= 0, "valkeyVersion", s.Version, "must be one of %s", strings.Join(versions, ", "))
	if s.Durability == "" {
		return
	}
	flag := "valkeyDurability"
	want(s.Kind == Nodes, flag, s.Durability, "needs store=nodes: a serverless cache has none")
	want(known < 0 || known >= slices.Index(versions, durableVersion), flag, s.Durability,
		"needs valkeyVersion=%s or newer, not %s", durableVersion, s.Version)
	want(durableTypes.MatchString(s.NodeType), flag, s.Durability,
		"needs a nodeType of R6g, R7g, M6g, M7g or C7gn, such as cache.r7g.large, not %s", s.NodeType)
}
