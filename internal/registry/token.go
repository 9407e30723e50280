package registry

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"tidegate/internal/changes"
	"tidegate/internal/policy"
)

// MaxTokens is how many machine tokens there are at most, with those that expired.
const MaxTokens = 200

// ErrTooMany means that there are MaxTokens tokens.
var ErrTooMany = errors.New("there are too many tokens; revoke one first")

// Token is a machine token as stored, without its secret. Its record is the hash of the
// secret, and the Token as JSON.
type Token struct {
	ID      string    `json:"id"`
	Name    string    `json:"name"`
	Scope   string    `json:"scope"`
	By      string    `json:"createdBy"` // its creator
	Created time.Time `json:"created"`
	Expires time.Time `json:"expires"`
}

// decodeToken decodes a record. It fails with policy.ErrUnreadable; the token then has its
// ID alone.
func decodeToken(record string, content []byte) (t Token, hash [sha256.Size]byte, err error) {
	id := strings.TrimPrefix(record, tokenPrefix)
	if len(content) < len(hash) {
		return Token{ID: id}, hash, policy.ErrUnreadable
	}
	if err := json.Unmarshal(content[len(hash):], &t); err != nil {
		return Token{ID: id}, hash, fmt.Errorf("%w: %w", policy.ErrUnreadable, err)
	}
	copy(hash[:], content)
	t.ID = id
	return t, hash, nil
}

// CreateToken stores a token with the hash of its secret. It fails with ErrTooMany. With
// changes.ErrUnknown the token may be stored.
func (s *Store) CreateToken(ctx context.Context, t Token, hash [sha256.Size]byte, edit Edit) error {
	if err := edit.Validate(); err != nil {
		return err
	}
	text, err := json.Marshal(t)
	if err != nil {
		return fmt.Errorf("registry: create token: %w", err)
	}
	record := tokenPrefix + t.ID
	receipt, err := s.log.Edit(ctx, edit.change(TokenCreate),
		func(ctx context.Context, r *changes.Reader) ([]changes.Item, error) {
			if n, err := r.Count(ctx, allTokens+"\x00"); err != nil {
				return nil, err
			} else if n >= MaxTokens {
				return nil, ErrTooMany
			}
			found, err := r.Get(ctx, record)
			if err != nil {
				return nil, err
			}
			if len(found[0].Content) > 0 {
				return nil, policy.ErrConflict
			}
			return []changes.Item{{Record: record, After: append(hash[:], text...)}}, nil
		})
	if err != nil {
		return editError(err)
	}
	return acknowledge(receipt)
}

// ListTokens returns all tokens, ordered by creation. One whose record cannot be read has
// only an ID.
func (s *Store) ListTokens(ctx context.Context) ([]Token, error) {
	listed, err := s.log.List(ctx, changes.Part{Begin: allTokens + "\x00", Limit: MaxTokens})
	if err != nil {
		return nil, fmt.Errorf("registry: list tokens: %w", err)
	}
	var names []string
	for _, entry := range listed[0].Entries {
		names = append(names, memberID(entry))
	}
	if len(names) == 0 {
		return nil, nil
	}
	found, err := s.log.Records(ctx, names...)
	if err != nil {
		return nil, fmt.Errorf("registry: list tokens: %w", err)
	}
	var tokens []Token
	for _, record := range found {
		if len(record.Content) > 0 && len(record.Marks) == 0 {
			t, _, _ := decodeToken(record.Name, record.Content)
			tokens = append(tokens, t)
		}
	}
	slices.SortFunc(tokens, func(a, b Token) int {
		return cmp.Or(a.Created.Compare(b.Created), strings.Compare(a.ID, b.ID))
	})
	return tokens, nil
}

// FindToken returns a token and the hash of its secret. It fails with policy.ErrNotFound
// for a token that does not exist or is revoked, and with policy.ErrUnreadable.
func (s *Store) FindToken(ctx context.Context, id string) (Token, [sha256.Size]byte, error) {
	var none [sha256.Size]byte
	if !validID(id) {
		return Token{}, none, policy.ErrNotFound
	}
	found, err := s.log.Records(ctx, tokenPrefix+id)
	switch {
	case err != nil:
		return Token{}, none, fmt.Errorf("registry: find token: %w", err)
	case len(found[0].Content) == 0 || len(found[0].Marks) > 0:
		return Token{}, none, policy.ErrNotFound
	}
	return decodeToken(found[0].Name, found[0].Content)
}

// RevokeToken removes a token. Every call with it that starts after RevokeToken returns is
// refused, also with ErrNotStored. It fails with policy.ErrNotFound.
func (s *Store) RevokeToken(ctx context.Context, id string, edit Edit) error {
	if err := edit.Validate(); err != nil {
		return err
	}
	if _, _, err := s.FindToken(ctx, id); err != nil && !errors.Is(err, policy.ErrUnreadable) {
		return err
	}
	receipt, err := s.log.Mark(ctx, changes.Mark{Record: tokenPrefix + id, Action: TokenRevoke,
		By: edit.By.text(), Why: edit.Reason})
	switch {
	case err != nil:
		return fmt.Errorf("registry: revoke token: %w", err)
	case receipt.Number == 0:
		return ErrNotStored
	}
	return acknowledge(receipt)
}
