package policy

import (
	"context"
	"crypto/sha256"
	_ "embed" // the scripts
	"encoding/base64"
	"encoding/binary"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/valkey-io/valkey-go"

	"tidegate/internal/apikey"
	"tidegate/internal/limiter"
)

var (
	//go:embed check.lua
	checkLua string
	//go:embed edit.lua
	editLua string

	checkScript = valkey.NewLuaScript(limiter.Script(checkLua, "return string.sub(record, 35) .. reply"))
	editScript  = valkey.NewLuaScript(editLua)
)

// indexKey names the sorted set of all keys: members are the lower-case name, a zero byte and the id, in byte order.
const indexKey = "tg:keys"

// Store keeps API keys in Valkey. It is safe for concurrent use.
//
// A key's record (tg:{id}:c, without a time to live) and its counts (tg:{id}:s) share a slot, so that a check is one atomic step.
type Store struct {
	client valkey.Client
	pepper apikey.Pepper
	now    func() time.Time
}

// NewStore returns a Store on a connected client.
func NewStore(client valkey.Client, pepper apikey.Pepper) *Store {
	return &Store{client: client, pepper: pepper, now: time.Now}
}

func recordKey(id string) string { return "tg:{" + id + "}:c" }
func stateKey(id string) string  { return "tg:{" + id + "}:s" }

// Create stores a new key under a fresh id and returns it with its secret, which cannot be had again. Bad input is an *InvalidError.
func (s *Store) Create(ctx context.Context, n NewKey) (Key, apikey.Secret, error) {
	if err := n.validate(); err != nil {
		return Key{}, apikey.Secret{}, err
	}
	secret, err := apikey.Generate(n.Env)
	if err != nil {
		return Key{}, apikey.Secret{}, fmt.Errorf("policy: create key: %w", err)
	}
	now := s.now().UTC().Truncate(time.Second)
	k := Key{ID: secret.ID(), Name: n.Name, Env: n.Env, Plan: n.Plan, Status: Active, Limits: n.Limits, Version: 1, Created: now, Updated: now}
	record, err := encodeRecord(k, s.pepper.Hash(secret))
	if err != nil {
		return Key{}, apikey.Secret{}, err
	}
	// The list comes first: a list entry without a record is skipped by readers, a record without an entry could never be found to be revoked.
	add := s.client.B().Zadd().Key(indexKey).ScoreMember().ScoreMember(0, indexMember(k)).Build()
	if err := s.client.Do(ctx, add).Error(); err != nil {
		return Key{}, apikey.Secret{}, fmt.Errorf("policy: create key: list: %w", err)
	}
	set := s.client.B().Set().Key(recordKey(k.ID)).Value(valkey.BinaryString(record)).Nx().Build()
	if err := s.client.Do(ctx, set).Error(); err != nil {
		return Key{}, apikey.Secret{}, fmt.Errorf("policy: create key: record: %w", err)
	}
	return k, secret, nil
}

// Get returns one key, or ErrNotFound.
func (s *Store) Get(ctx context.Context, id string) (Key, error) {
	k, _, err := s.get(ctx, id)
	return k, err
}

func (s *Store) get(ctx context.Context, id string) (Key, [sha256.Size]byte, error) {
	if !apikey.ValidID(id) {
		return Key{}, [sha256.Size]byte{}, ErrNotFound
	}
	record, err := s.client.Do(ctx, s.client.B().Get().Key(recordKey(id)).Build()).AsBytes()
	if valkey.IsValkeyNil(err) {
		return Key{}, [sha256.Size]byte{}, ErrNotFound
	}
	if err != nil {
		return Key{}, [sha256.Size]byte{}, fmt.Errorf("policy: get key: %w", err)
	}
	return decodeRecord(id, record)
}

// SetLimits replaces a key's limits. Every check that starts after it returns obeys them; counts already taken stay. version is the one that the edit
// was based on: when it is no longer current nothing is written and the current Key comes back with ErrConflict. Bad limits are an *InvalidError.
func (s *Store) SetLimits(ctx context.Context, id string, version int64, limits []limiter.Limit) (Key, error) {
	if err := invalid(limitErrors(limits)); err != nil {
		return Key{}, err
	}
	return s.edit(ctx, id, version, func(k *Key) { k.Limits = limits })
}

// Revoke makes the key unknown to every check that starts after it returns. version works as in SetLimits.
func (s *Store) Revoke(ctx context.Context, id string, version int64) (Key, error) {
	return s.edit(ctx, id, version, func(k *Key) { k.Status = Revoked })
}

func (s *Store) edit(ctx context.Context, id string, version int64, change func(*Key)) (Key, error) {
	k, hash, err := s.get(ctx, id)
	if err != nil {
		return Key{}, err
	}
	if k.Version != version {
		return k, ErrConflict
	}
	expected := valkey.BinaryString(binary.BigEndian.AppendUint32(nil, uint32(k.Version)))
	change(&k)
	k.Version++
	k.Updated = s.now().UTC().Truncate(time.Second)
	record, err := encodeRecord(k, hash)
	if err != nil {
		return Key{}, err
	}
	reply, err := editScript.Exec(ctx, s.client, []string{recordKey(id)}, []string{expected, valkey.BinaryString(record)}).ToMessage()
	switch {
	case valkey.IsValkeyNil(err):
		return Key{}, ErrNotFound
	case err != nil:
		return Key{}, fmt.Errorf("policy: edit key: %w", err)
	case reply.IsInt64():
		return k, nil
	}
	newer, err := reply.AsBytes()
	if err != nil {
		return Key{}, fmt.Errorf("policy: edit key: %w", err)
	}
	current, _, err := decodeRecord(id, newer)
	if err != nil {
		return Key{}, err
	}
	return current, ErrConflict
}

// Delete removes a key, its counts and its place in the list.
func (s *Store) Delete(ctx context.Context, id string) error {
	k, err := s.Get(ctx, id)
	unreadable := errors.Is(err, ErrUnreadable)
	if err != nil && !unreadable {
		return err
	}
	if err := s.client.Do(ctx, s.client.B().Del().Key(recordKey(id), stateKey(id)).Build()).Error(); err != nil {
		return fmt.Errorf("policy: delete key: %w", err)
	}
	if unreadable {
		return nil // its name is not known; the list leaves out what has no record
	}
	if err := s.client.Do(ctx, s.client.B().Zrem().Key(indexKey).Member(indexMember(k)).Build()).Error(); err != nil {
		return fmt.Errorf("policy: delete key: list: %w", err)
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
	Prefix string // only names that start with it, whatever the case
	After  string // the Next of the page before; empty for the first page
	Count  int    // 1 to 500; 0 means 50
}

// Page is an answer to a Query.
type Page struct {
	Keys []Key
	Next string // empty on the last page
}

// List returns a page of keys. It reads the list, never the key space.
func (s *Store) List(ctx context.Context, q Query) (Page, error) {
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
	members, err := s.client.Do(ctx, s.client.B().Zrangebylex().Key(indexKey).Min(from).Max(to).Limit(0, int64(count)+1).Build()).AsStrSlice()
	if err != nil {
		return Page{}, fmt.Errorf("policy: list keys: %w", err)
	}
	var page Page
	if len(members) > count {
		members = members[:count]
		page.Next = base64.RawURLEncoding.EncodeToString([]byte(members[count-1]))
	}
	page.Keys, err = s.getAll(ctx, members)
	return page, err
}

func (s *Store) getAll(ctx context.Context, members []string) ([]Key, error) {
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
		keys = append(keys, k)
	}
	return keys, nil
}

// Usage answers, for each key in order, what a call of cost 1 would get now. It takes nothing. An unreadable key gets the zero Decision.
func (s *Store) Usage(ctx context.Context, keys []Key) ([]limiter.Decision, error) {
	subjects := make([]limiter.Exchange, 0, len(keys))
	for _, k := range keys {
		if k.Status == Unreadable {
			continue
		}
		program, err := limiter.Compile(k.Limits, time.Now())
		if err != nil {
			return nil, fmt.Errorf("policy: usage: %w", err)
		}
		subjects = append(subjects, limiter.Exchange{Key: stateKey(k.ID), Program: program, Limits: k.Limits})
	}
	peeked, err := limiter.PeekMany(ctx, s.client, subjects)
	if err != nil {
		return nil, fmt.Errorf("policy: usage: %w", err)
	}
	decisions := make([]limiter.Decision, len(keys))
	for i, k := range keys {
		if k.Status != Unreadable {
			decisions[i], peeked = peeked[0], peeked[1:]
		}
	}
	return decisions, nil
}

// Checked is the answer to a Check.
type Checked struct {
	Key      Key // as of the version that the decision obeyed
	Decision limiter.Decision
}

// Check finds the secret's key and takes cost from its limits, in one round trip. It fails with ErrUnknownKey when no such key may call, and with
// limiter.ErrCost when cost is above a limit. Any other error means that no decision was made.
func (s *Store) Check(ctx context.Context, secret apikey.Secret, cost int64) (Checked, error) {
	if cost < 1 || cost > limiter.MaxRequests {
		return Checked{}, fmt.Errorf("policy: check: %w: %d", limiter.ErrCost, cost)
	}
	hash := s.pepper.Hash(secret)
	id := secret.ID()
	reply, err := checkScript.Exec(ctx, s.client, []string{recordKey(id), stateKey(id)}, []string{string(hash[:]), fmt.Sprint(cost)}).AsBytes()
	if valkey.IsValkeyNil(err) {
		return Checked{}, ErrUnknownKey
	}
	if err != nil {
		return Checked{}, fmt.Errorf("policy: check: %w", err)
	}
	if limiter.ReplyCostTooHigh(reply) {
		_, err = limiter.ParseReply(reply, nil)
		return Checked{}, fmt.Errorf("policy: check: %w", err)
	}
	k, rest, err := decodePublic(id, reply)
	if err != nil {
		return Checked{}, err
	}
	d, err := limiter.ParseReply(rest, k.Limits)
	if err != nil {
		return Checked{}, fmt.Errorf("policy: check: %w", err)
	}
	return Checked{Key: k, Decision: d}, nil
}

func indexMember(k Key) string { return strings.ToLower(k.Name) + "\x00" + k.ID }
