package authorizer

import (
	"encoding/json"
	"log/slog"
	"strings"
	"testing"
	"time"

	"tidegate/internal/apikey"
	"tidegate/internal/enforce"
	"tidegate/internal/limits"
	"tidegate/internal/testing/registrytest"
)

// allowedByTwo is the result of a call that two limits allow.
func allowedByTwo() enforce.Result {
	limit := func(text string) enforce.LimitState {
		return enforce.LimitState{Applied: limits.Applied{Limit: registrytest.Limits(text)[0], Cost: 1},
			Remaining: 7}
	}
	return enforce.Result{
		Allowed: true, WouldAllow: true, ID: "abcdefghijkl", Name: "orders", Plan: "pro",
		Limits:     []enforce.LimitState{limit("100 per 10 seconds"), limit("1,000 per 10 minutes")},
		SetVersion: 3, KeyVersion: 2,
	}
}

// BenchmarkInvoke measures a whole event without the network, for each source of
// identities and for a denied call.
func BenchmarkInvoke(b *testing.B) {
	allowed := allowedByTwo()
	over := allowed
	over.Allowed = false
	identities := allSources(apikey.Pepper(strings.Repeat("pepper!!", 4)))
	bearer := "Bearer " + token(signingKey, "ada", time.Hour)
	for name, c := range map[string]struct {
		header, value string
		checked       enforce.Result
	}{
		"key":      {"x-api-key", must(apikey.Generate("test")).Reveal(), allowed},
		"key-over": {"x-api-key", must(apikey.Generate("test")).Reveal(), over},
		"jwt":      {"authorization", bearer, allowed},
		"ip":       {"", "", allowed},
	} {
		raw := must(json.Marshal(requestEvent(methodARN, c.header, c.value, "192.0.2.1")))
		a := New(decided(c.checked), identities, simple, slog.New(slog.DiscardHandler))
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				if _, err := a.Invoke(b.Context(), raw); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

// BenchmarkPart measures the parts of an event with an API key, for the table in
// docs/algorithms.md.
func BenchmarkPart(b *testing.B) {
	checked := allowedByTwo()
	identities := allSources(apikey.Pepper(strings.Repeat("pepper!!", 4)))
	raw := must(json.Marshal(requestEvent(methodARN, "x-api-key", must(apikey.Generate("test")).Reveal(),
		"192.0.2.1")))
	e := must(parseEvent(raw))
	answered := verdictOf(checked).response(e, simple)
	for name, part := range map[string]func() error{
		"decode":   func() error { _, err := parseEvent(raw); return err },
		"identity": func() error { _, err := identities.Identify(b.Context(), e.request()); return err },
		"answer":   func() error { verdictOf(checked).response(e, simple); return nil },
		"encode":   func() error { _, err := json.Marshal(answered); return err },
	} {
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				if err := part(); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
