package registry

import (
	"context"

	"github.com/valkey-io/valkey-go"

	"tidegate/internal/policy"
)

// List is a list of keys with a special state or setting.
type List string

// The lists.
const (
	Overridden List = "overridden" // keys with an override, in force or past
	Revoked    List = "revoked"
	Expiring   List = "expiring" // keys with an expiry, at any time
	// Shadowed has keys whose override has no enforced limit, and all keys of plans without
	// one.
	Shadowed List = "shadow"
)

// Query asks for a page of keys in the order of their names.
type Query struct {
	Prefix string // only names that start with it, ignoring case
	Part   string // only names that contain it, but do not start with it, ignoring case
	Plan   int    // only keys of the plan with this number; 0 for all
	Tag    string // only keys with this tag; Plan is ignored then
	Group  string // only keys of this group; Plan and Tag are ignored then
	List   List   // only keys of this list; Plan, Tag and Group are ignored then
	After  string // the Next of the page before; empty for the first page
	Count  int    // 1 to 500; 0 means 50
}

// Page is an answer to a Query.
type Page struct {
	Keys    []policy.Key
	Next    string // empty on the last page
	Scanned int    // names that were read
}

// Group is a group of keys.
type Group struct {
	Name string
	Keys int64
}

// Get returns one key, or ErrNotFound.
func (s *Store) Get(ctx context.Context, id string) (policy.Key, error) { panic("todo") }

// Many returns the keys with these ids, in order, without those that have no record.
func (s *Store) Many(ctx context.Context, set *policy.Set, ids []string) ([]policy.Key, error) {
	panic("todo")
}

// List returns a page of keys.
func (s *Store) List(ctx context.Context, set *policy.Set, q Query) (Page, error) { panic("todo") }

// Count returns how many keys a query has. It ignores After and Part, and cannot count the
// list Shadowed.
func (s *Store) Count(ctx context.Context, q Query) (int64, error) { panic("todo") }

// Groups returns up to count groups whose names start with a prefix, ignoring case.
func (s *Store) Groups(ctx context.Context, prefix string, count int) ([]Group, error) { panic("todo") }

// PlanCounts returns how many keys each plan has, by the plan's number.
func (s *Store) PlanCounts(ctx context.Context, set *policy.Set) (map[int]int64, error) {
	panic("todo")
}

// Cursor returns the After of the page that begins after k.
func Cursor(k policy.Key) string { panic("todo") }

// EachID calls yield with the id of every listed key.
func EachID(ctx context.Context, client valkey.Client, yield func(id string)) error { panic("todo") }

// Authenticate returns the API key that a secret belongs to. It fails with
// policy.ErrUnknownKey for every key that checks refuse regardless of limits.
func (s *Store) Authenticate(ctx context.Context, set *policy.Set, text string) (policy.Key, error) {
	panic("todo")
}

// ForeignID returns the id of the key with this value, if another system made the key.
func (s *Store) ForeignID(text string) (string, bool) { panic("todo") }
