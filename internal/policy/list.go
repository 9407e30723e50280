package policy

import (
	"context"
	"encoding/base64"
	"fmt"
	"strconv"
	"strings"

	"github.com/valkey-io/valkey-go"
)

// The lists of keys are sorted sets whose members are the lower-case name, a zero byte and the id, in byte order: one of all keys, one for each plan,
// and one of those that have an override.
const (
	indexKey    = "tg:keys"
	overrideKey = "tg:keys:overridden"
)

func planIndexKey(number int) string { return indexKey + ":plan:" + strconv.Itoa(number) }

func indexMember(k Key) string { return strings.ToLower(k.Name) + "\x00" + k.ID }

// lists names the lists that k belongs in.
func lists(k Key) []string {
	if k.ID == "" {
		return nil
	}
	in := []string{indexKey}
	if k.planNumber > 0 {
		in = append(in, planIndexKey(k.planNumber))
	}
	if k.Override != nil {
		in = append(in, overrideKey)
	}
	return in
}

func (s *Store) enlist(ctx context.Context, k Key) error {
	commands := valkey.Commands{}
	for _, list := range lists(k) {
		commands = append(commands, s.client.B().Zadd().Key(list).ScoreMember().ScoreMember(0, indexMember(k)).Build())
	}
	for _, result := range s.client.DoMulti(ctx, commands...) {
		if err := result.Error(); err != nil {
			return fmt.Errorf("policy: list key: %w", err)
		}
	}
	return nil
}

// delist takes old out of the lists that k is not in under the same member.
func (s *Store) delist(ctx context.Context, old, k Key) error {
	kept := map[string]bool{}
	for _, list := range lists(k) {
		kept[list+indexMember(k)] = true
	}
	commands := valkey.Commands{}
	for _, list := range lists(old) {
		if !kept[list+indexMember(old)] {
			commands = append(commands, s.client.B().Zrem().Key(list).Member(indexMember(old)).Build())
		}
	}
	if len(commands) == 0 {
		return nil
	}
	for _, result := range s.client.DoMulti(ctx, commands...) {
		if err := result.Error(); err != nil {
			return fmt.Errorf("policy: list key: %w", err)
		}
	}
	return nil
}

// Bounds of Query.Count.
const (
	defaultCount = 50
	maxCount     = 500
)

// Query asks for a page of keys in the order of their names.
type Query struct {
	Prefix     string // only names that start with it, whatever the case
	Plan       int    // only keys of the plan with this number; 0 for all
	Overridden bool   // only keys that have an override, in force or past; Plan is ignored then
	After      string // the Next of the page before; empty for the first page
	Count      int    // 1 to 500; 0 means 50
}

func (q Query) list() string {
	switch {
	case q.Overridden:
		return overrideKey
	case q.Plan > 0:
		return planIndexKey(q.Plan)
	}
	return indexKey
}

// Page is an answer to a Query.
type Page struct {
	Keys []Key
	Next string // empty on the last page
}

// List returns a page of keys. It reads a list, never the key space.
func (s *Store) List(ctx context.Context, set *Set, q Query) (Page, error) {
	count := min(max(q.Count, 0), maxCount)
	if count == 0 {
		count = defaultCount
	}
	from, to := "-", "+"
	if prefix := strings.ToLower(q.Prefix); prefix != "" {
		from, to = "["+prefix, "["+prefix+"\xff"
	}
	if q.After != "" {
		after, err := base64.RawURLEncoding.DecodeString(q.After)
		if err != nil {
			return Page{}, invalid([]FieldError{{"after", "is not a position in this list; start from the first page"}})
		}
		from = "(" + string(after)
	}
	members, err := s.client.Do(ctx, s.client.B().Zrangebylex().Key(q.list()).Min(from).Max(to).Limit(0, int64(count)+1).Build()).AsStrSlice()
	if err != nil {
		return Page{}, fmt.Errorf("policy: list keys: %w", err)
	}
	var page Page
	if len(members) > count {
		members = members[:count]
		page.Next = base64.RawURLEncoding.EncodeToString([]byte(members[count-1]))
	}
	page.Keys, err = s.getAll(ctx, set, members)
	return page, err
}

// Cursor returns the After that goes on behind k.
func Cursor(k Key) string { return base64.RawURLEncoding.EncodeToString([]byte(indexMember(k))) }

// Count returns how many keys a query has, wherever it starts.
func (s *Store) Count(ctx context.Context, q Query) (int64, error) {
	count := s.client.B().Zcard().Key(q.list()).Build()
	if prefix := strings.ToLower(q.Prefix); prefix != "" {
		count = s.client.B().Zlexcount().Key(q.list()).Min("[" + prefix).Max("[" + prefix + "\xff").Build()
	}
	n, err := s.client.Do(ctx, count).AsInt64()
	if err != nil {
		return 0, fmt.Errorf("policy: count keys: %w", err)
	}
	return n, nil
}

// Many returns the keys with these ids, in order, leaving out those that have no record.
func (s *Store) Many(ctx context.Context, set *Set, ids []string) ([]Key, error) {
	members := make([]string, 0, len(ids))
	for _, id := range ids {
		if validID(id) {
			members = append(members, "\x00"+id)
		}
	}
	return s.getAll(ctx, set, members)
}

func (s *Store) getAll(ctx context.Context, set *Set, members []string) ([]Key, error) {
	if len(members) == 0 {
		return nil, nil
	}
	ids := make([]string, len(members))
	commands := make(valkey.Commands, len(members))
	for i, m := range members {
		ids[i] = m[strings.LastIndexByte(m, 0)+1:]
		commands[i] = s.client.B().Get().Key(recordKey(ids[i])).Build()
	}
	keys := make([]Key, 0, len(members))
	for i, result := range s.client.DoMulti(ctx, commands...) {
		record, err := result.AsBytes()
		if valkey.IsValkeyNil(err) {
			continue
		}
		if err != nil {
			return nil, fmt.Errorf("policy: list keys: %w", err)
		}
		k, _, err := decodeRecord(ids[i], record)
		if err != nil { // one bad record must not hide the others
			k = Key{ID: ids[i], Name: strings.TrimSuffix(members[i], "\x00"+ids[i]), Status: Unreadable}
		}
		k.Plan = set.planName(k.planNumber)
		keys = append(keys, k)
	}
	return keys, nil
}
