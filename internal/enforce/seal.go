package enforce

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"strings"
	"time"

	"tidegate/internal/apikey"
	"tidegate/internal/limiter"
)

// sealed is what a settlement needs to know of a call. It is not stored, but travels with
// the call as a signed text.
type sealed struct {
	mark    string
	expires time.Time
	subject string // of the caller
	route   string
	plan    string // that the call named
	parts   []sealedPart
}

// sealedPart is what one subject's states took.
type sealedPart struct {
	subject string
	at      int64 // the instant of the call in the states
	states  []sealedState
}

// sealedState is a state that took the cost, and the unit of what it counts.
type sealedState struct {
	limiter.State
	unit string
	ends bool // a settlement gives all back, whatever the cost
}

// sealedText is the JSON of a sealed call: short, since API Gateway bounds what an
// authorizer returns.
type sealedText struct {
	Mark    string     `json:"m"`
	Expires int64      `json:"x"` // microseconds since 1970
	Subject string     `json:"s"`
	Route   string     `json:"r,omitempty"`
	Plan    string     `json:"p,omitempty"`
	Parts   []partText `json:"c"`
}

type partText struct {
	Subject string      `json:"s,omitempty"` // empty for the caller
	At      int64       `json:"t"`
	States  []stateText `json:"k"`
}

type stateText struct {
	Key       string            `json:"k"` // without the part that all keys of the subject share
	Algorithm limiter.Algorithm `json:"a,omitempty"`
	Cost      int64             `json:"c"`
	Number    int64             `json:"n"`
	Window    int64             `json:"w"`
	Periods   limiter.Periods   `json:"p,omitzero"`
	Unit      string            `json:"u,omitempty"`
	Ends      bool              `json:"e,omitempty"`
}

const sealPrefix = "tgr_" // which logs redact

// MaxSettlement bounds the text of a settlement, in bytes: API Gateway takes 8 KB of an
// authorizer's answer. Sixteen logs with units of 8 letters take 2,183. A call with a longer
// text gets none, and keeps its estimate.
const MaxSettlement = 3584

// seal is the key that settlements are signed with.
type seal []byte

func newSeal(pepper apikey.Pepper) seal { return pepper.Derive("settlements") }

func (s seal) sum(data []byte) []byte {
	mac := hmac.New(sha256.New, s)
	mac.Write(data)
	return mac.Sum(nil)
}

// write encodes and signs a call: a prefix and, in base64, JSON and 32 bytes of
// HMAC-SHA-256.
func (s seal) write(c *sealed) string {
	text := sealedText{Mark: c.mark, Expires: c.expires.UnixMicro(), Subject: c.subject, Route: c.route,
		Plan: c.plan}
	for _, p := range c.parts {
		part := partText{At: p.at}
		if p.subject != c.subject {
			part.Subject = p.subject
		}
		common := countKey(p.subject, "")
		for _, state := range p.states {
			part.States = append(part.States, stateText{strings.TrimPrefix(state.Key, common),
				state.Algorithm,
				state.Cost, state.Number, state.Window, state.Periods, state.unit, state.ends})
		}
		text.Parts = append(text.Parts, part)
	}
	data, _ := json.Marshal(text) // strings and numbers always encode
	return sealPrefix + base64.RawURLEncoding.EncodeToString(append(data, s.sum(data)...))
}

// read is the inverse of write. ok is false if this key did not sign the text.
func (s seal) read(text string) (c *sealed, ok bool) {
	encoded, ok := strings.CutPrefix(text, sealPrefix)
	if !ok || len(text) > MaxSettlement {
		return nil, false
	}
	b, err := base64.RawURLEncoding.Strict().DecodeString(encoded)
	if err != nil || len(b) < sha256.Size {
		return nil, false
	}
	b, sum := b[:len(b)-sha256.Size], b[len(b)-sha256.Size:]
	var read sealedText
	if !hmac.Equal(sum, s.sum(b)) || json.Unmarshal(b, &read) != nil {
		return nil, false
	}
	c = &sealed{mark: read.Mark, expires: time.UnixMicro(read.Expires).UTC(), subject: read.Subject,
		route: read.Route, plan: read.Plan}
	for _, p := range read.Parts {
		part := sealedPart{subject: p.Subject, at: p.At}
		if part.subject == "" {
			part.subject = c.subject
		}
		for _, k := range p.States {
			part.states = append(part.states, sealedState{limiter.State{Key: countKey(part.subject, k.Key),
				Algorithm: k.Algorithm, Cost: k.Cost, Number: k.Number, Window: k.Window, Periods: k.Periods},
				k.Unit, k.Ends})
		}
		c.parts = append(c.parts, part)
	}
	return c, len(c.parts) > 0
}
