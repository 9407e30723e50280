package registry

import (
	"context"
	"crypto/sha256"
	"errors"
	"time"
)

// MaxTokens is how many machine tokens there are at most, with those that expired.
const MaxTokens = 200

// ErrTooMany means that there are MaxTokens tokens.
var ErrTooMany = errors.New("there are too many tokens; revoke one first")

// Token is a machine token as stored, without its secret.
type Token struct {
	ID      string    `json:"id"`
	Name    string    `json:"name"`
	Scope   string    `json:"scope"`
	By      string    `json:"createdBy"` // its creator
	Created time.Time `json:"created"`
	Expires time.Time `json:"expires"`
}

// CreateToken stores a token with the hash of its secret. It fails with ErrTooMany.
func (s *Store) CreateToken(ctx context.Context, t Token, hash [sha256.Size]byte, edit Edit) error {
	panic("todo")
}

// ListTokens returns all tokens, ordered by creation. One whose record cannot be read has
// only an ID.
func (s *Store) ListTokens(ctx context.Context) ([]Token, error) { panic("todo") }

// FindToken returns a token and the hash of its secret. It fails with policy.ErrNotFound
// for a token that does not exist or is revoked.
func (s *Store) FindToken(ctx context.Context, id string) (Token, [sha256.Size]byte, error) {
	panic("todo")
}

// RevokeToken removes a token. It fails with policy.ErrNotFound.
func (s *Store) RevokeToken(ctx context.Context, id string, edit Edit) error { panic("todo") }
