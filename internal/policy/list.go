package policy

import (
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"slices"
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
	for _, result := range s.client.DoMulti(ctx, s.listing(k)...) {
		if err := result.Error(); err != nil {
			return fmt.Errorf("policy: list key: %w", err)
		}
	}
	return nil
}

// listing are the commands that put k into its lists.
func (s *Store) listing(k Key) valkey.Commands {
	var commands valkey.Commands
	for _, list := range lists(k) {
		commands = append(commands, s.client.B().Zadd().Key(list).ScoreMember().ScoreMember(0, indexMember(k)).Build())
	}
	return commands
}

// relist takes old out of the lists that k, which replaced it, is not in under the same member; k may be the zero Key. And it puts k in once more:
// who looked at the lists before the record was written may have taken it for a ghost. What fails here is put right when somebody next looks.
func (s *Store) relist(ctx context.Context, old, k Key) {
	commands := s.listing(k)
	for _, list := range lists(old) {
		if !listed(k, list, indexMember(old)) {
			commands = append(commands, s.client.B().Zrem().Key(list).Member(indexMember(old)).Build())
		}
	}
	if k.ID != "" {
		commands = append(commands, s.client.B().Get().Key(recordKey(k.ID)).Build())
	}
	results := s.client.DoMulti(ctx, commands...)
	if k.ID == "" {
		return
	}
	if current, err := recorded(k.ID, results[len(results)-1]); err == nil && current.Version != k.Version { // the next edit was faster
		s.unlist(ctx, k)
	}
}

// listed tells whether k belongs in a list under this member.
func listed(k Key, list, member string) bool {
	return slices.Contains(lists(k), list) && member == indexMember(k)
}

// unlist takes k, which was not written, out of the lists again, as far as it is not there by right.
func (s *Store) unlist(ctx context.Context, k Key) {
	current, err := recorded(k.ID, s.client.Do(ctx, s.client.B().Get().Key(recordKey(k.ID)).Build()))
	if err != nil {
		return // List will see
	}
	var ghosts []ghost
	for _, list := range lists(k) {
		if !listed(current, list, indexMember(k)) {
			ghosts = append(ghosts, ghost{list, indexMember(k)})
		}
	}
	s.heal(ctx, ghosts)
}

// recorded reads a record's key, but for the name of its plan; the zero Key when there is none.
func recorded(id string, result valkey.ValkeyResult) (Key, error) {
	record, err := result.AsBytes()
	if valkey.IsValkeyNil(err) {
		return Key{}, nil
	}
	if err != nil {
		return Key{}, err
	}
	k, _, err := decodeRecord(id, record)
	return k, err
}

// ghost is a place in a list that a key does not have, or no longer: an edit was interrupted, or is under way.
type ghost struct{ list, member string }

// memberID is the id of the key that a member is for.
func memberID(member string) string { return member[strings.LastIndexByte(member, 0)+1:] }

// heal takes ghosts out. Then it lists their keys as they are: one may have been written just before its ghost was taken out. One that is written
// later is listed by relist. What fails is tried again when somebody next looks at the list.
func (s *Store) heal(ctx context.Context, ghosts []ghost) {
	if len(ghosts) == 0 {
		return
	}
	removals, members := make(valkey.Commands, len(ghosts)), make([]string, len(ghosts))
	for i, g := range ghosts {
		removals[i], members[i] = s.client.B().Zrem().Key(g.list).Member(g.member).Build(), g.member
	}
	s.client.DoMulti(ctx, removals...)
	keys, err := s.getAll(ctx, &Set{}, members)
	if err != nil {
		return
	}
	var listings valkey.Commands
	for _, k := range keys {
		if k.Status != Unreadable {
			listings = append(listings, s.listing(k)...)
		}
	}
	if len(listings) > 0 {
		s.client.DoMulti(ctx, listings...)
	}
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

// List returns a page of keys. It reads a list, never the key space. A page may hold fewer keys than asked for, and another follow it all the same.
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
	page.Keys, err = s.listedKeys(ctx, set, q.list(), members)
	return page, err
}

// listedKeys returns the keys that are in a list by right, and takes the other members out of it.
func (s *Store) listedKeys(ctx context.Context, set *Set, list string, members []string) ([]Key, error) {
	found, err := s.getAll(ctx, set, members)
	if err != nil {
		return nil, err
	}
	var ghosts []ghost
	keys := make([]Key, 0, len(found))
	for i, k := range found {
		switch {
		case k.Status == Unreadable: // nobody can tell
			k.Name = strings.TrimSuffix(members[i], "\x00"+k.ID)
			keys = append(keys, k)
		case listed(k, list, members[i]):
			keys = append(keys, k)
		default:
			ghosts = append(ghosts, ghost{list, members[i]})
		}
	}
	s.heal(ctx, ghosts)
	return keys, nil
}

// maxLooks bounds how many pages of a list are looked at for a key that is in it by right.
const maxLooks = 20

// inPlan tells whether any key has the plan. What else is in the plan's list is taken out of it; if that is a lot, it takes several times.
func (s *Store) inPlan(ctx context.Context, set *Set, number int) (bool, error) {
	q := Query{Plan: number, Count: maxCount}
	for range maxLooks {
		page, err := s.List(ctx, set, q)
		if err != nil || len(page.Keys) > 0 || page.Next == "" {
			return len(page.Keys) > 0, err
		}
		q.After = page.Next
	}
	return true, nil
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
	keys, err := s.getAll(ctx, set, members)
	return slices.DeleteFunc(keys, func(k Key) bool { return k.ID == "" }), err
}

// getAll returns the key of each member; the zero Key where there is no record.
func (s *Store) getAll(ctx context.Context, set *Set, members []string) ([]Key, error) {
	if len(members) == 0 {
		return nil, nil
	}
	keys := make([]Key, len(members))
	commands := make(valkey.Commands, len(members))
	for i, m := range members {
		keys[i].ID = memberID(m)
		commands[i] = s.client.B().Get().Key(recordKey(keys[i].ID)).Build()
	}
	for i, result := range s.client.DoMulti(ctx, commands...) {
		k, err := recorded(keys[i].ID, result)
		switch {
		case errors.Is(err, ErrUnreadable): // one bad record must not hide the others
			k = Key{ID: keys[i].ID, Status: Unreadable}
		case err != nil:
			return nil, fmt.Errorf("policy: list keys: %w", err)
		}
		k.Plan = set.planName(k.planNumber)
		keys[i] = k
	}
	return keys, nil
}
