//go:build unix

package attacks

import (
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"testing"

	"tidegate/internal/testing/leaks"
)

// No log line of the functions and gateways since the start of the suite has a
// credential, another secret or a client's address.
func TestAttackSecretsInLogs(t *testing.T) {
	a, i := attack(t, "secrets in logs",
		"keys, tokens, passwords, sessions, an address, the pepper and Valkey's passwords, in every "+
			"usual place of a request; all log lines are searched for each, in every usual encoding")
	_, key := i.key(t, wide)
	planted := map[string]string{
		"key": key, "unknown key": unknown(t), "revoked key": i.revoked(t),
		"write token": i.machineToken(t, "write"),
		"session":     strings.TrimPrefix(i.session(t, editorName), "__Host-tidegate="),
		"JWT":         signed(issuerKey, map[string]any{"sub": "secret-subject@example.com"}),
		"address":     "203.0.113.77", "IPv6 address": "2001:db8:77:4d::77",
	}
	rest, http2 := i.tokens(t, map[string]string{"IDENTITY_SOURCES": "key,jwt,ip"})
	for _, secret := range planted {
		for _, address := range []string{"203.0.113.77", "2001:db8:77:4d::77"} {
			for _, target := range []target{rest, http2, i.site} {
				i.sendEverywhere(t, target, address, secret)
			}
		}
	}
	for name, secret := range planted {
		i.secrets[name] = secret
	}
	if lines := strings.Count(i.log.String(), "\n"); lines < 50 {
		t.Fatalf("%d log lines: nothing to search", lines)
	}
	for range i.secrets {
		a.probe()
	}
	for _, leak := range i.leaks() {
		t.Error(leak)
	}
}

// leaks searches the whole log for each secret. The suite calls it again after all tests.
func (i *installation) leaks() []string {
	text := i.log.String()
	var found []string
	for name, secret := range i.secrets {
		for _, leak := range leaks.Leaks([]byte(text), secret) {
			found = append(found, fmt.Sprintf("log, %s: %s", name, leak))
		}
	}
	return found
}

// sendEverywhere sends a secret in every place where clients put secrets, including wrong
// ones.
func (i *installation) sendEverywhere(t *testing.T, target target, address, secret string) {
	t.Helper()
	in := url.QueryEscape(secret)
	for _, header := range [][]string{
		{"x-api-key", secret}, {"Authorization", "Bearer " + secret}, {"Authorization", secret},
		{"Cookie", "__Host-tidegate=" + secret},
		{"X-Forwarded-For", secret}, {"User-Agent", secret}, {"Referer", "https://x/?k=" + in},
		{"If-Match", secret},
	} {
		target.from(t, address, http.MethodGet, "/api/v1/keys", "", header...)
	}
	for _, path := range []string{"/keys?key=" + in, "/api/v1/keys?prefix=" + in, "/login?next=/" + in} {
		target.from(t, address, http.MethodGet, path, "")
	}
	form := url.Values{"user": {secret}, "password": {secret}}.Encode()
	target.from(t, address, http.MethodPost, "/login", form, "Content-Type",
		"application/x-www-form-urlencoded", "Sec-Fetch-Site", "same-origin")
	target.from(t, address, http.MethodPost, "/api/v1/settlements",
		fmt.Sprintf(`{"settlement":%q,"cost":{%q:1}}`, secret, secret),
		"Content-Type", "application/json", "Authorization", "Bearer "+secret)
}
