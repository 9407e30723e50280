package registry

import (
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"tidegate/internal/apikey"
	"tidegate/internal/changes"
	"tidegate/internal/policy"
	"tidegate/internal/policyset"
)

// Repeat is a request that a caller may send again, for lack of an answer. The edit is made
// once: its change has an id that follows from the request. A new secret follows from the
// pepper, the request and the number of the change, so nothing of it is stored, and a repeat
// gets the same one. A request of another caller with the same Key is another request.
type Repeat struct {
	By   string // the caller
	Key  string // what the caller calls the request: a secret that only the caller knows
	Body []byte // what the caller asks for
}

var (
	// ErrRepeated is an error beside a valid result: an earlier request made it.
	ErrRepeated = errors.New("an earlier request made it")
	// ErrReused means that the caller gave the name of an earlier request to another one.
	ErrReused = errors.New("the name of the request was used for another request")
	// ErrDeleted means that what an earlier request made was deleted since.
	ErrDeleted = errors.New("what the earlier request made was deleted")
)

// repeatReach is how long after a creation a repeat finds that its key was deleted, or that
// another request had its name.
const repeatReach = 24 * time.Hour

// request is what follows from a Repeat. The id is public, the seed is not.
type request struct {
	seed string
	id   string // the first part of the change's id
	sum  string // of the body, the second part
}

// request returns nil for nil.
func (s *Store) request(action, record string, r *Repeat) *request {
	if r == nil {
		return nil
	}
	hash := func(purpose string, parts ...string) string {
		text, err := json.Marshal(parts)
		if err != nil {
			panic(err) // texts always marshal
		}
		mac := hmac.New(sha256.New, s.pepper.Derive("request "+purpose))
		mac.Write(text)
		return hex.EncodeToString(mac.Sum(nil))
	}
	return &request{seed: hash("seed", action, record, r.By, r.Key),
		id:  hash("id", action, record, r.By, r.Key)[:32],
		sum: hash("body", string(r.Body))[:32]}
}

// change returns the id of the change; empty for nil.
func (r *request) change() string {
	if r == nil {
		return ""
	}
	return r.id + "." + r.sum
}

// made reports whether the request made the change with an id. It fails with ErrReused if
// another request of the same name did.
func (r *request) made(id string) (bool, error) {
	name, sum, _ := strings.Cut(id, ".")
	switch {
	case name != r.id:
		return false, nil
	case sum != r.sum:
		return false, ErrReused
	}
	return true, nil
}

// createOnce is Create for a request that may be repeated. k is the key without its id.
func (s *Store) createOnce(ctx context.Context, n policy.NewKey, k policy.Key, edit Edit) (
	policy.Key, apikey.Secret, error) {
	q := s.request(KeyCreate, "", edit.Repeat)
	edit.id = q.change()
	secretAt := func(env string, number uint64) (apikey.Secret, error) {
		if n.Value != "" {
			return s.newSecret(n)
		}
		return s.pepper.Repeated(env, "", q.seed, number)
	}
	secret, err := secretAt(n.Env, 0)
	if err != nil {
		return policy.Key{}, apikey.Secret{}, err
	}
	k.ID = secret.ID()
	if k, secret, err := s.repeated(ctx, k.ID, q, secretAt); !errors.Is(err, policy.ErrNotFound) {
		return k, secret, err
	}
	deleted := s.deleted(ctx, q)
	if deleted != nil && !errors.Is(deleted, ErrDeleted) {
		return policy.Key{}, apikey.Secret{}, deleted
	}
	create := func(set *policy.Set, stored *storedKey) (err error) {
		if deleted != nil { // and there is no key now, as the same request at the same time makes it
			return deleted
		}
		if secret, err = secretAt(n.Env, stored.next); err != nil {
			return err
		}
		stored.Key = k
		stored.hashes = policyset.Secrets{Current: s.pepper.Hash(secret)}
		return stored.Validate(set, policy.Key{})
	}
	created, err := s.editKey(ctx, k.ID, KeyCreate, edit, true, create)
	switch {
	case errors.Is(err, policy.ErrConflict): // made by the same request at the same time
		return s.repeated(ctx, k.ID, q, secretAt)
	case !made(err):
		return policy.Key{}, apikey.Secret{}, err
	}
	return created, secret, err
}

// Rotated returns what an earlier request to rotate a key left, and ErrRepeated; without
// such a request policy.ErrNotFound.
func (s *Store) Rotated(ctx context.Context, id string, edit Edit) (policy.Key, apikey.Secret, error) {
	q := s.request(KeyRotate, id, edit.Repeat)
	if q == nil {
		return policy.Key{}, apikey.Secret{}, policy.ErrNotFound
	}
	k, secret, err := s.repeated(ctx, id, q, func(env string, number uint64) (apikey.Secret, error) {
		return s.pepper.Repeated(env, id, q.seed, number)
	})
	if errors.Is(err, policy.ErrConflict) {
		err = policy.ErrNotFound
	}
	return k, secret, err
}

// repeated returns a key as it is now, with ErrRepeated, if the request made one of its last
// changes. It has no secret if the one that the request made is not the current one any
// more. It fails with ErrNotFound without a key, and with ErrConflict if others made it.
func (s *Store) repeated(ctx context.Context, id string, q *request,
	secretAt func(env string, number uint64) (apikey.Secret, error)) (policy.Key, apikey.Secret, error) {
	_, k, err := s.load(ctx, id)
	if err != nil {
		return policy.Key{}, apikey.Secret{}, err
	}
	number := uint64(k.Version)
	for read := 0; number > 0 && read < historyRead; read++ {
		c, err := s.log.Change(ctx, number)
		if err != nil {
			return policy.Key{}, apikey.Secret{}, fmt.Errorf("registry: %w", err)
		}
		same, err := q.made(c.ID)
		if err != nil {
			return policy.Key{}, apikey.Secret{}, err
		}
		if same {
			secret, err := secretAt(k.Env, number)
			if err != nil {
				return policy.Key{}, apikey.Secret{}, err
			}
			if sum := s.pepper.Hash(secret); subtle.ConstantTimeCompare(sum[:], k.hashes.Current[:]) != 1 {
				secret = apikey.Secret{}
			}
			return k.Key, secret, ErrRepeated
		}
		number = 0
		if i := slices.IndexFunc(c.Items, func(i changes.Item) bool { return i.Record == id }); i >= 0 {
			number = c.Items[i].Last
		}
	}
	return policy.Key{ID: id}, apikey.Secret{}, policy.ErrConflict
}

// deleted fails with ErrDeleted if the request made a key within repeatReach, which is
// deleted if it does not exist, and with ErrReused if another of the same name did.
func (s *Store) deleted(ctx context.Context, q *request) error {
	since := s.Now().Add(-repeatReach - clockSkew)
	for before, scanned := uint64(0), 0; scanned < auditKept; scanned += auditRead {
		entries, err := s.log.Recent(ctx, before, auditRead)
		if err != nil {
			return fmt.Errorf("registry: %w", err)
		}
		for _, e := range entries {
			if before = e.Number; !e.Time.IsZero() && e.Time.Before(since) {
				return nil
			}
			same, err := q.made(e.ID)
			if same {
				err = ErrDeleted
			}
			if err != nil {
				return err
			}
		}
		if before <= 1 || len(entries) == 0 {
			return nil
		}
	}
	return nil
}
