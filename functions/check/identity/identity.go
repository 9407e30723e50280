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
	"errors"
	"log/slog"
	"net/netip"
	"strconv"

	"tidegate/internal/apikey"
)

// The errors of Identify. Each denies the call. No text, causes included, contains a
// credential or an address.
var (
	// ErrMissing means that the request has no credential for any of the sources.
	ErrMissing = errors.New("no credential")
	// ErrInvalid means that a credential is malformed, differs between places, or is not
	// good.
	ErrInvalid = errors.New("credential refused")
	// ErrUnavailable means that a token cannot be checked, because its issuer's keys
	// cannot be read now.
	ErrUnavailable = errors.New("credential cannot be checked")
)

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
	// Display is for people: a key's id, a token's subject shortened and escaped, or an
	// address prefix.
	Display string

	// Addr is the client's address, for lists of addresses. It is not valid if the event
	// has none. IPv4 has its short form.
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
