package app

import (
	"context"
	"errors"
	"strings"

	"tidegate/internal/apikey"
	"tidegate/internal/policy"
)

// maxResolved is the longest choice of keys that ResolveKeys returns.
const maxResolved = 10

// minSecret is from how many characters on a text may be a secret, perhaps mistyped, and
// not the name of a key.
const minSecret = 30

// LooksLikeSecret reports whether a text is a secret of ours, perhaps mistyped.
func LooksLikeSecret(text string) bool {
	text = strings.TrimSpace(text)
	return strings.HasPrefix(text, "tg_") && len(text) >= minSecret
}

// ResolvedKey is the key whose id or secret somebody typed.
type ResolvedKey struct {
	Key    policy.Key // without an ID when there is none
	Secret bool       // the text is a secret, or looks like one: show it nowhere
}

// ResolveKey finds the key whose id or secret a text is. The id in a secret finds it;
// whether the secret is valid is not revealed. byID says what it gives of a key
// that cannot be read.
func (r *Registry) ResolveKey(ctx context.Context, text string) (ResolvedKey, error) {
	text = strings.TrimSpace(text)
	p := ResolvedKey{Secret: LooksLikeSecret(text)}
	if foreign, ok := r.store.ForeignID(text); ok {
		k, err := r.byID(ctx, foreign)
		if err != nil || k.ID != "" {
			return ResolvedKey{k, true}, err
		}
	}
	id := text
	if secret, err := apikey.Parse(text); err == nil {
		id = secret.ID()
	} else if p.Secret || !IsID(text) {
		return p, nil
	}
	var err error
	p.Key, err = r.byID(ctx, id)
	return p, err
}

// byID returns the key with this id, without an ID when there is none. A key that cannot
// be read has its ID and Status.
func (r *Registry) byID(ctx context.Context, id string) (policy.Key, error) {
	k, err := r.Get(ctx, id)
	switch {
	case errors.Is(err, policy.ErrUnreadable):
		return policy.Key{ID: id, Name: id, Status: policy.Unreadable}, nil
	case errors.Is(err, policy.ErrNotFound):
		return policy.Key{}, nil
	}
	return k, err
}

// ResolvedKeys are the keys that a text names.
type ResolvedKeys struct {
	Keys   []policy.Key // at most maxResolved
	More   bool         // more names begin so
	Secret bool         // as ResolvedKey has it
}

// ResolveKeys finds the keys that a text means: the one with this id or secret; else the only
// one with this name, whatever the case; else those whose names begin so.
func (r *Registry) ResolveKeys(ctx context.Context, set *policy.Set, text string) (ResolvedKeys, error) {
	p, err := r.ResolveKey(ctx, text)
	switch {
	case err != nil || p.Secret && p.Key.ID == "":
		return ResolvedKeys{Secret: p.Secret}, err
	case p.Key.ID != "":
		return ResolvedKeys{Keys: []policy.Key{p.Key}, Secret: p.Secret}, nil
	}
	name := strings.TrimSpace(text)
	if name == "" {
		return ResolvedKeys{}, nil
	}
	list, err := r.List(ctx, set, KeyFilter{Prefix: name}, "", maxResolved)
	if err != nil {
		return ResolvedKeys{}, err
	}
	found := ResolvedKeys{Keys: list.Keys, More: list.Next != ""}
	same := func(i int) bool { return i < len(found.Keys) && strings.EqualFold(found.Keys[i].Name, name) }
	if same(0) && !same(1) { // names are in order, so that equal ones come first
		found.Keys, found.More = found.Keys[:1], false
	}
	return found, nil
}
