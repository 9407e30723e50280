package gateway

import (
	"regexp"
	"strings"
	"testing"
)

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
