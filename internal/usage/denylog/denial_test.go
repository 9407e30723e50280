package denylog

import (
	"net/netip"
	"strings"
	"testing"
	"time"

	"tidegate/internal/cause"
)

// Malformed fields and values are an error, never a panic.
func FuzzParse(f *testing.F) {
	k := Kind{Subject: "abc", Cause: cause.Limit, Plan: "free", Path: strings.Repeat("ä", 150)}
	o := Occurrence{At: 1234567, Calls: 3, RetryAfter: time.Hour, Request: "JKJaXmPLvHcESHA=",
		Network: NetworkOf(netip.MustParseAddr("2001:db8::1"))}
	f.Add(k.Field(), "\x00\x01\x00\x04"+o.Encode())
	f.Add("", "")
	f.Fuzz(func(t *testing.T, field, value string) {
		if k, err := ParseKind(field); err == nil && len(k.Field()) > 1+len(k.Subject)+1+7*(1+maxText) {
			t.Errorf("%q: got an encoded field longer than the maximum", field)
		}
		_, _ = ParseOccurrences(value)
	})
}
