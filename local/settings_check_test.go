//go:build unix

package main

import (
	"crypto/ed25519"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/go-jose/go-jose/v4"

	"tidegate/internal/apikey"
	"tidegate/internal/enforce"
	"tidegate/internal/limiter"
	"tidegate/internal/policy"
	"tidegate/internal/route"
	"tidegate/internal/testing/valkeytest"
	"tidegate/internal/testing/waiting"
)

// proxiedCheck is the built check function with a server behind a proxy.
type proxiedCheck struct {
	*checkFunction
	proxy *valkeytest.Proxy
}

const noServer = "valkey://127.0.0.1:1"

// startProxiedCheck starts the function. Without VALKEY_URL it reaches the server through
// the proxy.
func startProxiedCheck(t *testing.T, variables map[string]string) proxiedCheck {
	t.Helper()
	server := valkeytest.Start(t)
	proxy := valkeytest.StartProxy(t, server, nil)
	if variables["VALKEY_CONNECT_TIMEOUT"] != "" {
		proxy.DelayFirstReplies(time.Second)
	}
	if variables["VALKEY_URL"] == "" {
		variables["VALKEY_URL"] = proxy.URL()
	}
	f := startCheck(t, server, variables)
	set, err := f.store.Set(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	set.Plans[0].Degraded = policy.Open
	set.Plans = append(set.Plans, policy.Plan{Name: "five",
		Limits: []limiter.Limit{{Requests: 5, Window: time.Hour}}})
	set.Routes = []policy.Route{{Name: "all", Cost: 1, Settle: true, Pattern: route.Pattern{}}}
	if _, err := f.store.SaveSet(t.Context(), *set, byTest); err != nil {
		t.Fatal(err)
	}
	return proxiedCheck{f, proxy}
}

// answerTo returns the function's answer, or its error.
func (c proxiedCheck) answerTo(t *testing.T, event string) string {
	t.Helper()
	answer, err := c.Invoke(t.Context(), []byte(event))
	if err != nil {
		return err.Error()
	}
	return string(answer)
}

// verdict returns allow, deny or refuse.
func (c proxiedCheck) verdict(t *testing.T, event string) string {
	t.Helper()
	switch text := c.answerTo(t, event); {
	case strings.Contains(text, `"Effect":"Allow"`):
		return "allow"
	case strings.Contains(text, `"Effect":"Deny"`):
		return "deny"
	case strings.Contains(text, "Unauthorized"):
		return "refuse"
	default:
		return text
	}
}

// callOf returns a call with a new key.
func (c proxiedCheck) callOf(t *testing.T) string {
	t.Helper()
	_, secret := c.newKey(t)
	return canaryEvent("x-api-key", secret.Reveal(), canaryAddress)
}

func oneCall(t *testing.T, c proxiedCheck) string { t.Helper(); return c.verdict(t, c.callOf(t)) }

// context returns a value of the answer's context.
func (c proxiedCheck) context(t *testing.T, event, name string) string {
	t.Helper()
	var answer struct{ Context map[string]any }
	text := c.answerTo(t, event)
	if err := json.Unmarshal([]byte(text), &answer); err != nil {
		t.Fatalf("%v in %s", err, text)
	}
	return fmt.Sprint(answer.Context[name])
}

// httpEvent returns a call of an HTTP API with payload 2.0.
func httpEvent(key string) string {
	text, _ := json.Marshal(map[string]any{ // texts always encode
		"version": "2.0", "type": "REQUEST",
		"routeArn": "arn:aws:execute-api:us-east-1:123456789012:abcdef123/$default/GET/orders",
		"routeKey": "$default", "rawPath": "/orders", "headers": map[string]string{"x-api-key": key},
		"requestContext": map[string]any{"stage": "$default", "requestId": "r", "http": map[string]any{
			"method": "GET", "path": "/orders", "sourceIp": canaryAddress,
		}},
	})
	return string(text)
}

var settingsKey = ed25519.NewKeyFromSeed([]byte(strings.Repeat("v", 32)))

func keySetOf(key ed25519.PrivateKey) string {
	public := jose.JSONWebKey{KeyID: "1", Algorithm: "EdDSA", Use: "sig", Key: key.Public()}
	text, _ := json.Marshal(jose.JSONWebKeySet{Keys: []jose.JSONWebKey{public}}) // keys always encode
	return string(text)
}

// bearer returns a call with a token of the issuer that expires after good.
func bearer(t *testing.T, good time.Duration) string {
	t.Helper()
	return canaryEvent("authorization", "Bearer "+signedToken(t, good), canaryAddress)
}

func signedToken(t *testing.T, good time.Duration) string {
	t.Helper()
	signer, err := jose.NewSigner(jose.SigningKey{Algorithm: jose.EdDSA, Key: settingsKey},
		(&jose.SignerOptions{}).WithHeader("kid", "1"))
	if err != nil {
		t.Fatal(err)
	}
	claims, _ := json.Marshal(map[string]any{ // texts and numbers always encode
		"iss": canaryIssuer, "aud": "orders", "sub": "ada", "client_id": "app", "tier": "five",
		"exp": time.Now().Add(good).Unix(),
	})
	object, err := signer.Sign(claims)
	if err != nil {
		t.Fatal(err)
	}
	text, err := object.CompactSerialize()
	if err != nil {
		t.Fatal(err)
	}
	return text
}

func withToken(t *testing.T, c proxiedCheck) string {
	t.Helper()
	return c.verdict(t, bearer(t, time.Hour))
}

// tokens returns variables that accept the test's tokens, with changes.
func tokens(changes ...string) map[string]string {
	all := map[string]string{
		"IDENTITY_SOURCES": "jwt", "JWT_ISSUER": canaryIssuer, "JWT_AUDIENCE": "orders",
		"JWT_JWKS": keySetOf(settingsKey),
	}
	for i := 0; i+1 < len(changes); i += 2 {
		all[changes[i]] = changes[i+1]
	}
	return all
}

// shareIdentity reports whether two addresses count as one caller.
func shareIdentity(one, other string) func(*testing.T, proxiedCheck) string {
	return func(t *testing.T, c proxiedCheck) string {
		t.Helper()
		first, second := c.context(t, canaryEvent("x", "y", one), "keyId"),
			c.context(t, canaryEvent("x", "y", other), "keyId")
		return map[bool]string{true: "one caller", false: "two callers"}[first == second]
	}
}

// whileSilent returns the verdict on a call whose connection passes no data. It adds
// "late" if the call waited for at least a second, a third of the longest VALKEY_TIMEOUT.
func whileSilent(t *testing.T, c proxiedCheck) string {
	t.Helper()
	call := c.callOf(t)
	if first := c.verdict(t, call); first != "allow" {
		t.Fatalf("first call: %s", first)
	}
	c.proxy.Silence()
	began := time.Now()
	verdict := c.verdict(t, call)
	if time.Since(began) >= time.Second {
		verdict += " late"
	}
	return verdict
}

// inAnOutage returns the verdict on a caller that was allowed before the server began to
// refuse commands.
func inAnOutage(t *testing.T, c proxiedCheck) string {
	t.Helper()
	call := c.callOf(t)
	if first := c.verdict(t, call); first != "allow" {
		t.Fatalf("first call: %s", first)
	}
	for _, command := range [][]string{{"CONFIG", "SET", "replica-serve-stale-data", "no"},
		{"REPLICAOF", "127.0.0.1", "1"}} {
		if err := c.client.Do(t.Context(), c.client.B().Arbitrary(command...).Build()).Error(); err != nil {
			t.Fatal(err)
		}
	}
	return c.verdict(t, call)
}

// subjectID returns the id of the caller with this name in its tokens.
func subjectID(name string) string {
	return apikey.NewKey(apikey.Pepper(checkPepper)).Token(canaryIssuer, name)
}

var scriptCalls = regexp.MustCompile(`cmdstat_evalsha:calls=(\d+)`)

// scriptRuns returns the number of scripts that the server has run.
func (c proxiedCheck) scriptRuns(t *testing.T) int {
	t.Helper()
	info, err := c.client.Do(t.Context(), c.client.B().Info().Section("commandstats").Build()).ToString()
	if err != nil {
		t.Fatal(err)
	}
	match := scriptCalls.FindStringSubmatch(info)
	if match == nil {
		return 0
	}
	n, _ := strconv.Atoi(match[1]) // digits
	return n
}

// denyCache reports whether each call of a denied caller asks the server.
func denyCache(t *testing.T, c proxiedCheck) string {
	t.Helper()
	const calls = 400 // more than the scripts that send usage records after the first answers
	call := c.callOf(t)
	c.answerTo(t, call)
	before := c.scriptRuns(t)
	for range calls {
		c.answerTo(t, call)
	}
	if c.scriptRuns(t)-before >= calls {
		return "each call asks"
	}
	return "some are denied from memory"
}

// settled returns the result of settling more than a second after the call.
func settled(t *testing.T, c proxiedCheck) string {
	t.Helper()
	reservation := c.context(t, c.callOf(t), "reservation")
	issued := c.now(t)
	waiting.Until(t, "a second of Valkey's clock", func() bool { return c.now(t).Sub(issued) > time.Second })
	_, err := enforce.NewChecker(c.client, apikey.Pepper(checkPepper)).Settle(t.Context(), reservation, 0)
	if errors.Is(err, enforce.ErrExpired) {
		return "expired"
	}
	return fmt.Sprint(err)
}

// now returns the time on Valkey's clock.
func (f *checkFunction) now(t *testing.T) time.Time {
	t.Helper()
	parts, err := f.client.Do(t.Context(), f.client.B().Time().Build()).AsIntSlice()
	if err != nil || len(parts) != 2 {
		t.Fatal(parts, err)
	}
	return time.Unix(parts[0], parts[1]*1000)
}

// logContains makes calls until one is denied, ends the function, and reports whether its
// output has a text.
func logContains(text string) func(*testing.T, proxiedCheck) string {
	return func(t *testing.T, c proxiedCheck) string {
		t.Helper()
		call := c.callOf(t)
		for range 3 {
			c.answerTo(t, call)
		}
		c.Close()
		return map[bool]string{true: "written", false: "not written"}[strings.Contains(c.log.String(), text)]
	}
}

// answerContains reports whether the answer to a key's third call has a text. event makes
// the event of a call with the key.
func answerContains(text string, event func(key string) string) func(*testing.T, proxiedCheck) string {
	return func(t *testing.T, c proxiedCheck) string {
		t.Helper()
		_, secret := c.newKey(t)
		answer := ""
		for range 3 {
			answer = c.answerTo(t, event(secret.Reveal()))
		}
		return map[bool]string{true: "there", false: "not there"}[strings.Contains(answer, text)]
	}
}

func restEvent(key string) string { return canaryEvent("x-api-key", key, canaryAddress) }

// foreignCall returns the verdict on an imported key of another system.
func foreignCall(t *testing.T, c proxiedCheck) string {
	t.Helper()
	const value = "AbCdEfGhIjKlMnOpQrStUvWxYz0123456789abcd"
	c.store.ForeignKeys = true
	if _, _, err := c.store.Create(t.Context(), policy.NewKey{Name: "old", Env: "live", Plan: "two",
		Value: value}, byTest); err != nil {
		t.Fatal(err)
	}
	return c.verdict(t, restEvent(value))
}

// Every documented variable of the check function changes what the built function does.
func TestCheckVariables(t *testing.T) {
	keys := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		_, _ = fmt.Fprint(w, keySetOf(settingsKey))
	}))
	t.Cleanup(keys.Close)
	byURL := tokens()
	delete(byURL, "JWT_JWKS")
	rows := map[string]setting[proxiedCheck]{
		"VALKEY_URL": {nil, map[string]string{"": "allow", noServer: "deny"}, oneCall},
		"KEY_PEPPER": {nil,
			map[string]string{checkPepper: "allow", checkPepper + " not": "refuse"}, oneCall},
		"VALKEY_TIMEOUT":         {nil, map[string]string{"50ms": "allow", "3s": "allow late"}, whileSilent},
		"VALKEY_CONNECT_TIMEOUT": {nil, map[string]string{"100ms": "deny", "8s": "allow"}, oneCall},
		"CALLER_CACHE":           {nil, map[string]string{"10m": "allow", "0s": "deny"}, inAnOutage},
		"DENY_CACHE": {nil,
			map[string]string{"0s": "each call asks", "1m": "some are denied from memory"}, denyCache},
		"HTTP_API_RESPONSE": {nil, map[string]string{"simple": "there", "iam": "not there"},
			answerContains("isAuthorized", httpEvent)},
		"HTTP_API_DENY": {nil, map[string]string{"deny": "not there", "context": "there"},
			answerContains(`"isAuthorized":true`, httpEvent)},
		"USAGE_IDENTIFIER": {nil, map[string]string{"false": "not there", "true": "there"},
			answerContains("usageIdentifierKey", restEvent)},
		"FOREIGN_KEYS":      {nil, map[string]string{"false": "refuse", "true": "allow"}, foreignCall},
		"RESERVATION_LEASE": {nil, map[string]string{"1s": "expired", "24h": "<nil>"}, settled},
		"STAGE": {nil, map[string]string{"": "not written", "blue": "written"},
			logContains(`"Stage":"blue"`)},
		"LOG_LEVEL": {nil, map[string]string{"info": "written", "error": "not written"},
			logContains(`"msg":"denied"`)},
		"IDENTITY_SOURCES": {nil, map[string]string{"key": "refuse", "key,ip": "allow"},
			func(t *testing.T, c proxiedCheck) string {
				t.Helper()
				return c.verdict(t, canaryEvent("x", "y", canaryAddress))
			}},
		"JWT_ISSUER": {tokens(), map[string]string{canaryIssuer: "allow",
			"https://other.example/": "refuse"}, withToken},
		"JWT_AUDIENCE": {tokens(), map[string]string{"orders": "allow", "others": "refuse",
			"others,orders": "allow"}, withToken},
		"JWT_JWKS": {tokens(), map[string]string{
			keySetOf(settingsKey): "allow",
			keySetOf(ed25519.NewKeyFromSeed([]byte(strings.Repeat("w", 32)))): "refuse",
		}, withToken},
		"JWT_JWKS_URL": {byURL, map[string]string{keys.URL: "allow",
			"http://127.0.0.1:1/": "deny"}, withToken},
		"JWT_LEEWAY": {tokens(), map[string]string{"0s": "refuse", "5m": "allow"},
			func(t *testing.T, c proxiedCheck) string {
				t.Helper()
				return c.verdict(t, bearer(t, -time.Minute))
			}},
		"JWT_IDENTITY_CLAIM": {tokens(), map[string]string{"sub": subjectID("ada"),
			"client_id": subjectID("app")}, func(t *testing.T, c proxiedCheck) string {
			t.Helper()
			return c.context(t, bearer(t, time.Hour), "keyId")
		}},
		"JWT_PLAN_CLAIM": {tokens(), map[string]string{"": "two", "tier": "five"},
			func(t *testing.T, c proxiedCheck) string {
				t.Helper()
				return c.context(t, bearer(t, time.Hour), "plan")
			}},
		"IPV4_PREFIX": {map[string]string{"IDENTITY_SOURCES": "ip"},
			map[string]string{"32": "two callers", "24": "one caller"},
			shareIdentity("203.0.113.7", "203.0.113.9")},
		"IPV6_PREFIX": {map[string]string{"IDENTITY_SOURCES": "ip"},
			map[string]string{"64": "two callers", "32": "one caller"},
			shareIdentity("2001:db8:1::1", "2001:db8:2::1")},
	}
	testVariables(t, documentedVariables(t, "check"), rows, startProxiedCheck)
}
