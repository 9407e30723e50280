package app

import (
	"context"

	"tidegate/functions/admin/list"
	"tidegate/internal/policy"
)

// Pasted is what a list says of a secret in its filter, which no page repeats.
const Pasted = "you pasted a whole secret. Its id is enough. Consider rotating the key"

// resolve replaces the name of a key in the parameter key of a query by the key's id, and
// returns the key. The id of a caller without a record, or of a deleted key, stays.
func (r *Registry) resolve(ctx context.Context, set *policy.Set, key *string) (policy.Key, error) {
	if *key == "" {
		return policy.Key{}, nil
	}
	found, err := r.ResolveKeys(ctx, set, *key)
	switch {
	case err != nil:
		return policy.Key{}, err
	case found.Secret:
		return policy.Key{}, &list.InvalidError{Name: "key", Message: Pasted, Secret: true}
	case len(found.Keys) == 1:
		*key = found.Keys[0].ID
		return found.Keys[0], nil
	case len(found.Keys) > 1:
		return policy.Key{}, &list.InvalidError{Name: "key",
			Message: "several names begin with this. Enter a whole name or an id"}
	case !IsCaller(*key) && !keyPattern.MatchString(*key):
		return policy.Key{}, &list.InvalidError{Name: "key", Message: "no key has this name or id"}
	}
	return policy.Key{}, nil
}
