// Package identity finds out who calls: by an API key, a bearer token of an issuer (JWT)
// or the client's address, whichever of them the operator listed, in the operator's
// order.
//
// The first source for which the request carries a credential decides. A credential that
// is there and bad is refused, for whichever source it is: it never makes way for
// another. A call without any is refused too, unless ip is listed, which every call with
// a known address satisfies. What comes out has an opaque id that is safe in a key's
// name, and never the credential, but for the API key that has yet to be looked up.
package identity

import (
	"errors"
	"log/slog"
	"net/netip"
	"strconv"

	"tidegate/internal/apikey"
)

// The errors of Identify. Whichever it is, nobody is let in. No text, causes included,
// repeats a credential or an address.
var (
	// ErrMissing means that the request has no credential for any of the sources.
	ErrMissing = errors.New("no credential")
	// ErrInvalid means that a credential is malformed, given more than once, or not good.
	ErrInvalid = errors.New("credential refused")
	// ErrUnavailable means that a token could not be checked, since its issuer's keys
	// cannot be had now.
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

// Identity is who calls.
type Identity struct {
	Kind Kind
	// Subject is an opaque id of 12 (Key: the key's public id) or 22 characters of A–Z,
	// a–z, 0–9, - and _. It is the same for the same caller.
	Subject string
	Secret  apikey.Secret // Key only; not looked up yet, so that the caller is known only by what it claims
	Plan    string        // JWT only: what the token says; empty if it says nothing
	// for people: a key's id, a token's subject bounded and with what cannot be printed
	// escaped, an address prefix
	Display string

	// the client's, for lists of addresses; not valid where the event has none. IPv4 is
	// never mapped into IPv6
	Addr    netip.Addr
	Address netip.Prefix // the prefix that the client shares its limits with; valid if Addr is
}

// String returns kind and subject: no credential and no address.
func (i Identity) String() string { return i.Kind.String() + " " + i.Subject }

// GoString is String.
func (i Identity) GoString() string { return i.String() }

// LogValue is kind and subject: no credential and no address.
func (i Identity) LogValue() slog.Value {
	return slog.GroupValue(slog.String("kind", i.Kind.String()), slog.String("subject", i.Subject))
}

// maxDisplayLen bounds what people are shown of a token's subject, in characters before
// they are escaped.
const maxDisplayLen = 64

// display escapes what cannot be printed, direction marks included.
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
