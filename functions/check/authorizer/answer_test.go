package authorizer

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"net/http"
	"net/netip"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"tidegate/functions/check/identity"
	"tidegate/internal/apikey"
	"tidegate/internal/enforce"
	"tidegate/internal/jwt"
	"tidegate/internal/limits"
	"tidegate/internal/policy"
	"tidegate/internal/proxies"
	"tidegate/internal/testing/oidctest"
	"tidegate/internal/testing/registrytest"
	"tidegate/internal/testing/valkeytest"
)

const (
	issuer   = "https://issuer.example/"
	audience = "orders"
)

var (
	signingKey = oidctest.NewKey('s')
	foreignKey = oidctest.NewKey('f')
)

func must[T any](v T, err error) T {
	if err != nil {
		panic(err)
	}
	return v
}

// token returns a token of the issuer for the subject that expires after valid.
func token(key oidctest.Key, subject string, valid time.Duration) string {
	return key.Sign(map[string]any{"iss": issuer, "aud": audience, "sub": subject,
		"exp": time.Now().Add(valid).Unix()})
}

// allSources returns a resolver of all three sources.
func allSources(pepper apikey.Pepper) *identity.Resolver {
	keys := must(jwt.ParseKeys([]byte(signingKey.Set())))
	return must(identity.New(identity.Config{
		Sources: []identity.Kind{identity.Key, identity.JWT, identity.IP}, IPv4Bits: 32, IPv6Bits: 64,
		Pepper: pepper,
		JWT:    jwt.Config{Issuers: []jwt.Issuer{{Name: issuer, Audiences: []string{audience}, Keys: keys}}},
	}))
}

// recorder is a Checker that remembers the last call and its result.
type recorder struct {
	checker Checker
	call    enforce.Call
	checked enforce.Result
}

func (w *recorder) Check(ctx context.Context, call enforce.Call) (enforce.Result, error) {
	var err error
	w.call = call
	w.checked, err = w.checker.Check(ctx, call)
	return w.checked, err
}

type unavailableStore struct{}

func (unavailableStore) Check(context.Context, enforce.Call) (enforce.Result, error) {
	return enforce.Result{}, errors.New("connection refused")
}

// eventKinds has, for each kind of event, the answers that its API expects, the ARN in
// the answer, and a function that makes an event with a credential from an address.
var eventKinds = map[string]struct {
	answers Answers
	arn     string
	event   func(header, value, address string) map[string]any
}{
	"REST TOKEN": {simple, methodARN, func(_, value, _ string) map[string]any {
		return map[string]any{"type": "TOKEN", "methodArn": methodARN, "authorizationToken": value}
	}},
	"REST REQUEST": {simple, methodARN, func(header, value, address string) map[string]any {
		return requestEvent(methodARN, header, value, address)
	}},
	"HTTP 1.0": {simple, methodARN, func(header, value, address string) map[string]any {
		e := requestEvent(methodARN, header, value, address)
		e["version"] = "1.0"
		return e
	}},
	"HTTP 2.0 simple": {simple, routeARN, http2Event},
	"HTTP 2.0 IAM":    {Answers{Format: IAM, Denial: Deny}, routeARN, http2Event},
	"WebSocket": {simple, connectARN, func(header, value, address string) map[string]any {
		return requestEvent(connectARN, header, value, address)
	}},
}

func requestEvent(arn, header, value, address string) map[string]any {
	e := map[string]any{"type": "REQUEST", "methodArn": arn, "headers": map[string]string{}}
	if header != "" {
		e["headers"] = map[string]string{header: value}
	}
	e["requestContext"] = map[string]any{"requestId": "r", "identity": map[string]any{"sourceIp": address}}
	return e
}

func http2Event(header, value, address string) map[string]any {
	e := http2From(address, map[string]string{})
	if header != "" {
		e["headers"] = map[string]string{header: value}
	}
	return e
}

// caller is a caller in one of the states of the table.
type caller struct {
	header, value, address string
	name                   string
	keyVersion             int64
	calls                  int // calls to make before the tested one
}

// table creates callers in every state, for the table of all answers.
type table struct {
	*fixture
	recorder   *recorder
	identities *identity.Resolver
	pepper     apikey.Pepper
	made       int
}

func newTable(t *testing.T) *table {
	t.Helper()
	f := newFixture(t, valkeytest.Start(t))
	registrytest.Save(t, f.store, tester, func(set *policy.Set) {
		set.Plans = append(set.Plans, policy.Plan{Name: "hourly", Limits: registrytest.Limits("1 per hour")})
		set.TokenPlan, set.AddressPlan = "hourly", "hourly"
	})
	pepper := apikey.Pepper(strings.Repeat("pepper!!", 4))
	return &table{fixture: f, recorder: &recorder{checker: f.checker}, identities: allSources(pepper),
		pepper: pepper}
}

// newCaller returns a new caller of a source of identities in a state.
func (tb *table) newCaller(t *testing.T, source, state string) caller {
	t.Helper()
	tb.made++
	switch source {
	case "key":
		return tb.key(t, state)
	case "jwt":
		return tb.token(t, state)
	}
	c := caller{address: fmt.Sprintf("198.51.100.%d", tb.made)}
	if state == "unknown" {
		c.address = "" // without an address the caller is unknown
	}
	return tb.edit(t, c, policy.Address, state)
}

func (tb *table) key(t *testing.T, state string) caller {
	t.Helper()
	n := policy.NewKey{Name: "a key", Env: "test", Plan: "hourly"}
	if state == "expired" {
		n.Expires = time.Date(2020, 1, 1, 0, 0, 0, 0, time.UTC)
	}
	k, secret := registrytest.Create(t, tb.store, tester, n)
	c := caller{header: "x-api-key", value: secret.Reveal(), address: "192.0.2.1", name: "a key",
		keyVersion: k.Version}
	switch state {
	case "unknown":
		c.value = must(apikey.Generate("test")).Reveal()
	case "revoked":
		must(registrytest.Revoke(t.Context(), tb.store, k.ID, tester))
	case "banned":
		c.keyVersion = must(registrytest.Update(t.Context(), tb.store, k.ID, "key.ban", tester, ban)).Version
	case "over":
		c.calls = 1
	}
	return c
}

func ban(k *policy.Key) { k.Banned = time.Now().Add(24 * time.Hour) }

func (tb *table) token(t *testing.T, state string) caller {
	t.Helper()
	subject, key, good := fmt.Sprintf("user %d", tb.made), signingKey, time.Hour
	switch state {
	case "unknown":
		key = foreignKey
	case "expired":
		good = -time.Hour
	}
	c := caller{header: "authorization", value: "Bearer " + token(key, subject, good), address: "192.0.2.1"}
	return tb.edit(t, c, policy.Token, state)
}

// edit gives the caller of a token or an address the record that its state needs.
func (tb *table) edit(t *testing.T, c caller, kind policy.Kind, state string) caller {
	t.Helper()
	changes := map[string]func(*policy.Key){
		"revoked": func(k *policy.Key) { k.Status = policy.Revoked }, "banned": ban,
		"expired": func(k *policy.Key) { k.Expires = time.Date(2020, 1, 1, 0, 0, 0, 0, time.UTC) },
	}
	change, found := changes[state]
	if state == "over" {
		c.calls = 1
	}
	if !found || kind == policy.Token && state == "expired" {
		return c
	}
	credential := strings.TrimPrefix(c.value, "Bearer ")
	headers := map[string][]string{}
	if credential != "" {
		headers["authorization"] = []string{"Bearer " + credential}
	}
	source, _ := proxies.ParseAddr(c.address)
	who, err := tb.identities.Identify(t.Context(), identity.Request{Headers: headers, Source: source})
	if err != nil {
		t.Fatal(err)
	}
	k, err := tb.store.Adopt(t.Context(), kind, who.Subject, "adopted", nil, tester)
	if err != nil {
		t.Fatal(err)
	}
	k = must(registrytest.Update(t.Context(), tb.store, k.ID, "key.edit", tester, change))
	c.name, c.keyVersion = "adopted", k.Version
	return c
}

// invoke sends the event of a caller.
func (tb *table) invoke(t *testing.T, kind string, checker Checker, c caller) (map[string]any, error) {
	t.Helper()
	k := eventKinds[kind]
	return invoke(t, New(checker, tb.identities, k.answers, slog.New(slog.NewJSONHandler(&tb.log, nil))),
		k.event(c.header, c.value, c.address))
}

// want returns the expected answer, or nil for the error that is a 401.
func (tb *table) want(kind, state string, c caller) map[string]any {
	k, id := eventKinds[kind], tb.recorder.call.Subject
	context := map[string]any{
		"denied": false, "keyId": id, "plan": "hourly",
		"policyVersion": float64(tb.recorder.checked.SetVersion), "keyVersion": float64(c.keyVersion),
	}
	if c.name != "" {
		context["keyName"] = c.name
	}
	until := func(d time.Duration) string {
		return strconv.FormatInt(int64((d+time.Second-1)/time.Second), 10)
	}
	allowed := false
	switch state {
	case "allowed":
		allowed = true
		maps.Copy(context, map[string]any{
			"limit": 1.0, "remaining": 0.0, "reset": 3600.0,
			"rateLimit": `"1 per hour";r=0;t=3600`, "rateLimitPolicy": `"1 per hour";q=1;w=3600`,
		})
	case "over":
		u := tb.recorder.checked.Limits[0]
		wait := until(u.RetryAfter)
		maps.Copy(context, map[string]any{
			"denied":           true,
			"limit":            1.0,
			"remaining":        0.0,
			"reset":            must(strconv.ParseFloat(until(u.Next), 64)),
			"rateLimit":        `"1 per hour";r=0;t=` + wait,
			"rateLimitPolicy":  `"1 per hour";q=1;w=3600`,
			"retryAfter":       wait,
			"message":          "The limit of 1 per hour is reached. Retry after " + wait + " seconds.",
			"violatedPolicies": `["1 per hour"]`,
			"violatedPolicy":   "1 per hour",
			"wait":             wait,
			"problemType":      "https://iana.org/assignments/http-problem-types#quota-exceeded",
			"reference":        "",
		})
	case "banned":
		wait := until(tb.recorder.checked.BannedUntil.Sub(tb.recorder.checked.Now))
		maps.Copy(context, map[string]any{
			"denied":           true,
			"retryAfter":       wait,
			"message":          "This caller is banned. Retry after " + wait + " seconds.",
			"violatedPolicies": "[]",
			"violatedPolicy":   "ban",
			"wait":             wait,
			"problemType":      "https://iana.org/assignments/http-problem-types#abnormal-usage-detected",
			"reference":        "",
		})
	case "Valkey unavailable":
		id = "unverified"
		context = map[string]any{
			"degraded":         true,
			"retryAfter":       "1",
			"message":          "The limits cannot be checked right now. Retry after 1 second.",
			"violatedPolicies": "[]",
			"violatedPolicy":   "capacity",
			"wait":             "1",
			"problemType":      "https://iana.org/assignments/http-problem-types#temporary-reduced-capacity",
			"reference":        "",
		}
	default:
		if !strings.HasPrefix(kind, "HTTP") {
			return nil
		}
		id, context = "unverified", map[string]any{"message": "A valid credential is required."}
	}
	if kind == "HTTP 2.0 simple" {
		return map[string]any{"isAuthorized": allowed, "context": context}
	}
	return iamPolicy(id, map[bool]string{true: "Allow", false: "Deny"}[allowed], k.arn, context)
}

// The answer is exact for every kind of event, source of identities and state of a
// caller.
func TestAnswers(t *testing.T) {
	tb := newTable(t)
	for kind := range eventKinds {
		for _, source := range []string{"key", "jwt", "ip"} {
			for _, state := range []string{"allowed", "over", "unknown", "revoked", "expired", "banned",
				"Valkey unavailable"} {
				t.Run(kind+"/"+source+"/"+state, func(t *testing.T) { tb.testAnswer(t, kind, source, state) })
			}
		}
	}
}

func (tb *table) testAnswer(t *testing.T, kind, source, state string) {
	c := tb.newCaller(t, source, state)
	var checker Checker = tb.recorder
	if state == "Valkey unavailable" {
		checker = unavailableStore{}
	}
	for range c.calls {
		_, err := tb.invoke(t, kind, checker, c)
		if (err != nil) != (kind == "REST TOKEN" && source == "ip") {
			t.Fatal(err)
		}
	}
	if kind == "REST TOKEN" && source == "ip" {
		state = "unknown" // a TOKEN event has no address
	}
	got, err := tb.invoke(t, kind, checker, c)
	want := tb.want(kind, state, c)
	if want == nil {
		if !errors.Is(err, ErrUnauthorized) {
			t.Errorf("%v, %v; want Unauthorized", got, err)
		}
		return
	}
	if diff := cmp.Diff(want, got); err != nil || diff != "" {
		t.Errorf("%v %s", err, diff)
	}
}

type noRoute struct{}

func (noRoute) RoundTrip(*http.Request) (*http.Response, error) {
	return nil, errors.New("no route to the issuer")
}

// While the token issuer's keys or the policy set cannot be read, a token is denied with
// a time to retry, as while Valkey is unavailable. It is not called invalid.
func TestTokenWithoutKeysOrPolicy(t *testing.T) {
	tb := newTable(t)
	withoutKeys := must(identity.New(identity.Config{
		Sources: []identity.Kind{identity.JWT, identity.IP}, IPv4Bits: 32, IPv6Bits: 64, Pepper: tb.pepper,
		JWT: jwt.Config{
			Issuers: []jwt.Issuer{{Name: issuer, Audiences: []string{audience},
				KeysURL: must(jwt.ParseURL("https://issuer.example/keys"))}},
			Client: &http.Client{Transport: noRoute{}},
		},
	}))
	for kind := range eventKinds {
		for _, denial := range []Denial{Deny, InContext} {
			for cause, identities := range map[string]*identity.Resolver{"no keys": withoutKeys,
				"no policy set": tb.identities} {
				c := tb.newCaller(t, "jwt", "allowed")
				k := eventKinds[kind]
				a := New(unusableSet{}, identities, Answers{Format: k.answers.Format, Denial: denial},
					slog.New(slog.DiscardHandler))
				got, err := invoke(t, a, k.event(c.header, c.value, c.address))
				if diff := cmp.Diff(tb.want(kind, "Valkey unavailable", c), got); err != nil || diff != "" {
					t.Errorf("%s, %s, %s: %v %s", kind, denial, cause, err, diff)
				}
			}
		}
	}
}

// A token that is refused since it names no plan says why its claim names none.
func TestRefusalSaysWhyNoPlan(t *testing.T) {
	f := newFixture(t, valkeytest.Start(t))
	identities := must(identity.New(identity.Config{
		Sources: []identity.Kind{identity.JWT}, Pepper: apikey.Pepper(strings.Repeat("pepper!!", 4)),
		JWT: jwt.Config{Issuers: []jwt.Issuer{{Name: issuer, Audiences: []string{audience},
			Keys: must(jwt.ParseKeys([]byte(signingKey.Set()))), PlanClaim: "tier"}}},
	}))
	a := New(f.checker, identities, simple, slog.New(slog.DiscardHandler))
	var reasons []string
	a.Refused = func(_ context.Context, r Refused) { reasons = append(reasons, r.Refusal.Reason) }
	for range 2 { // the second call finds the caller in memory
		event := restEvent(map[string][]string{"Authorization": {token(signingKey, "ada", time.Hour)}})
		if _, err := invoke(t, a, event); !errors.Is(err, ErrUnauthorized) {
			t.Errorf("got %v, want ErrUnauthorized", err)
		}
	}
	want := enforce.NoPlan + `: claim "tier" is missing`
	if diff := cmp.Diff([]string{want, want}, reasons); diff != "" {
		t.Error(diff)
	}
}

// unusableSet is a Checker without a usable policy set.
type unusableSet struct{}

func (unusableSet) Check(context.Context, enforce.Call) (enforce.Result, error) {
	return enforce.Result{}, fmt.Errorf("%w: for a test", enforce.ErrSet)
}

// With InContext, denials of known callers, bans included, pass an HTTP API as allowed
// with the denial in the context. Other denials do not pass.
func TestDenialsInContext(t *testing.T) {
	tb := newTable(t)
	for _, kind := range []string{"HTTP 1.0", "HTTP 2.0 simple", "HTTP 2.0 IAM", "REST REQUEST",
		"WebSocket"} {
		for state, passes := range map[string]bool{"allowed": true, "over": true, "banned": true,
			"unknown": false, "revoked": false, "Valkey unavailable": false} {
			c := tb.newCaller(t, "key", state)
			var checker Checker = tb.recorder
			if state == "Valkey unavailable" {
				checker = unavailableStore{}
			}
			k := eventKinds[kind]
			a := New(checker, tb.identities, Answers{Format: k.answers.Format, Denial: InContext},
				slog.New(slog.DiscardHandler))
			event := k.event(c.header, c.value, c.address)
			for range c.calls {
				must(invoke(t, a, event))
			}
			got, err := invoke(t, a, event)
			raw := must(json.Marshal(got))
			want := passes && (strings.HasPrefix(kind, "HTTP") || state == "allowed")
			if passed := err == nil && !denied(raw); passed != want {
				t.Errorf("%s %s: got %s, %v; want passed = %t", kind, state, raw, err, want)
			}
			if context, ok := got["context"].(map[string]any); passes &&
				(!ok || context["denied"] != (state != "allowed")) {
				t.Errorf("%s %s: the context's denied is wrong in %s", kind, state, raw)
			}
		}
	}
}

// With UsageIdentifier, answers to REST and WebSocket APIs contain a usageIdentifierKey
// for known callers. Other answers do not.
func TestUsageIdentifier(t *testing.T) {
	tb := newTable(t)
	for kind, k := range eventKinds {
		for _, wanted := range []bool{true, false} {
			for _, state := range []string{"allowed", "over", "Valkey unavailable"} {
				c := tb.newCaller(t, "key", state)
				var checker Checker = tb.recorder
				if state == "Valkey unavailable" {
					checker = unavailableStore{}
				}
				a := New(checker, tb.identities, Answers{Format: k.answers.Format, Denial: Deny,
					UsageIdentifier: wanted}, slog.New(slog.DiscardHandler))
				got := must(invoke(t, a, k.event(c.header, c.value, c.address)))
				want := any(nil)
				if wanted && state != "Valkey unavailable" && !strings.HasPrefix(kind, "HTTP") {
					want = "tidegate0" + tb.recorder.call.Subject
				}
				if got["usageIdentifierKey"] != want {
					t.Errorf("%s %s %t: got %v, want %v", kind, state, wanted,
						got["usageIdentifierKey"], want)
				}
			}
		}
	}
}

// API Gateway accepts 20 to 128 alphanumeric characters as a usage identifier. Different
// callers must have different ones.
func TestUsageIdentifierIsAlphanumeric(t *testing.T) {
	documented := regexp.MustCompile(`^[A-Za-z0-9]{20,128}$`)
	seen := map[string]string{}
	for _, id := range []string{"0123456789ab", "DDUPliQd8udS", "-_-_-_-_-_-_-_-_-_-_-_",
		"AAAAAAAAAAAAAAAAAAAAA_", "AAAAAAAAAAAAAAAAAAAAA-"} {
		got := usageIdentifier(id)
		if !documented.MatchString(got) || seen[got] != "" {
			t.Errorf("%s: got %s, which is invalid or that of %q", id, got, seen[got])
		}
		seen[got] = id
	}
}

// A call from a refused address gets the same answer as one without a credential, in
// every kind of event.
func TestRefusedAddress(t *testing.T) {
	tb := newTable(t)
	registrytest.Save(t, tb.store, tester, func(set *policy.Set) {
		set.Deny = []netip.Prefix{netip.MustParsePrefix("192.0.2.0/24")}
	})
	for kind, k := range eventKinds {
		if kind == "REST TOKEN" {
			continue // it has no address
		}
		c := tb.newCaller(t, "key", "allowed")
		got, err := tb.invoke(t, kind, tb.recorder, c)
		event := k.event(c.header, c.value, c.address)
		if kind == "HTTP 2.0 IAM" {
			event["version"] = "1.0" // wantRefused compares the ARN of 1.0
			got = map[string]any{"principalId": got["principalId"], "context": got["context"],
				"policyDocument": iamPolicy("", "Deny", methodARN, nil)["policyDocument"]}
		}
		if err := wantRefused(got, err, event); err != nil {
			t.Errorf("%s: %v", kind, err)
		}
	}
}

// A call that costs more than its limit ever admits is denied without a Retry-After,
// since waiting does not help.
func TestNeverPasses(t *testing.T) {
	tb := newTable(t)
	tb.setCost(t, 1)
	c := tb.newCaller(t, "key", "allowed")
	must(tb.invoke(t, "REST REQUEST", tb.recorder, c))
	id := tb.recorder.call.Subject
	override := &policy.Override{Reason: "small", Limits: registrytest.Limits("2 per hour")}
	k := must(registrytest.Override(t.Context(), tb.store, id, override, tester))
	tb.setCost(t, 3)
	got := must(tb.invoke(t, "REST REQUEST", tb.recorder, c))
	want := iamPolicy(id, "Deny", methodARN, map[string]any{
		"denied": true, "keyId": id, "keyName": c.name, "keyVersion": float64(k.Version), "plan": "hourly",
		"route":            "orders",
		"policyVersion":    float64(tb.recorder.checked.SetVersion),
		"message":          "This call costs more than its limit ever admits. It can never pass.",
		"violatedPolicies": "[]", "violatedPolicy": "cost", "wait": "never",
		"problemType": "https://iana.org/assignments/http-problem-types#quota-exceeded", "reference": "",
	})
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}

// On a route that settles, the context of an allowed call has a text that can
// be settled.
func TestSettlementInTheContext(t *testing.T) {
	tb := newTable(t)
	tb.setCost(t, 4)
	registrytest.Save(t, tb.store, tester, func(set *policy.Set) { set.Routes[0].Settle = true })
	c := tb.newCaller(t, "key", "allowed")
	for kind := range eventKinds {
		if kind == "WebSocket" {
			continue // has no path, so it does not fall under the route
		}
		context, _ := must(tb.invoke(t, kind, tb.recorder, c))["context"].(map[string]any)
		settlement, _ := context["settlement"].(string)
		s := must(tb.checker.Settle(t.Context(), settlement,
			limits.Costs{Units: map[string]int64{limits.Cost: 0}}))
		if s.Reserved[limits.Cost] != 4 {
			t.Errorf("%s: %+v", kind, s)
		}
	}
}
