package token

import (
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

	"tidegate/internal/apikey"
)

// All tokens are fields of one hash, by their id, and the minutes of their last use of another in the same slot. They are few.
const (
	recordsKey = "tg:{tokens}:records"
	usedKey    = "tg:{tokens}:used"
)

var (
	//go:embed create.lua
	createLua string
	//go:embed find.lua
	findLua string

	createScript = valkey.NewLuaScript(createLua)
	// Finding a token twice is finding it once, so the client may repeat it after a network error.
	findScript = valkey.NewLuaScriptRetryable(findLua)
)

// Store keeps tokens in Valkey. It is safe for concurrent use.
type Store struct {
	client valkey.Client
	pepper apikey.Pepper
	now    func() time.Time
}

// NewStore returns a Store on a connected client.
func NewStore(client valkey.Client, pepper apikey.Pepper) *Store {
	return &Store{client: client, pepper: pepper, now: time.Now}
}

// A record is the hash, the second of its expiry in ten digits (which find.lua compares as text), and the rest as JSON.
const (
	expiryAt = sha256.Size
	restAt   = expiryAt + 10
)

// rest is what a record holds beside hash and expiry.
type rest struct {
	Name    string `json:"name"`
	Scope   Scope  `json:"scope"`
	By      string `json:"by"`
	Created int64  `json:"created"` // second of the Unix epoch
}

func seconds(t time.Time) string { return fmt.Sprintf("%010d", t.Unix()) }

// Create stores a new token and returns it with its secret, which cannot be had again. It fails with an *InvalidError, or with ErrTooMany.
func (s *Store) Create(ctx context.Context, n New) (Token, apikey.Secret, error) {
	now := s.now().UTC().Truncate(time.Second)
	n.Expires = n.Expires.UTC().Truncate(time.Second)
	if err := n.validate(now); err != nil {
		return Token{}, apikey.Secret{}, err
	}
	secret := apikey.GeneratePlain(prefix)
	hash := s.pepper.Hash(secret)
	text, err := json.Marshal(rest{Name: n.Name, Scope: n.Scope, By: n.By, Created: now.Unix()})
	if err != nil {
		return Token{}, apikey.Secret{}, fmt.Errorf("create token: %w", err)
	}
	t := Token{ID: secret.ID(), Name: n.Name, Scope: n.Scope, By: n.By, Created: now, Expires: n.Expires}
	record := string(hash[:]) + seconds(t.Expires) + string(text)
	created, err := createScript.Exec(ctx, s.client, []string{recordsKey}, []string{t.ID, record, strconv.Itoa(MaxCount)}).AsInt64()
	if err != nil {
		return Token{}, apikey.Secret{}, fmt.Errorf("create token: %w", err)
	}
	if created == 0 {
		return Token{}, apikey.Secret{}, ErrTooMany
	}
	return t, secret, nil
}

// Authenticate returns the token that a text is, and notes the minute of its use. It fails with ErrUnknown, without asking Valkey when the checksum
// is wrong; any other error means that nobody knows.
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

// List returns all tokens, expired ones too, in the order of their creation.
func (s *Store) List(ctx context.Context) ([]Token, error) {
	replies := s.client.DoMulti(ctx, s.client.B().Hgetall().Key(recordsKey).Build(), s.client.B().Hgetall().Key(usedKey).Build())
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
			t = Token{ID: id, Name: "unreadable"}
		}
		if minute, ok := used[id]; ok {
			t.Used = time.Unix(minute, 0).UTC()
		}
		all = append(all, t)
	}
	slices.SortFunc(all, func(a, b Token) int {
		if c := a.Created.Compare(b.Created); c != 0 {
			return c
		}
		return strings.Compare(a.ID, b.ID)
	})
	return all, nil
}

// Revoke removes a token: every call with it that starts after Revoke returns is refused. It fails with ErrNotFound.
func (s *Store) Revoke(ctx context.Context, id string) error {
	if !apikey.ValidID(id) {
		return ErrNotFound
	}
	replies := s.client.DoMulti(ctx,
		s.client.B().Hdel().Key(recordsKey).Field(id).Build(),
		s.client.B().Hdel().Key(usedKey).Field(id).Build())
	removed, err := replies[0].AsInt64()
	if err != nil {
		return fmt.Errorf("revoke token: %w", err)
	}
	if err := replies[1].Error(); err != nil {
		return fmt.Errorf("revoke token: last use: %w", err)
	}
	if removed == 0 {
		return ErrNotFound
	}
	return nil
}

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
