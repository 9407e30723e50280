package gateway

import (
	"errors"
	"regexp"
	"strings"
	"testing"
)

const testARN = "arn:aws:execute-api:us-east-1:123456789012:api/prod/GET/hello"

func TestPolicyVerdict(t *testing.T) {
	for _, c := range []struct {
		name       string
		statements string
		want       effect
	}{
		{"the exact ARN", `[{"Effect":"Allow","Action":"execute-api:Invoke","Resource":"` + testARN +
			`"}]`, allow},
		{"one statement without brackets", `{"Effect":"Allow","Action":"execute-api:Invoke","Resource":"` +
			testARN + `"}`, allow},
		{"lists", `[{"Effect":"Allow","Action":["s3:GetObject","execute-api:Invoke"],"Resource":["arn:x","` +
			testARN + `"]}]`, allow},
		{"any action on any resource", `[{"Effect":"Allow","Action":"*","Resource":"*"}]`, allow},
		{"action in another case", `[{"Effect":"Allow","Action":"Execute-API:invoke","Resource":"*"}]`,
			allow},
		{"a wildcard tail",
			`[{"Effect":"Allow","Action":"execute-api:*","Resource":"arn:aws:execute-api:us-east-1:123456789012:api/prod/GET/*"}]`, allow},
		{"another method",
			`[{"Effect":"Allow","Action":"*","Resource":"arn:aws:execute-api:us-east-1:123456789012:api/prod/POST/hello"}]`, implicitDeny},
		{"a prefix is no match",
			`[{"Effect":"Allow","Action":"*","Resource":"arn:aws:execute-api:us-east-1:123456789012:api/prod/GET/"}]`, implicitDeny},
		{"another action", `[{"Effect":"Allow","Action":"execute-api:ManageConnections","Resource":"*"}]`,
			implicitDeny},
		{"deny", `[{"Effect":"Deny","Action":"execute-api:Invoke","Resource":"` + testARN + `"}]`,
			explicitDeny},
		{"deny before allow",
			`[{"Effect":"Deny","Action":"*","Resource":"*"},{"Effect":"Allow","Action":"*","Resource":"*"}]`,
			explicitDeny},
		{"deny after allow",
			`[{"Effect":"Allow","Action":"*","Resource":"*"},{"Effect":"Deny","Action":"*","Resource":"*/hello"}]`, explicitDeny},
		{"deny of something else",
			`[{"Effect":"Deny","Action":"*","Resource":"*/other"},{"Effect":"Allow","Action":"*","Resource":"*"}]`, allow},
	} {
		t.Run(c.name, func(t *testing.T) {
			v,
				err := policyVerdict(
				[]byte(`{"principalId":"k","policyDocument":{"Version":"2012-10-17","Statement":`+
					c.statements+`}}`), testARN)
			if err != nil || v.effect != c.want || v.principal != "k" {
				t.Errorf("got %+v, %v; want effect %d", v, err, c.want)
			}
		})
	}
}

// A policy that the gateway does not support is a configuration error and allows nothing.
func TestPolicyVerdictRefuses(t *testing.T) {
	document := `{"Version":"2012-10-17","Statement":[{"Effect":"Allow","Action":"*","Resource":"*"}]}`
	for name, answer := range map[string]string{
		"nothing":          ``,
		"null":             `null`,
		"a string":         `"Allow"`,
		"a list":           `[]`,
		"no principal":     `{"policyDocument":` + document + `}`,
		"principal number": `{"principalId":7,"policyDocument":` + document + `}`,
		"no document":      `{"principalId":"k"}`,
		"null document":    `{"principalId":"k","policyDocument":null}`,
		"no statement":     `{"principalId":"k","policyDocument":{"Statement":[]}}`,
		"null statement":   `{"principalId":"k","policyDocument":{"Statement":null}}`,
		"bad effect":       `{"principalId":"k","policyDocument":{"Statement":{"Effect":"allow","Action":"*","Resource":"*"}}}`,
		"no action":        `{"principalId":"k","policyDocument":{"Statement":{"Effect":"Allow","Resource":"*"}}}`,
		"no resource":      `{"principalId":"k","policyDocument":{"Statement":{"Effect":"Allow","Action":"*"}}}`,
		"a condition":      `{"principalId":"k","policyDocument":{"Statement":{"Effect":"Allow","Action":"*","Resource":"*","Condition":{}}}}`,
		"NotResource":      `{"principalId":"k","policyDocument":{"Statement":{"Effect":"Deny","Action":"*","Resource":"*","NotResource":"*"}}}`,
		"long resource": `{"principalId":"k","policyDocument":{"Statement":{"Effect":"Allow","Action":"*","Resource":"` +
			strings.Repeat("*", maxResource+1) + `"}}}`,
		"context not an object": `{"principalId":"k","policyDocument":` + document + `,"context":"x"}`,
		"isAuthorized":          `{"isAuthorized":true}`,
	} {
		t.Run(name, func(t *testing.T) {
			if v, err := policyVerdict([]byte(answer), testARN); !errors.Is(err, errConfiguration) {
				t.Errorf("got %+v, %v, want errConfiguration", v, err)
			}
		})
	}
}

// FuzzPolicyVerdict checks that no answer makes the gateway panic, and that no answer
// without an Allow is allowed.
func FuzzPolicyVerdict(f *testing.F) {
	f.Add(
		`{"principalId":"k","policyDocument":{"Statement":[{"Effect":"Allow","Action":"*","Resource":"*"}]},"context":{"a":1}}`)
	f.Add(`{"principalId":"k","policyDocument":{"Statement":{"Effect":"Deny","Action":[],"Resource":null}}}`)
	f.Add(`{"principalId":`)
	f.Add(`{"principalId":7}`)
	f.Fuzz(func(t *testing.T, answer string) {
		v, err := policyVerdict([]byte(answer), testARN)
		if err == nil && v.effect == allow && !strings.Contains(answer, `llow`) &&
			!strings.Contains(answer, `\u`) {
			t.Errorf("allowed by %s", answer)
		}
	})
}

func TestMatches(t *testing.T) {
	for _, c := range []struct {
		pattern, text string
		want          bool
	}{
		{"", "", true},
		{"", "a", false},
		{"*", "", true},
		{"*", "a/b/c", true},
		{"**", "a", true},
		{"?", "", false},
		{"?", "a", true},
		{"a?c", "abc", true},
		{"a?c", "ac", false},
		{"a*c", "ac", true},
		{"a*c", "abbbc", true},
		{"a*c", "abbbcd", false},
		{"a*b*c", "a-b-b-c", true},
		{"*abc", "ababc", true},
		{"A", "a", false},
		{"a.c", "abc", false},
		{"arn:aws:execute-api:*:*:api/prod/GET/*",
			"arn:aws:execute-api:us-east-1:123456789012:api/prod/GET/a/b", true},
		{"arn:aws:execute-api:*:*:api/prod/GET/*",
			"arn:aws:execute-api:us-east-1:123456789012:api/prod/POST/a", false},
	} {
		if got := matches(c.pattern, c.text); got != c.want {
			t.Errorf("matches(%q, %q) = %t", c.pattern, c.text, got)
		}
	}
}

// FuzzMatches compares matches with a regular expression.
func FuzzMatches(f *testing.F) {
	f.Add("a*b?c", "a-b-c")
	f.Add("*a*a*a*", "aaaa")
	f.Add("[x]*", "[x]y")
	f.Add("*a", "bab")
	f.Add("a**", "a")
	f.Add("ab", "ac")
	f.Fuzz(func(t *testing.T, pattern, text string) {
		if len(pattern) > 100 || len(text) > 200 {
			return
		}
		// (?s) lets a dot match newlines; Latin-1 makes each byte one character, as
		// matches sees it.
		expression := "(?s)^" + strings.NewReplacer(`\*`, ".*", `\?`,
			".").Replace(regexp.QuoteMeta(latin1(pattern))) + "$"
		if want, got := regexp.MustCompile(expression).MatchString(latin1(text)),
			matches(pattern, text); got != want {
			t.Errorf("matches(%q, %q) = %t, want %t", pattern, text, got, want)
		}
	})
}

func latin1(s string) string {
	runes := make([]rune, 0, len(s))
	for i := range len(s) {
		runes = append(runes, rune(s[i]))
	}
	return string(runes)
}
