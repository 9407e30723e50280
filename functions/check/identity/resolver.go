package identity

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"slices"

	"tidegate/internal/apikey"
	"tidegate/internal/jwt"
)

// Config says where identities come from.
type Config struct {
	Sources  []Kind // in order; at least one
	JWT      jwt.Config
	IPv4Bits int // length of the prefixes that share an identity
	IPv6Bits int
	Foreign  bool // take API keys that another system made
	// Pepper keys the opaque ids of token subjects and addresses. It is required unless
	// API keys of our form are the only source.
	Pepper apikey.Pepper
}

// Default returns a Config with API keys alone, whole IPv4 addresses, and the /64 that
// one customer usually has in IPv6.
func Default() Config { return Config{Sources: []Kind{Key}, IPv4Bits: 32, IPv6Bits: 64} }

// Resolver identifies callers. It is safe for concurrent use.
type Resolver struct {
	config   Config
	key      apikey.Key
	verifier *jwt.Verifier // nil unless JWT is a source
}

// New returns a Resolver. It makes no network call.
func New(c Config) (*Resolver, error) {
	r := &Resolver{config: c, key: apikey.NewKey(c.Pepper)}
	if len(c.Sources) == 0 {
		return nil, errors.New("identities need a source")
	}
	if c.IPv4Bits < 0 || c.IPv4Bits > 32 || c.IPv6Bits < 0 || c.IPv6Bits > 128 {
		return nil, fmt.Errorf("prefix lengths are %d and %d: must be 0 to 32 and 0 to 128",
			c.IPv4Bits, c.IPv6Bits)
	}
	if len(c.Pepper) < apikey.MinPepperLen && (c.Foreign || !slices.Equal(c.Sources, []Kind{Key})) {
		return nil, fmt.Errorf("pepper has %d bytes: must have at least %d, since ids are made with it",
			len(c.Pepper), apikey.MinPepperLen)
	}
	if slices.Contains(c.Sources, JWT) {
		verifier, err := jwt.New(c.JWT)
		if err != nil {
			return nil, fmt.Errorf("identities from tokens: %w", err)
		}
		r.verifier = verifier
	}
	return r, nil
}

// Warm fetches the keys of the token issuer if they come from a URL, so that the first
// call need not wait for them.
func (r *Resolver) Warm(ctx context.Context) {
	if r.verifier != nil {
		r.verifier.Warm(ctx)
	}
}

// Identify returns the caller. It fails with ErrMissing, ErrInvalid or ErrUnavailable;
// Addr and Address are set nevertheless. It checks only the form and checksum of an API
// key. It verifies a token, and may fetch the issuer's keys for that.
//
// The first source with a credential identifies the caller. Credentials for later sources
// must be good as well: a backend that reads Authorization itself would trust a token
// that nobody verified.
func (r *Resolver) Identify(ctx context.Context, request Request) (Identity, error) {
	unknown := Identity{Addr: request.Source.Unmap().WithZone("")}
	unknown.Address = r.prefix(unknown.Addr)
	caller, err := unknown, ErrMissing
	for _, kind := range r.config.Sources {
		if kind == IP && err == nil {
			break // an address is no credential
		}
		found, fault := r.from(ctx, kind, request, unknown)
		switch {
		case errors.Is(fault, ErrMissing):
		case fault != nil:
			return unknown, fault
		case err != nil:
			caller, err = found, nil
		}
	}
	return caller, err
}

// from reads the credential of one source. It fails with ErrMissing if the request has
// none.
func (r *Resolver) from(ctx context.Context, kind Kind, request Request, id Identity) (Identity, error) {
	switch kind {
	case Key:
		return r.fromKey(request, id)
	case JWT:
		return r.fromToken(ctx, request, id)
	case IP:
		return r.fromAddress(id)
	}
	return id, ErrMissing
}

func (r *Resolver) fromKey(request Request, id Identity) (Identity, error) {
	text, err := request.apiKey(r.config.Foreign && r.verifier == nil)
	if err != nil {
		return id, err
	}
	secret, err := apikey.Parse(text)
	if err != nil && r.config.Foreign {
		secret, err = r.key.Foreign(text)
	}
	if err != nil {
		return id, invalid("malformed API key")
	}
	id.Kind, id.Subject, id.Display, id.Secret = Key, secret.ID(), secret.ID(), secret
	return id, nil
}

func (r *Resolver) fromToken(ctx context.Context, request Request, id Identity) (Identity, error) {
	token, err := request.token(slices.Contains(r.config.Sources, Key))
	if err != nil {
		return id, err
	}
	claims, err := r.verifier.Verify(ctx, token)
	switch {
	case errors.Is(err, jwt.ErrNoKeys):
		return id, fmt.Errorf("%w: %w", ErrUnavailable, err)
	case err != nil:
		return id, fmt.Errorf("%w: %w", ErrInvalid, err)
	}
	id.Kind, id.Subject, id.Display, id.Plan = JWT, r.key.Token(claims.Issuer, claims.Subject),
		display(claims.Subject), claims.Plan
	return id, nil
}

func (r *Resolver) fromAddress(id Identity) (Identity, error) {
	if !id.Address.IsValid() {
		return id, ErrMissing
	}
	id.Kind, id.Subject, id.Display = IP, r.key.Address(id.Address), id.Address.String()
	return id, nil
}

// prefix returns the configured prefix of an address; the zero Prefix if the address is
// not valid.
func (r *Resolver) prefix(addr netip.Addr) netip.Prefix {
	bits := r.config.IPv6Bits
	if addr.Is4() {
		bits = r.config.IPv4Bits
	}
	prefix, err := addr.Prefix(bits)
	if err != nil {
		return netip.Prefix{}
	}
	return prefix
}
