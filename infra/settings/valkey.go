package settings

import (
	"regexp"
	"slices"
	"strings"
)

// versions are the versions of Valkey that ElastiCache offers, the oldest first.
var versions = []string{"7.2", "8.0", "8.1", "8.2", "9.0", "9.1"}

const (
	defaultVersion = "8.1"
	// durableVersion is the oldest version with durability.
	durableVersion = "9.0"
)

// Durability is how a cache of nodes stores acknowledged writes. The zero value is
// replication alone, which may lose the last writes when a node fails.
type Durability string

// The kinds of durability. Both write to a log in several availability zones: Sync before
// a write is acknowledged, Async within ten seconds after.
const (
	Sync  Durability = "sync"
	Async Durability = "async"
)

// durableTypes matches the node types that support durability:
// https://docs.aws.amazon.com/es_es/AmazonElastiCache/latest/dg/Durability.Limitations.html,
// newer than the same page in English.
var durableTypes = regexp.MustCompile(`^cache\.(r[678]g|m[678]g|c[78]gn)\.`)

// defaultVersion returns the version of a cache without the flag valkeyVersion.
func (s *Store) defaultVersion() string {
	if s.Durability != "" {
		return durableVersion
	}
	return defaultVersion
}

// MajorVersion returns the major version, which serverless caches and families of
// parameter groups use.
func (s *Store) MajorVersion() string {
	major, _, _ := strings.Cut(s.Version, ".")
	return major
}

// check validates the node type, the version and the durability.
func (s *Store) check(want wants) {
	want(nodeType.MatchString(s.NodeType), "nodeType", s.NodeType, "must be a type such as cache.r7g.large")
	known := slices.Index(versions, s.Version)
	want(known >= 0, "valkeyVersion", s.Version, "must be one of %s", strings.Join(versions, ", "))
	if s.Durability == "" {
		return
	}
	flag := "valkeyDurability"
	want(s.Kind == Nodes, flag, s.Durability, "needs store=nodes: a serverless cache has no durability")
	want(known < 0 || known >= slices.Index(versions, durableVersion), flag, s.Durability,
		"needs valkeyVersion=%s or newer, not %s", durableVersion, s.Version)
	want(durableTypes.MatchString(s.NodeType), flag, s.Durability,
		"needs a nodeType of R6g, R7g, R8g, M6g, M7g, M8g, C7gn or C8gn, such as cache.r7g.large, not %s",
		s.NodeType)
}
