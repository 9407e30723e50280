package token

import (
	"context"
	"crypto/hmac"
	"errors"
	"fmt"
	"strconv"
	"sync"
	"time"

	"github.com/valkey-io/valkey-go"

	"tidegate/functions/admin/auth"
	"tidegate/internal/apikey"
	"tidegate/internal/policy"
	"tidegate/internal/registry"
	"tidegate/internal/store/keyspace"
)

// usedKey is a hash with the minute of each token's last use.
var usedKey = keyspace.Of("tokens", "used")

// Store has the tokens of a registry, and when they were last used. It is safe for
// concurrent use.
type Store struct {
	records *registry.Store
	client  valkey.Client
	pepper  apikey.Pepper
	now     func() time.Time

	mu   sync.Mutex
	used map[string]time.Time // minutes that this process wrote
}

// NewStore returns a Store on a connected client.
func NewStore(records *registry.Store, client valkey.Client, pepper apikey.Pepper) *Store {
	return &Store{records: records, client: client, pepper: pepper, now: time.Now,
		used: map[string]time.Time{}}
}

// Create stores a new token and returns it with its secret, which is not stored. It fails
// with an *InvalidError, with ErrTooMany, or with ErrByToken, so that a leaked token
// cannot create another. The result is valid with the errors of registry.Store.Create too.
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
	t := registry.Token{ID: secret.ID(), Name: n.Name, Scope: string(n.Scope), By: n.By.Name, Created: now,
		Expires: n.Expires}
	err := s.records.CreateToken(ctx, t, s.pepper.Hash(secret), registry.Edit{By: n.By})
	if errors.Is(err, registry.ErrTooMany) {
		return Token{}, apikey.Secret{}, ErrTooMany
	}
	return tokenOf(t), secret, err
}

// Authenticate returns the token with this text, and records the minute of its use. It
// fails with ErrUnknown, without a request to Valkey if the checksum is wrong. Any other
// error means that the token could not be checked.
func (s *Store) Authenticate(ctx context.Context, text string) (Token, error) {
	secret, err := apikey.ParsePlain(prefix, text)
	if err != nil {
		return Token{}, ErrUnknown
	}
	record, hash, err := s.records.FindToken(ctx, secret.ID())
	if errors.Is(err, policy.ErrNotFound) {
		return Token{}, ErrUnknown
	}
	if err != nil {
		return Token{}, fmt.Errorf("find token: %w", err)
	}
	given := s.pepper.Hash(secret)
	t := tokenOf(record)
	if !hmac.Equal(hash[:], given[:]) || t.Expired(s.now()) {
		return Token{}, ErrUnknown
	}
	t.Used = s.now().Truncate(time.Minute).UTC()
	return t, s.use(ctx, t)
}

// use stores the minute of a token's use.
func (s *Store) use(ctx context.Context, t Token) error {
	s.mu.Lock()
	known := s.used[t.ID].Equal(t.Used)
	s.used[t.ID] = t.Used
	s.mu.Unlock()
	if known {
		return nil
	}
	minute := strconv.FormatInt(t.Used.Unix(), 10)
	err := s.client.Do(ctx, s.client.B().Hset().Key(usedKey).FieldValue().FieldValue(t.ID,
		minute).Build()).Error()
	if err != nil {
		return fmt.Errorf("note use of token: %w", err)
	}
	return nil
}

// List returns all tokens, including expired ones, ordered by creation.
func (s *Store) List(ctx context.Context) ([]Token, error) {
	records, err := s.records.ListTokens(ctx)
	if err != nil {
		return nil, fmt.Errorf("list tokens: %w", err)
	}
	used, err := s.client.Do(ctx, s.client.B().Hgetall().Key(usedKey).Build()).AsIntMap()
	if err != nil {
		return nil, fmt.Errorf("list tokens: last use: %w", err)
	}
	all := make([]Token, len(records))
	for i, record := range records {
		all[i] = tokenOf(record)
		if minute, ok := used[record.ID]; ok {
			all[i].Used = time.Unix(minute, 0).UTC()
		}
	}
	return all, nil
}

// Revoke removes a token. Every call with it that starts after Revoke returns is refused.
// It fails with ErrNotFound.
func (s *Store) Revoke(ctx context.Context, id string, by registry.Actor) error {
	if !apikey.ValidID(id) {
		return ErrNotFound
	}
	err := s.records.RevokeToken(ctx, id, registry.Edit{By: by})
	if errors.Is(err, policy.ErrNotFound) {
		return ErrNotFound
	}
	s.client.Do(ctx, s.client.B().Hdel().Key(usedKey).Field(id).Build()) // if it fails, a few bytes stay
	return err
}

// unreadable is the name of a token whose record cannot be read.
const unreadable = "unreadable"

func tokenOf(t registry.Token) Token {
	if t.Name == "" {
		t.Name = unreadable
	}
	return Token{ID: t.ID, Name: t.Name, Scope: Scope(t.Scope), By: t.By, Created: t.Created,
		Expires: t.Expires}
}
