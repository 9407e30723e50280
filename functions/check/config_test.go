package main

import (
	"reflect"
	"slices"
	"strings"
	"testing"
)

// The error names the variable and its bound, and does not contain a secret's value.
func TestReadConfig(t *testing.T) {
	for _, c := range []struct {
		name, value string
		want        []string
	}{
		{"VALKEY_URL", "", []string{"VALKEY_URL"}},
		{"VALKEY_URL", "localhost:6379", []string{"VALKEY_URL", "valkey://"}},
		{"KEY_PEPPER", "", []string{"KEY_PEPPER"}},
		{"KEY_PEPPER", "short-secret", []string{"KEY_PEPPER", "at least 32"}},
		{"HTTP_API_RESPONSE", "xml", []string{"HTTP_API_RESPONSE", "simple or iam"}},
		{"HTTP_API_DENY", "429", []string{"HTTP_API_DENY", "deny or context"}},
		{"HTTP_API_DENY", "context", nil},
		{"USAGE_IDENTIFIER", "maybe", []string{"USAGE_IDENTIFIER"}},
		{"USAGE_IDENTIFIER", "true", nil},
		{"FOREIGN_KEYS", "maybe", []string{"FOREIGN_KEYS"}},
		{"FOREIGN_KEYS", "true", nil},
		{"SETTLE_WITHIN", "0s", []string{"SETTLE_WITHIN", "1s to 24h"}},
		{"SETTLE_WITHIN", "25h", []string{"SETTLE_WITHIN", "1s to 24h"}},
		{"VALKEY_TIMEOUT", "100", []string{"VALKEY_TIMEOUT"}},
		{"VALKEY_TIMEOUT", "1m", []string{"VALKEY_TIMEOUT", "1ms to 10s"}},
		{"VALKEY_CONNECT_TIMEOUT", "5", []string{"VALKEY_CONNECT_TIMEOUT"}},
		{"VALKEY_CONNECT_TIMEOUT", "99ms", []string{"VALKEY_CONNECT_TIMEOUT", "100ms to 8s"}},
		{"VALKEY_CONNECT_TIMEOUT", "9s", []string{"VALKEY_CONNECT_TIMEOUT", "100ms to 8s"}},
		{"VALKEY_CONNECT_TIMEOUT", "8s", nil},
		{"CALLER_CACHE", "25h", []string{"CALLER_CACHE", "0s to 24h"}},
		{"CALLER_CACHE", "-1s", []string{"CALLER_CACHE", "0s to 24h"}},
		{"CALLER_CACHE", "0s", nil},
		{"DENY_CACHE", "61s", []string{"DENY_CACHE", "0s to 1m"}},
		{"DENY_CACHE", "-1s", []string{"DENY_CACHE", "0s to 1m"}},
		{"DENY_CACHE", "0s", nil},
		{"LOG_LEVEL", "loud", []string{"LOG_LEVEL"}},
		{"LOG_LEVEL", "debug", nil},
	} {
		t.Run(c.name+"="+c.value, func(t *testing.T) {
			variables := []string{"VALKEY_URL=valkey://localhost",
				"KEY_PEPPER=" + strings.Repeat("pepper!!", 4), c.name + "=" + c.value}
			_, err := readConfig(variables)
			if (err != nil) != (c.want != nil) {
				t.Fatalf("got %v", err)
			}
			for _, part := range c.want {
				if !strings.Contains(err.Error(), part) || strings.Contains(err.Error(), "short-secret") {
					t.Errorf("got error %v, want it to contain %q and no secret", err, part)
				}
			}
		})
	}
}

// wrongVariables has a bad value for each variable of the function.
var wrongVariables = map[string]string{
	"VALKEY_URL": "localhost:6379", "KEY_PEPPER": "short-secret", "VALKEY_TIMEOUT": "100",
	"CALLER_CACHE": "25h", "DENY_CACHE": "61s",
	"VALKEY_CONNECT_TIMEOUT": "9s",
	"HTTP_API_RESPONSE":      "xml", "HTTP_API_DENY": "429", "USAGE_IDENTIFIER": "maybe",
	"FOREIGN_KEYS": "maybe", "DIRECT_CALLS": "maybe",
	"SETTLE_WITHIN": "0s", "STAGE": "pr\nod",
	"LOG_LEVEL": "loud", "IDENTITY_SOURCES": "jwt,jwt", "JWT_ISSUER": strings.Repeat("i", 513),
	"JWT_AUDIENCE": ",", "JWT_ISSUERS": `[{"jwks": "short-secret"}]`, "JWT_PLAN_MAP": "short-secret",
	"JWT_REQUIRED_CLAIMS": "short-secret",
	"JWT_JWKS_URL":        "https://issuer.example/keys", "JWT_JWKS": "short-secret",
	"JWT_IDENTITY_CLAIM": strings.Repeat("i", 513),
	"JWT_PLAN_CLAIM":     strings.Repeat("i", 513), "JWT_LEEWAY": "6m", "IPV4_PREFIX": "33",
	"IPV6_PREFIX": "x", "TRUSTED_PROXIES": "everybody", "KEY_HEADERS": "a b",
	"JWT_COOKIE": "a b", "JWT_COOKIE_ORIGINS": "*", "JWT_CONTEXT_CLAIMS": ",",
}

// One error names every bad variable, so that an operator can correct all at once. It
// contains no secret.
func TestEveryWrongVariableIsNamed(t *testing.T) {
	var variables []string
	for _, field := range reflect.VisibleFields(reflect.TypeFor[settings]()) {
		name, _, _ := strings.Cut(field.Tag.Get("env"), ",")
		if name == "" {
			continue
		}
		value, ok := wrongVariables[name]
		if !ok {
			t.Errorf("this test has no wrong value for %s", name)
		}
		variables = append(variables, name+"="+value)
	}
	_, err := readConfig(variables)
	if err == nil {
		t.Fatal("bad variables were accepted")
	}
	words := strings.FieldsFunc(err.Error(), func(c rune) bool {
		return !strings.ContainsRune("ABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_", c)
	})
	for name := range wrongVariables {
		if !slices.Contains(words, name) {
			t.Errorf("the error does not name %s: %v", name, err)
		}
	}
	if strings.Contains(err.Error(), "short-secret") {
		t.Errorf("the error contains a secret: %v", err)
	}
}
