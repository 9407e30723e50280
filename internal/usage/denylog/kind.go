package denylog

import (
	"errors"
	"strings"
	"unicode/utf8"

	"tidegate/internal/cause"
)

// Kind is what denials of one caller have in common: a field of the hash that is the log
// of a bucket and an hour. All lengths are one byte.
//
//	length, id of the caller; 0 for a caller that Valkey could not verify
//	1 byte cause
//	length, text: of plan, limit, rule, method, path, API and stage, in this order,
//	and of the key's group when it is in one
//
// Its value is
//
//	1 byte   minute of the newest occurrence
//	1 byte   occurrences of that minute
//	2 bytes  where the newest occurrence begins
//	         occurrences, oldest first
//
// The field "" has the bytes that the log uses; a field of byte 255 and a caller's id has
// the number of its kinds. Integers are big-endian.
type Kind struct {
	Minute                                      int64 // since 1970; not part of the field
	Registered                                  bool  // likewise
	Subject                                     string
	Cause                                       cause.Cause
	Plan, Limit, Rule, Method, Path, API, Stage string
	Group                                       string // of the key
}

const (
	maxText      = 200 // bytes of a text of a kind
	counterField = "\xff"
)

func (k *Kind) texts() []*string {
	return []*string{&k.Plan, &k.Limit, &k.Rule, &k.Method, &k.Path, &k.API, &k.Stage}
}

// Field returns the field of the hash.
func (k *Kind) Field() string {
	var b strings.Builder
	b.WriteByte(byte(len(k.Subject)))
	b.WriteString(k.Subject)
	b.WriteByte(byte(k.Cause))
	texts := k.texts()
	if k.Group != "" {
		texts = append(texts, &k.Group)
	}
	for _, text := range texts {
		cut := clip(*text)
		b.WriteByte(byte(len(cut)))
		b.WriteString(cut)
	}
	return b.String()
}

// clip cuts a text that does not fit, between two characters.
func clip(text string) string {
	if len(text) <= maxText {
		return text
	}
	end := maxText
	for end > 0 && !utf8.RuneStart(text[end]) {
		end--
	}
	return text[:end]
}

var errLog = errors.New("denylog: an entry of the log makes no sense")

// ParseKind reads a field.
func ParseKind(field string) (k Kind, err error) {
	texts := append([]*string{&k.Subject}, k.texts()...)
	texts = append(texts, &k.Group)
	for i, text := range texts {
		if field == "" && text == &k.Group {
			break
		}
		if i == 1 {
			if field == "" {
				return k, errLog
			}
			k.Cause, field = cause.Cause(field[0]), field[1:]
		}
		if field == "" || len(field) < 1+int(field[0]) {
			return k, errLog
		}
		*text, field = field[1:1+field[0]], field[1+field[0]:]
	}
	return k, nil
}
