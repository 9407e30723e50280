//go:build unix

package main

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/valkey-io/valkey-go"

	"tidegate/internal/apikey"
	"tidegate/internal/testing/leaks"
	"tidegate/internal/testing/oidctest"
	"tidegate/internal/testing/registrytest"
	"tidegate/internal/testing/tier"
	"tidegate/internal/testing/valkeytest"
)

const (
	canaryIssuer  = "https://issuer.example/"
	canaryAddress = "203.0.113.77"
	canaryNetwork = "2001:db8:77:4d::77"
)

// canaries are credentials that occur only in the events of this test.
type canaries struct {
	keys   map[string]string // by their defect
	tokens map[string]string
	jwks   string
}

func newCanaries(t *testing.T) *canaries {
	t.Helper()
	key := oidctest.NewKey('c')
	c := &canaries{jwks: key.Set(), keys: map[string]string{}}
	c.tokens = map[string]string{
		"good":    signedTokenOf(key, "canary-subject-good@example.com", time.Hour),
		"expired": signedTokenOf(key, "canary-subject-late@example.com", -time.Hour),
		"foreign": signedTokenOf(oidctest.NewKey('x'), "canary-subject-foreign@example.com", time.Hour),
		"broken":  signedTokenOf(key, "canary-subject-broken@example.com", time.Hour) + "A",
	}
	return c
}

// signedTokenOf returns a token for the subject, signed with the key, that expires after
// valid.
func signedTokenOf(key oidctest.Key, subject string, valid time.Duration) string {
	return key.Sign(map[string]any{"iss": canaryIssuer, "aud": "orders", "sub": subject,
		"exp": time.Now().Add(valid).Unix()})
}

// all lists the texts that must not leak.
func (c *canaries) all() []string {
	all := []string{canaryAddress, canaryNetwork, checkPepper}
	for _, group := range []map[string]string{c.keys, c.tokens} {
		for _, text := range group {
			all = append(all, text)
		}
	}
	for _, who := range []string{"good", "late", "foreign", "broken"} {
		all = append(all, "canary-subject-"+who+"@example.com")
	}
	return all
}

// events returns calls with every credential, from both addresses, in several kinds of
// event, and some invalid ones.
func (c *canaries) events() []string {
	var events []string
	for i, address := range []string{canaryAddress, canaryNetwork} {
		for _, key := range c.keys {
			events = append(events, canaryEvent("x-api-key", key, address),
				canaryEvent("Authorization", key, address), tokenEvent(key))
		}
		for _, token := range c.tokens {
			events = append(events, canaryEvent("authorization", "Bearer "+token, address), tokenEvent(token))
		}
		events = append(events, canaryEvent("x-other", fmt.Sprint(i), address))
	}
	for _, text := range c.all() {
		events = append(events, fmt.Sprintf("%q", text),
			fmt.Sprintf(`{"type":%q,"methodArn":%q,"headers":[%q]}`, text, text, text),
			fmt.Sprintf(
				`{"type":"REQUEST","methodArn":"arn:aws:execute-api:r:1:a/s/GET/%s","requestContext":{"eventType":%q}}`, "orders", text))
	}
	return events
}

func canaryEvent(header, value, address string) string {
	text, _ := json.Marshal(map[string]any{ // texts always encode
		"type":      "REQUEST",
		"methodArn": "arn:aws:execute-api:us-east-1:123456789012:abcdef123/prod/GET/orders",
		"headers":   map[string]string{header: value},
		"path":      "/orders", "requestContext": map[string]any{"requestId": "r",
			"identity": map[string]any{"sourceIp": address}},
	})
	return string(text)
}

func tokenEvent(value string) string {
	text, _ := json.Marshal(map[string]any{
		"type": "TOKEN", "methodArn": "arn:aws:execute-api:us-east-1:123456789012:abcdef123/prod/GET/orders",
		"authorizationToken": value,
	})
	return string(text)
}

// No secret of a call leaks into the function's output, its answers or Valkey. Secrets
// are API keys, tokens, names in tokens, addresses and the pepper.
func TestNothingSecretLeaks(t *testing.T) {
	tier.Two(t, "searches all output for every kind of credential")
	c := newCanaries(t)
	proxy := valkeytest.StartProxy(t, valkeytest.Start(t), nil)
	f := startCheck(t, proxy.URL(), map[string]string{
		"IDENTITY_SOURCES": "key,jwt,ip", "JWT_ISSUER": canaryIssuer, "JWT_AUDIENCE": "orders",
		"JWT_JWKS": c.jwks, "VALKEY_TIMEOUT": "300ms",
	})
	c.addKeys(t, f)
	answers, allowed := f.invokeAll(t, c.events())
	if allowed < 4 {
		t.Fatalf("%d calls were allowed: the events lack valid credentials", allowed)
	}
	stored := f.dump(t)
	proxy.Silence()
	more, _ := f.invokeAll(t, c.events()[:20])
	for place, text := range map[string]string{"answers": answers + more, "output": f.log.String(),
		"Valkey": stored} {
		for _, leak := range leaks.Leaks([]byte(text), c.all()...) {
			t.Errorf("%s: %s", place, leak)
		}
	}
	if !strings.Contains(f.log.String(), `"level"`) || !strings.Contains(stored, "tg:{") {
		t.Errorf("nothing to search: output %q, %d bytes in Valkey", f.log.String(), len(stored))
	}
}

// addKeys creates keys of every kind.
func (c *canaries) addKeys(t *testing.T, f *checkFunction) {
	t.Helper()
	_, good := f.newKey(t)
	k, revoked := f.newKey(t)
	if _, err := registrytest.Revoke(t.Context(), f.store, k.ID, byTest); err != nil {
		t.Fatal(err)
	}
	unknown, err := apikey.Generate("test")
	if err != nil {
		t.Fatal(err)
	}
	g := good.Reveal()
	c.keys = map[string]string{
		"good": g, "revoked": revoked.Reveal(), "unknown": unknown.Reveal(),
		"mistyped": g[:20] + "x" + g[21:], "cut": g[:len(g)-2],
	}
}

// invokeAll sends events, and returns all answers and the number of those that allow.
func (f *checkFunction) invokeAll(t *testing.T, events []string) (answers string, allowed int) {
	t.Helper()
	for _, event := range events {
		answer, err := f.Invoke(t.Context(), []byte(event))
		if err != nil {
			answer = []byte(err.Error())
		}
		if strings.Contains(string(answer), `"Allow"`) {
			allowed++
		}
		answers += string(answer) + "\n"
	}
	return answers, allowed
}

// dump returns all names in Valkey, and the values of strings, hashes and sorted sets.
func (f *checkFunction) dump(t *testing.T) string {
	t.Helper()
	names, err := f.client.Do(t.Context(), f.client.B().Keys().Pattern("*").Build()).AsStrSlice()
	if err != nil {
		t.Fatal(err)
	}
	var all strings.Builder
	for _, name := range names {
		all.WriteString(name + "\n")
		for _, read := range []valkey.Completed{f.client.B().Get().Key(name).Build(),
			f.client.B().Hvals().Key(name).Build(),
			f.client.B().Zrange().Key(name).Min("0").Max("-1").Build()} {
			reply := f.client.Do(t.Context(), read) // an error if the type is another
			values, err := reply.AsStrSlice()
			if value, bad := reply.ToString(); bad == nil {
				all.WriteString(value + "\n")
			} else if err == nil {
				all.WriteString(strings.Join(values, "\n") + "\n")
			}
		}
	}
	return all.String()
}
