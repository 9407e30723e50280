package authorizer

import (
	"encoding/json"
	"log/slog"
	"strings"
	"testing"
	"time"

	"tidegate/internal/apikey"
	"tidegate/internal/enforce"
	"tidegate/internal/limiter"
	"tidegate/internal/policy"
)

// BenchmarkInvoke measures a whole event without the network, by where the identity comes
// from, and when the call is denied.
func BenchmarkInvoke(b *testing.B) {
	limits := []enforce.LimitState{
		{Usage: limiter.Usage{Limit: limiter.Limit{Requests: 100, Window: 10 * time.Second}, Remaining: 7},
			Scope: policy.ScopeKey, Mode: policy.Enforce},
		{Usage: limiter.Usage{Limit: limiter.Limit{Requests: 1000, Window: 10 * time.Minute}, Remaining: 7},
			Scope: policy.ScopeKey, Mode: policy.Enforce},
	}
	allowed := enforce.Result{Allowed: true, WouldAllow: true, ID: "abcdefghijkl",
		Name: "orders", Plan: "pro",
		Limits: limits, SetVersion: 3, KeyVersion: 2}
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
