package app

import (
	"context"
	"errors"
	"net/netip"
	"regexp"
	"strings"

	"tidegate/internal/apikey"
	"tidegate/internal/policy"
	"tidegate/internal/proxies"
	"tidegate/internal/registry"
)

var (
	idPattern     = regexp.MustCompile(`^[0-9A-Za-z_-]{1,64}$`)
	keyPattern    = regexp.MustCompile(`^[0-9A-Za-z]{12}$`)
	callerPattern = regexp.MustCompile(`^[0-9A-Za-z_-]{22}$`)
)

// IsID reports whether a text can be the id of a key or caller.
func IsID(text string) bool { return idPattern.MatchString(text) }

// IsCaller reports whether a text can be the id of a caller without an API key.
func IsCaller(id string) bool { return callerPattern.MatchString(id) }

// v6Bits is the default IPv6 prefix length of the check function.
const v6Bits = 64

// ParseAddress parses a client's address and returns it with the network that checks
// count it as. ok is false for a text that is no address or has a zone.
func ParseAddress(text string) (addr netip.Addr, network netip.Prefix, ok bool) {
	addr, err := netip.ParseAddr(text)
	if err != nil || addr.Zone() != "" {
		return netip.Addr{}, netip.Prefix{}, false
	}
	addr = addr.Unmap()
	bits := addr.BitLen()
	if addr.Is6() {
		bits = v6Bits
	}
	network, err = addr.Prefix(bits)
	return addr, network, err == nil
}

// ClientOf parses the address that API Gateway saw and returns the one that counts, with
// its network, if the call has a header with this value. why says which one counts.
func ClientOf(trusted proxies.Trusted, source, forwarded string) (
	addr netip.Addr, network netip.Prefix, why string, ok bool,
) {
	addr, _, ok = ParseAddress(source)
	if !ok {
		return addr, network, "", false
	}
	client := trusted.Client(addr, func(string) []string {
		if forwarded == "" {
			return nil
		}
		return []string{forwarded}
	})
	addr, network, ok = ParseAddress(client.Addr.String())
	return addr, network, client.Why, ok
}

// minSecret is the length in bytes from which a text that begins as a secret is taken for
// one, perhaps mistyped, and not for the name of a key.
const minSecret = 30

// LooksLikeSecret reports whether a text is a Tidegate secret, perhaps mistyped.
func LooksLikeSecret(text string) bool {
	text = strings.TrimSpace(text)
	return strings.HasPrefix(text, "tg_") && len(text) >= minSecret
}

// ResolvedKey is the key that an id or a secret belongs to.
type ResolvedKey struct {
	Key    policy.Key // without an ID if there is no such key
	Secret bool       // the text is a secret or looks like one: never show it
	// Use is what a secret is to the key, as checks judge it.
	Use registry.SecretUse
}

// Dead reports whether calls with the secret get 401 although it names a key.
func (k ResolvedKey) Dead() bool {
	return k.Secret && k.Key.ID != "" && k.Key.Status != policy.Unreadable && k.Use == registry.DeadSecret
}

// Previous reports whether the secret works only until the key's grace ends.
func (k ResolvedKey) Previous() bool { return k.Secret && k.Use == registry.PreviousSecret }

// ResolveKey finds a key by its id or secret. A secret is found by the id in it. A key that
// cannot be read has its ID and Status.
func (r *Registry) ResolveKey(ctx context.Context, text string) (ResolvedKey, error) {
	text = strings.TrimSpace(text)
	resolved := ResolvedKey{Secret: LooksLikeSecret(text)}
	if foreign, ok := r.store.ForeignID(text); ok {
		k, err := r.byID(ctx, foreign)
		if err != nil || k.ID != "" {
			return r.judged(ctx, ResolvedKey{Key: k, Secret: true}, text, err)
		}
	}
	id := text
	if secret, err := apikey.Parse(text); err == nil {
		id = secret.ID()
		resolved.Secret = true
	} else if resolved.Secret || !IsID(text) {
		return resolved, nil
	}
	var err error
	resolved.Key, err = r.byID(ctx, id)
	return r.judged(ctx, resolved, text, err)
}

// judged adds what a secret is to its key.
func (r *Registry) judged(ctx context.Context, k ResolvedKey, text string, err error) (ResolvedKey, error) {
	if err != nil || !k.Secret || k.Key.ID == "" || k.Key.Status == policy.Unreadable {
		return k, err
	}
	set, err := r.Set(ctx)
	if err != nil {
		return k, err
	}
	_, k.Use, err = r.store.SecretOf(ctx, set, text)
	return k, err
}

// byID returns the key with an id, or a key without an ID if there is none. A key that
// cannot be read has its ID and Status.
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

// maxResolved bounds ResolvedKeys.Keys.
const maxResolved = 10

// ResolvedKeys are the keys that a text may name.
type ResolvedKeys struct {
	Keys   []policy.Key // at most maxResolved
	More   bool         // more names begin with the text
	Secret bool         // as in ResolvedKey
}

// ResolveKeys finds the key with an id or secret, else the only key with the name text,
// else the keys whose names begin with text. Case does not matter in names.
func (r *Registry) ResolveKeys(ctx context.Context, set *policy.Set, text string) (ResolvedKeys, error) {
	one, err := r.ResolveKey(ctx, text)
	switch {
	case err != nil || one.Secret && one.Key.ID == "":
		return ResolvedKeys{Secret: one.Secret}, err
	case one.Key.ID != "":
		return ResolvedKeys{Keys: []policy.Key{one.Key}, Secret: one.Secret}, nil
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
	equal := func(i int) bool { return i < len(found.Keys) && strings.EqualFold(found.Keys[i].Name, name) }
	if equal(0) && !equal(1) { // names are sorted: equal ones come first
		found.Keys, found.More = found.Keys[:1], false
	}
	return found, nil
}
