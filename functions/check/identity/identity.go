// Package identity identifies callers by an API key, a bearer token of an issuer (JWT) or
// the client's address. The operator lists the sources and their order.
//
// The first source for which the request has a credential decides. A bad credential for
// any source refuses the call; the next source does not replace it. A call without a
// credential is refused too, unless ip is a source, which every call with a known address
// satisfies. An Identity has an opaque id that is safe in a Valkey key. It contains no
// credential except the API key, whose record the caller of this package looks up.
package identity

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/netip"
	"slices"
	"strconv"
	"strings"

	"tidegate/internal/apikey"
	"tidegate/internal/jwt"
)

// The errors of Identify. Each denies the call. No text, causes included, contains a
// credential or an address.
var (
	// ErrMissing means that the request has no credential for any of the sources.
	ErrMissing = errors.New("no credential")
	// ErrNoAddress means that the request has no credential and no address, which would
	// identify it.
	ErrNoAddress = errors.New("no credential, and no address that can be read")
	// ErrInvalid means that a credential is malformed, differs between places, or is not
	// good.
	ErrInvalid = errors.New("credential refused")
	// ErrUnavailable means that a token cannot be checked, because its issuer's keys
	// cannot be read now.
	ErrUnavailable = errors.New("credential cannot be checked")
)

// Reason returns what an error of Identify adds to the one that it is: which claim, key
// or form is the cause.
func Reason(err error) string {
	text := err.Error()
	for _, known := range []error{ErrInvalid, ErrUnavailable, jwt.ErrInvalid, jwt.ErrNoKeys} {
		text = strings.TrimPrefix(text, known.Error()+": ")
	}
	return text
}

// Kind is a source of identities. The zero value is none.
type Kind uint8

// The kinds. Their names are key, jwt and ip.
const (
	Key Kind = iota + 1
	JWT
	IP
)

var kindNames = [...]string{Key: "key", JWT: "jwt", IP: "ip"}

// String returns the kind's name in configuration, logs and pages.
func (k Kind) String() string {
	if k >= Key && int(k) < len(kindNames) {
		return kindNames[k]
	}
	return "none"
}

// Identity is an identified caller.
type Identity struct {
	Kind Kind
	// Subject is an opaque id of 12 (Key: the key's public id) or 22 characters of A–Z,
	// a–z, 0–9, - and _. It is the same for the same caller.
	Subject string
	Secret  apikey.Secret // Key only; not looked up yet, so it may be unknown
	Plan    string        // JWT only: the token's plan claim, or empty
	NoPlan  string        // JWT only: why the plan claim names no plan, for people
	// Claims are those of a token that backends get, by their key in the context.
	Claims map[string]any
	Scopes []string // of a token, which may be beside the key; nil without a token
	// Display is for people: a key's id, a token's subject shortened and escaped, or an
	// address prefix.
	Display string

	// Addr is the client's address, for lists of addresses: that which API Gateway saw, or
	// which a trusted proxy reports. It is not valid if the event has none. IPv4 has its short form.
	Addr    netip.Addr
	Address netip.Prefix // whose clients share limits; valid if Addr is
}

// String returns kind and subject: no credential and no address.
func (i Identity) String() string { return i.Kind.String() + " " + i.Subject }

// GoString is String.
func (i Identity) GoString() string { return i.String() }

// LogValue is kind and subject: no credential and no address.
func (i Identity) LogValue() slog.Value {
	return slog.GroupValue(slog.String("kind", i.Kind.String()), slog.String("subject", i.Subject))
}

// maxDisplayLen bounds the displayed part of a token's subject, in characters before
// escaping.
const maxDisplayLen = 64

// display shortens a text and escapes unprintable characters, direction marks included.
func display(text string) string {
	n := 0
	for i := range text {
		if n++; n > maxDisplayLen {
			text = text[:i] + "…"
			break
		}
	}
	quoted := strconv.Quote(text)
	return quoted[1 : len(quoted)-1]
}

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
	if c.has(JWT) {
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

// Identify returns the caller. It fails with ErrMissing, ErrNoAddress, ErrInvalid or
// ErrUnavailable; Addr and Address are set nevertheless. It checks only the form and
// checksum of an API key. It verifies a token, and may fetch the issuer's keys for that.
//
// The first source with a credential identifies the caller. Credentials for later sources
// must be good as well: a backend that reads Authorization itself would trust a token
// that nobody verified. With Both a credential for every source is required.
func (r *Resolver) Identify(ctx context.Context, request Request) (Identity, error) {
	unknown := Identity{Addr: r.config.Proxies.Client(request.Source, request.header).Addr}
	unknown.Address = r.prefix(unknown.Addr)
	caller, err := unknown, ErrMissing
	var token Identity
	for _, kind := range r.config.Sources {
		if kind == IP && err == nil {
			break // an address is no credential
		}
		found, fault := r.from(ctx, kind, request, unknown)
		switch {
		case errors.Is(fault, ErrMissing) && !r.config.Both:
		case fault != nil:
			return unknown, fault
		case err != nil:
			caller, err = found, nil
		}
		if fault == nil && kind == JWT {
			token = found
		}
	}
	caller.Claims, caller.Scopes = token.Claims, token.Scopes
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
	text, err := request.apiKey(&r.config, r.config.Foreign && r.verifier == nil)
	if err != nil {
		return id, err
	}
	secret, err := r.Secret(text)
	if err != nil {
		return id, err
	}
	id.Kind, id.Subject, id.Display, id.Secret = Key, secret.ID(), secret.ID(), secret
	return id, nil
}

func (r *Resolver) fromToken(ctx context.Context, request Request, id Identity) (Identity, error) {
	token, err := request.token(&r.config, r.config.has(Key))
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
	id.NoPlan, id.Claims, id.Scopes = claims.NoPlan, claims.Context, claims.Scopes
	return id, nil
}

func (r *Resolver) fromAddress(id Identity) (Identity, error) {
	if !id.Address.IsValid() {
		return id, ErrNoAddress
	}
	id.Kind, id.Subject, id.Display = IP, r.key.Address(id.Address), id.Address.String()
	return id, nil
}

// Secret reads an API key, also one of another system where the operator allows these.
func (r *Resolver) Secret(text string) (apikey.Secret, error) {
	secret, err := apikey.Parse(text)
	if err != nil && r.config.Foreign {
		secret, err = r.key.Foreign(text)
	}
	if err != nil {
		return apikey.Secret{}, invalid("malformed API key")
	}
	return secret, nil
}

// Token returns the subject of the caller with this name at a token issuer.
func (r *Resolver) Token(issuer, name string) string { return r.key.Token(issuer, name) }

// Network returns the prefix of an address whose clients share limits.
func (r *Resolver) Network(a netip.Addr) netip.Prefix { return r.prefix(a) }

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
