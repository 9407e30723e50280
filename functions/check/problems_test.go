package main

import (
	"reflect"
	"slices"
	"strings"
	"testing"
)

// wrongVariables has a value that is refused for each variable of the function.
var wrongVariables = map[string]string{
	"VALKEY_URL": "localhost:6379", "KEY_PEPPER": "short-secret", "VALKEY_TIMEOUT": "100",
	"CALLER_CACHE": "25h", "DENY_CACHE": "61s",
	"VALKEY_CONNECT_TIMEOUT": "9s",
	"HTTP_API_RESPONSE":      "xml", "HTTP_API_DENY": "429", "USAGE_IDENTIFIER": "maybe",
	"FOREIGN_KEYS":      "maybe",
	"RESERVATION_LEASE": "0s", "STAGE": "pr\nod",
	"LOG_LEVEL": "loud", "IDENTITY_SOURCES": "jwt,jwt", "JWT_ISSUER": strings.Repeat("i", 513),
	"JWT_AUDIENCE": ",",
	"JWT_JWKS_URL": "https://issuer.example/keys", "JWT_JWKS": "short-secret",
	"JWT_IDENTITY_CLAIM": strings.Repeat("i", 513),
	"JWT_PLAN_CLAIM":     strings.Repeat("i", 513), "JWT_LEEWAY": "6m", "IPV4_PREFIX": "33",
	"IPV6_PREFIX": "x",
}

// Everything that is wrong with the environment is in one error, so that an operator
// mends all of it at once, and no secret is in it.
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
		t.Fatal("taken")
	}
	words := strings.FieldsFunc(err.Error(), func(c rune) bool {
		return !strings.ContainsRune("ABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_", c)
	})
	for name := range wrongVariables {
		if !slices.Contains(words, name) {
			t.Errorf("%s is not named in: %v", name, err)
		}
	}
	if strings.Contains(err.Error(), "short-secret") {
		t.Errorf("the error repeats a secret: %v", err)
	}
}
