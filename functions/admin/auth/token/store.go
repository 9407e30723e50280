package token

import (
	"cmp"
	"context"
	"crypto/sha256"
	_ "embed" // the scripts
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/valkey-io/valkey-go"

	"tidegate/functions/admin/auth"
	"tidegate/internal/apikey"
	"tidegate/internal/audit"
	"tidegate/internal/store/keyspace"
)

// Subject is the subject of all tokens in the audit log and in the key space.
const Subject = keyspace.TokensID

// One hash holds all tokens by id, another the minute of each token's last use. Both are
// in the slot of the tokens' audit chain. There are at most MaxCount tokens.
var (
	recordsKey = keyspace.Tokens
	usedKey    = keyspace.Of(Subject, "used")
	bucket     = keyspace.BucketOf(Subject)
)

var (
	//go:embed create.lua
	createLua string
	//go:embed find.lua
	findLua string

	//go:embed revoke.lua
	revokeLua string

	createScript = valkey.NewLuaScript(audit.AppendFunction + createLua)
	revokeScript = valkey.NewLuaScript(audit.AppendFunction + revokeLua)
	// findScript is idempotent, so the client may repeat it after a network error.
	findScript = valkey.NewLuaScriptRetryable(findLua)
)

// Store stores tokens in Valkey. It is safe for concurrent use.
type Store struct {
	client valkey.Client
	pepper apikey.Pepper
	audit  *audit.Log
	now    func() time.Time
}

// NewStore returns a Store on a connected client.
func NewStore(client valkey.Client, pepper apikey.Pepper) *Store {
	return &Store{client: client, pepper: pepper, audit: audit.NewLog(client, audit.NewKey(pepper)),
		now: time.Now}
}

// Audit returns the log that records every change.
func (s *Store) Audit() *audit.Log { return s.audit }

// A record is the hash, the expiry in seconds as ten digits (which find.lua compares as
// text), and the rest as JSON.
const (
	expiryAt = sha256.Size
	restAt   = expiryAt + 10
)

// rest is the part of a record after hash and expiry.
type rest struct {
	Name    string `json:"name"`
	Scope   Scope  `json:"scope"`
	By      string `json:"by"`
	Created int64  `json:"created"` // second of the Unix epoch
}

func seconds(t time.Time) string { return fmt.Sprintf("%010d", t.Unix()) }

// Create stores a new token and returns it with its secret, which is not stored. It fails
// with an *InvalidError, with ErrTooMany, or with ErrByToken, so that a leaked token
// cannot create another.
func (s *Store) Create(ctx context.Context, n New) (Token, apikey.Secret, error) {
	if n.By.Kind == string(auth.Token) {
		return Token{}, apikey.Secret{}, ErrByToken
	}
	now := s.now().UTC().Truncate(time.Second)
	n.Expires = n.Expires.UTC().Truncate(time.Second)
	if err := n.validate(now); err != nil {
		return Token{}, apikey.Secret{}, err
	}
	secret := apikey.GeneratePlain(prefix)
	hash := s.pepper.Hash(secret)
	text, err := json.Marshal(rest{Name: n.Name, Scope: n.Scope, By: n.By.Name, Created: now.Unix()})
	if err != nil {
		return Token{}, apikey.Secret{}, fmt.Errorf("create token: %w", err)
	}
	t := Token{ID: secret.ID(), Name: n.Name, Scope: n.Scope, By: n.By.Name, Created: now, Expires: n.Expires}
	record := string(hash[:]) + seconds(t.Expires) + string(text)
	entry := audit.Entry{By: n.By, Action: audit.TokenCreate, Version: 1, After: auditState(t)}
	created, err := s.write(ctx, createScript, t, []byte(record), entry, []string{recordsKey}, t.ID, record,
		strconv.Itoa(MaxCount))
	if err != nil {
		return Token{}, apikey.Secret{}, fmt.Errorf("create token: %w", err)
	}
	if !created {
		return Token{}, apikey.Secret{}, ErrTooMany
	}
	return t, secret, nil
}

// auditState returns the token's state for audit entries, without its secret.
func auditState(t Token) json.RawMessage {
	text, err := json.Marshal(struct {
		ID      string    `json:"id"`
		Name    string    `json:"name"`
		Scope   Scope     `json:"scope"`
		By      string    `json:"createdBy"`
		Expires time.Time `json:"expires"`
	}{t.ID, t.Name, t.Scope, t.By, t.Expires})
	if err != nil {
		return nil // cannot happen: JSON can represent the times of a record
	}
	return text
}

// write makes a change and its audit entry in one step. record is the token's new record,
// or nil after a removal.
func (s *Store) write(
	ctx context.Context,
	script *valkey.Lua,
	t Token,
	record []byte,
	entry audit.Entry,
	keys []string,
	args ...string,
) (changed bool, err error) {
	entry.Subject, entry.Name, entry.Time = Subject, t.Name, s.now().UTC()
	keys = append(keys, audit.Names(bucket)...)
	step := audit.Step{
		Bucket: bucket, Entry: entry, Urgent: record == nil,
		Change: &audit.Change{Key: recordsKey, Field: t.ID, Record: record},
	}
	step.Run = func(sealed []string) (stale bool, err error) {
		done, err := script.Exec(ctx, s.client, keys, append(slices.Clone(args), sealed...)).AsInt64()
		changed = done > 0
		return done < 0, err
	}
	err = s.audit.Commit(ctx, step)
	return changed, err
}

// Authenticate returns the token with this text, and records the minute of its use. It
// fails with ErrUnknown, without a request to Valkey if the checksum is wrong. Any other
// error means that the token could not be checked.
func (s *Store) Authenticate(ctx context.Context, text string) (Token, error) {
	secret, err := apikey.ParsePlain(prefix, text)
	if err != nil {
		return Token{}, ErrUnknown
	}
	hash, now := s.pepper.Hash(secret), s.now()
	minute := now.Truncate(time.Minute)
	args := []string{secret.ID(), string(hash[:]), seconds(now), strconv.FormatInt(minute.Unix(), 10)}
	record, err := findScript.Exec(ctx, s.client, []string{recordsKey, usedKey}, args).ToString()
	if valkey.IsValkeyNil(err) {
		return Token{}, ErrUnknown
	}
	if err != nil {
		return Token{}, fmt.Errorf("find token: %w", err)
	}
	t, err := decode(secret.ID(), record)
	if err != nil {
		return Token{}, err
	}
	t.Used = minute.UTC()
	return t, nil
}

// List returns all tokens, including expired ones, ordered by creation.
func (s *Store) List(ctx context.Context) ([]Token, error) {
	replies := s.client.DoMulti(ctx, s.client.B().Hgetall().Key(recordsKey).Build(),
		s.client.B().Hgetall().Key(usedKey).Build())
	records, err := replies[0].AsStrMap()
	if err != nil {
		return nil, fmt.Errorf("list tokens: %w", err)
	}
	used, err := replies[1].AsIntMap()
	if err != nil {
		return nil, fmt.Errorf("list tokens: last use: %w", err)
	}
	var all []Token
	for id, record := range records {
		t, err := decode(id, record)
		if err != nil { // one bad record must not hide the others, and can be revoked
			t = Token{ID: id, Name: unreadable}
		}
		if minute, ok := used[id]; ok {
			t.Used = time.Unix(minute, 0).UTC()
		}
		all = append(all, t)
	}
	slices.SortFunc(all, func(a, b Token) int {
		return cmp.Or(a.Created.Compare(b.Created), strings.Compare(a.ID, b.ID))
	})
	return all, nil
}

// Revoke removes a token. Every call with it that starts after Revoke returns is refused.
// It fails with ErrNotFound.
func (s *Store) Revoke(ctx context.Context, id string, by audit.Actor) error {
	if !apikey.ValidID(id) {
		return ErrNotFound
	}
	record, err := s.client.Do(ctx, s.client.B().Hget().Key(recordsKey).Field(id).Build()).ToString()
	if valkey.IsValkeyNil(err) {
		return ErrNotFound
	}
	if err != nil {
		return fmt.Errorf("revoke token: %w", err)
	}
	t, err := decode(id, record)
	if err != nil {
		t = Token{ID: id, Name: unreadable}
	}
	entry := audit.Entry{By: by, Action: audit.TokenRevoke, Version: 2, Before: auditState(t)}
	removed, err := s.write(ctx, revokeScript, t, nil, entry, []string{recordsKey, usedKey}, id)
	if err != nil {
		return fmt.Errorf("revoke token: %w", err)
	}
	if !removed {
		return ErrNotFound
	}
	return nil
}

// unreadable is the name of a token whose record cannot be decoded.
const unreadable = "unreadable"

var errRecord = errors.New("token record cannot be read")

func decode(id, record string) (Token, error) {
	if len(record) < restAt {
		return Token{}, errRecord
	}
	expires, err := strconv.ParseInt(record[expiryAt:restAt], 10, 64)
	if err != nil {
		return Token{}, errRecord
	}
	var r rest
	if err := json.Unmarshal([]byte(record[restAt:]), &r); err != nil {
		return Token{}, errRecord
	}
	return Token{
		ID: id, Name: r.Name, Scope: r.Scope, By: r.By,
		Created: time.Unix(r.Created, 0).UTC(), Expires: time.Unix(expires, 0).UTC(),
	}, nil
}
