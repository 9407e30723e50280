package authorizer

import (
	"encoding/json"
	"fmt"
	"regexp"
	"strings"
	"testing"
	"time"

	"tidegate/internal/limiter"
	"tidegate/internal/policy"
	"tidegate/internal/route"
	"tidegate/internal/store"
)

// What an authorizer is sent that it should not be, and which test says what becomes of
// it:
//
//	identity with braces, NUL, 10 KB …    TestIdentityOfOddBytes,
//	                                      identity.TestIdentityWithBadCharacters
//	duplicate or mixed-case headers       TestBadCredentialsAreUnauthorized,
//	                                      identity.TestBadCredentialNeverFallsThrough
//	spoofed X-Forwarded-For               TestSpoofedForwardedForIsIgnored
//	IPv6 rotation                         TestIPv6RotationSharesALimit,
//	                                      identity.TestIPv6RotationAndMappedIPv4
//	missing identity                      TestBadCredentialsAreUnauthorized,
//	                                      identity.TestMissingIdentityIsNeverTheAddress
//	cost 0, negative, huge, NaN; limit 0  TestImpossibleCost,
//	                                      policy.TestCostsAndLimitsOutOfRange,
//	                                      policy.TestFreeRoute
//	wrong checksum, unknown prefix        TestWrongChecksumAsksNobody
//	JWT none, swaps, claims, floods       TestAnswers,
//	                                      jwt.TestJWTNone and the next tests,
//	                                      jwt.TestUnknownKeyFlood
//	malformed event, missing methodArn    TestMalformedEventsNeverAllow,
//	                                      TestSampleEventsNeverAllow, FuzzInvoke

// A caller whom others vouch for may be called anything. Its name reaches neither a key
// of Valkey's nor, unbounded, the log.
func TestIdentityOfOddBytes(t *testing.T) {
	tb := newTable(t)
	for _, subject := range []string{"{a}", "}{", "a:b", "nul\x00", "line\r\nfeed", "\u202eleft",
		strings.Repeat("long ", 2000), " ", "*", "tg:{x}:y"} {
		c := caller{header: "authorization", value: "Bearer " + token(signingKey, subject, time.Hour),
			address: "192.0.2.1"}
		tb.log.Reset()
		got, err := tb.ask(t, "REST REQUEST", tb.witness, c)
		context, _ := got["context"].(map[string]any)
		if id, _ := context["keyId"].(string); err == nil &&
			!regexp.MustCompile(`^[A-Za-z0-9_-]{22}$`).MatchString(id) {
			t.Errorf("%.20q is called %v", subject, got)
		}
		if tb.log.Len() > 2000 {
			t.Errorf("%.20q logs %d bytes", subject, tb.log.Len())
		}
	}
	for _, credential := range []string{"{tg_test_x}", "tg_test_\x00", strings.Repeat("tg_", 4000),
		"\xff\xfe", "tg_test_\r\nX-Api-Key: y"} {
		tb.log.Reset()
		if _, err := tb.ask(t, "REST REQUEST", tb.witness,
			caller{header: "x-api-key", value: credential, address: "192.0.2.1"}); err == nil {
			t.Errorf("%.20q is somebody", credential)
		}
		if tb.log.Len() > 2000 || strings.Contains(tb.log.String(), credential) {
			t.Errorf("%.20q logs %s", credential, tb.log.String())
		}
	}
	named := regexp.MustCompile(`^tg:(\{[a-z0-9]+\}:)?[A-Za-z0-9:_{}-]+$`)
	for _, name := range tb.names(t) {
		if !named.MatchString(name) || strings.Count(name, "{") > 1 {
			t.Errorf("a key of Valkey's is called %q", name)
		}
	}
}

// names lists every key in Valkey.
func (tb *table) names(t *testing.T) []string {
	t.Helper()
	client, err := store.Open(t.Context(), tb.url,
		store.Options{Dial: 5 * time.Second, Write: 10 * time.Second})
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	return must(client.Do(t.Context(), client.B().Keys().Pattern("*").Build()).AsStrSlice())
}

// Whoever has a /64 of addresses has one limit, and an IPv4 address is the same however
// it is written.
func TestIPv6RotationSharesALimit(t *testing.T) {
	tb := newTable(t)
	for _, addresses := range [][]string{
		{"2001:db8:0:1::1", "2001:db8:0:1:ffff:ffff:ffff:ffff", "2001:db8:0:1::2"},
		{"203.0.113.9", "::ffff:203.0.113.9"},
	} {
		for i, address := range addresses {
			got, err := tb.ask(t, "HTTP 2.0 simple", tb.witness, caller{address: address})
			if err != nil || got["isAuthorized"] != (i == 0) {
				t.Errorf("%s, call %d: %v, %v", address, i+1, got, err)
			}
		}
	}
	if got := must(tb.ask(t, "HTTP 2.0 simple", tb.witness, caller{address: "2001:db8:0:2::1"})); denied(
		must(json.Marshal(got))) {
		t.Errorf("another network: %v", got)
	}
}

// An override that is older than its route's cost can deny for ever; in shadow it cannot.
func TestOverrideBelowTheCost(t *testing.T) {
	tb := newTable(t)
	for mode, wanted := range map[policy.Mode]string{policy.Enforce: "Deny", policy.Shadow: "Allow"} {
		tb.cost(t, 1)
		c := tb.bring(t, "key", "allowed")
		must(tb.ask(t, "REST REQUEST", tb.witness, c))
		id := tb.witness.call.Subject
		override := &policy.Override{Limits: []limiter.Limit{{Requests: 2, Window: time.Hour}}, Mode: mode,
			Reason: "small"}
		must(tb.store.SetOverride(t.Context(), id, 1, override, byTest))
		tb.cost(t, 3)
		got := must(tb.ask(t, "REST REQUEST", tb.witness, c))
		if text := fmt.Sprint(got); !strings.Contains(text, "Effect:"+wanted) ||
			strings.Contains(text, "retryAfter") {
			t.Errorf("%s: %v", mode, got)
		}
	}
}

// cost makes every call cost so much, under plans that admit ten.
func (tb *table) cost(t *testing.T, cost int64) {
	t.Helper()
	set := must(tb.store.Set(t.Context()))
	for i := range set.Plans {
		set.Plans[i].Limits[0].Requests = 10
	}
	set.Routes = []policy.Route{{Name: "orders", Cost: cost, Pattern: route.Pattern{Path: "/orders"}}}
	must(tb.store.SaveSet(t.Context(), *set, byTest))
}
