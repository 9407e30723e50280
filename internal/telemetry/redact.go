package telemetry

import (
	"encoding"
	"encoding/json"
	"fmt"
	"log/slog"
	"strings"
)

// Redacted replaces what is not logged.
const Redacted = "[redacted]"

// secretNames are names of attributes that are never logged, alone or after an underscore
// or hyphen.
var secretNames = []string{
	"secret", "password", "token", "authorization", "cookie", "pepper", "credential", "credentials",
	"api_key", "apikey", "address", "ip", "source_ip",
}

func redact(_ []string, a slog.Attr) slog.Attr {
	if secretName(a.Key) {
		return slog.String(a.Key, Redacted)
	}
	switch a.Value.Kind() {
	case slog.KindString:
		a.Value = slog.StringValue(Redact(a.Value.String()))
	case slog.KindAny:
		a.Value = redactAny(a.Value)
	default: // numbers, times and truth values hide nothing; groups come attribute by attribute
	}
	return a
}

func secretName(name string) bool {
	name = strings.ReplaceAll(strings.ToLower(name), "-", "_")
	for _, secret := range secretNames {
		if name == secret || strings.HasSuffix(name, "_"+secret) {
			return true
		}
	}
	return false
}

// redactAny redacts the text that the JSON handler would write.
func redactAny(v slog.Value) slog.Value {
	switch x := v.Any().(type) {
	case *slog.Source:
		return v
	case json.Marshaler, encoding.TextMarshaler: // below
	case error:
		return slog.StringValue(Redact(x.Error()))
	case fmt.Stringer:
		return slog.StringValue(Redact(x.String()))
	}
	text, err := json.Marshal(v.Any())
	if err != nil {
		return slog.StringValue(Redact(fmt.Sprintf("%T", v.Any())))
	}
	if Redact(string(text)) != string(text) {
		return slog.StringValue(Redacted)
	}
	return v
}

const (
	keyPrefix   = "tg_"
	minKeyBody  = 20     // of letters and digits after the last underscore: the id alone has 12
	tokenPrefix = "tga_" // of machine tokens
	sealPrefix  = "tgr_" // of reservations
	jwtPrefix   = "eyJ"
	minJWT      = 20
	bearer      = "bearer "
	minBearer   = 8
	base62      = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"
	environment = "0123456789abcdefghijklmnopqrstuvwxyz"
	tokenBytes  = base62 + "-._~+/=" // RFC 6750
)

// Redact replaces API keys, machine tokens, reservations, JSON web tokens and what
// follows Bearer in a text.
func Redact(text string) string {
	if !suspicious(text) {
		return text
	}
	var b strings.Builder
	for i := 0; i < len(text); {
		keep, hide := credentialAt(text[i:])
		if hide == 0 {
			b.WriteByte(text[i])
			i++
			continue
		}
		b.WriteString(text[i : i+keep])
		b.WriteString(Redacted)
		i += keep + hide
	}
	return b.String()
}

// suspicious reports whether a text may contain a credential. It is fast, since almost no
// text does.
func suspicious(text string) bool {
	for _, prefix := range []string{keyPrefix, tokenPrefix, sealPrefix, jwtPrefix} {
		if strings.Contains(text, prefix) {
			return true
		}
	}
	for i := len(bearer) - 1; i < len(text); i++ {
		if text[i] == ' ' && strings.EqualFold(text[i+1-len(bearer):i+1], bearer) {
			return true
		}
	}
	return false
}

// credentialAt returns how many bytes at the start of text stay and how many after them
// are a credential.
func credentialAt(text string) (keep, hide int) {
	if rest, ok := strings.CutPrefix(text, keyPrefix); ok {
		env := span(rest, environment)
		if env > 0 && env < len(rest) && rest[env] == '_' {
			if body := span(rest[env+1:], base62); body >= minKeyBody {
				return 0, len(keyPrefix) + env + 1 + body
			}
		}
	}
	for _, prefix := range []string{tokenPrefix, sealPrefix} {
		if rest, ok := strings.CutPrefix(text, prefix); ok {
			if body := span(rest, base62+"-_"); body >= minKeyBody {
				return 0, len(prefix) + body
			}
		}
	}
	if strings.HasPrefix(text, jwtPrefix) {
		if n := span(text, tokenBytes); n >= minJWT {
			return 0, n
		}
	}
	if len(text) > len(bearer) && strings.EqualFold(text[:len(bearer)], bearer) {
		if n := span(text[len(bearer):], tokenBytes); n >= minBearer {
			return len(bearer), n
		}
	}
	return 0, 0
}

// span returns the number of bytes at the start of text that are in set.
func span(text, set string) int { return len(text) - len(strings.TrimLeft(text, set)) }
