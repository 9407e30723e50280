// Package telemetry writes metrics and logs of checks: counts as CloudWatch metrics,
// denials and errors as structured logs with the trace id and without credentials. It
// writes to the function's standard output, which Lambda passes to CloudWatch, so it
// never waits for a network.
package telemetry

import (
	"context"
	"encoding"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"os"
	"strings"
)

// NewHandler returns a handler that writes JSON lines to out, each with the trace_id of
// its context. It redacts credentials: attributes with a secret name, and in any text API
// keys, machine tokens, settlements, JSON web tokens and what follows Bearer.
func NewHandler(out io.Writer, level slog.Leveler) slog.Handler {
	return handler{slog.NewJSONHandler(out, &slog.HandlerOptions{Level: level, ReplaceAttr: redact})}
}

// handler adds the trace_id to each line.
type handler struct{ slog.Handler }

// Handle adds the trace id at the top of a line, or within the logger's group.
func (h handler) Handle(ctx context.Context, r slog.Record) error {
	if id := TraceID(ctx); id != "" {
		r.AddAttrs(slog.String("trace_id", id))
	}
	return h.Handler.Handle(ctx, r)
}

// WithAttrs returns a handler that also adds the trace_id.
func (h handler) WithAttrs(attrs []slog.Attr) slog.Handler {
	return handler{h.Handler.WithAttrs(attrs)}
}

// WithGroup returns a handler that also adds the trace_id.
func (h handler) WithGroup(name string) slog.Handler { return handler{h.Handler.WithGroup(name)} }

// LimitCrossed is the value of the attribute event in lines that report a crossed limit.
// The forward function and its subscription filters select lines by it.
const LimitCrossed = "limit_crossed"

const (
	traceKey      = "x-amzn-trace-id" // aws-lambda-go's key of the header in a call's context
	traceVariable = "_X_AMZN_TRACE_ID"
)

// TraceID returns the id of the call's X-Ray trace, such as
// 1-5759e988-bd862e3fe1be46a994272793, or "". It reads the context, or else the Lambda
// runtime's variable.
func TraceID(ctx context.Context) string {
	if header, ok := ctx.Value(traceKey).(string); ok {
		return ParseTrace(header)
	}
	return ParseTrace(os.Getenv(traceVariable))
}

// ParseTrace returns the Root of an X-Amzn-Trace-Id header, or "" if it has no valid one.
func ParseTrace(header string) string {
	for field := range strings.SplitSeq(header, ";") {
		if root, ok := strings.CutPrefix(strings.TrimSpace(field), "Root="); ok {
			if validRoot(root) {
				return root
			}
			return ""
		}
	}
	return ""
}

// validRoot reports whether root is 1-, the time in 8 hexadecimal digits, -, and 24 more
// digits.
func validRoot(root string) bool {
	const timeEnd, length = 10, 35
	if len(root) != length || root[:2] != "1-" || root[timeEnd] != '-' {
		return false
	}
	return strings.Trim(root[2:timeEnd]+root[timeEnd+1:], "0123456789abcdef") == ""
}

// Redacted replaces credentials in a log.
const Redacted = "[redacted]"

// secretNames are names of attributes whose values are never logged. The name of an
// attribute is such a name, or ends with one after an underscore or hyphen.
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
	default: // no text; slog calls redact for each attribute of a group
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

// redactAny redacts the text that the JSON handler would write for v.
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
	keyPrefix        = "tg_"
	minKeyBody       = 20     // of letters and digits after the last underscore: the id alone has 12
	tokenPrefix      = "tga_" // of machine tokens
	settlementPrefix = "tgr_" // prefix of settlements
	jwtPrefix        = "eyJ"
	minJWT           = 20
	bearer           = "bearer "
	minBearer        = 8
	base62           = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"
	environment      = "0123456789abcdefghijklmnopqrstuvwxyz"
	tokenBytes       = base62 + "-._~+/=" // RFC 6750
)

// Redact replaces the credentials in a text with Redacted: API keys, machine tokens,
// settlements, JSON web tokens and what follows Bearer.
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
	for _, prefix := range []string{keyPrefix, tokenPrefix, settlementPrefix, jwtPrefix} {
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

// credentialAt reports a credential at the start of text: its first keep bytes are not
// secret ("Bearer "), the hide bytes after them are. hide is 0 if there is none.
func credentialAt(text string) (keep, hide int) {
	if rest, ok := strings.CutPrefix(text, keyPrefix); ok {
		env := span(rest, environment)
		if env > 0 && env < len(rest) && rest[env] == '_' {
			if body := span(rest[env+1:], base62); body >= minKeyBody {
				return 0, len(keyPrefix) + env + 1 + body
			}
		}
	}
	for _, prefix := range []string{tokenPrefix, settlementPrefix} {
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
