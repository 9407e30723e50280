package rest

import (
	"errors"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/danielgtaylor/huma/v2"
)

// A body that JSON parsers interpret differently is refused, and so is one that is large
// or deeply nested.
func TestStrictJSON(t *testing.T) {
	fields := func(n int) string {
		all := make([]string, n)
		for i := range all {
			all[i] = fmt.Sprintf(`"f%d":1`, i)
		}
		return "{" + strings.Join(all, ",") + "}"
	}
	nested := func(n int) string { return strings.Repeat("[", n) + strings.Repeat("]", n) }
	for _, c := range []struct{ body, problem string }{
		{`{"a":{"b":1},"c":{"b":2}}`, ""},
		{`{"a":"{[:{[:\"{{"}`, ""},
		{fields(maxFields), ""},
		{nested(maxNesting), ""},
		{`{"a":1,"a":2}`, "the same name twice"},
		{`{"a":1,"\u0061":2}`, "the same name twice"},
		{"{\"a\":\"\xff\"}", "not UTF-8"},
		{`{"a":`, "unexpected end"},
		{fields(maxFields + 1), "more than 64 fields"},
		{nested(maxNesting + 1), "deeper than 16 levels"},
	} {
		var into any
		err := strictJSON.Unmarshal([]byte(c.body), &into)
		if (err == nil) != (c.problem == "") || err != nil && !strings.Contains(err.Error(), c.problem) {
			t.Errorf("%.60s: got %v, want %q", c.body, err, c.problem)
		}
	}
}

// Missing refuses a change without If-Match, and Version one with another version.
func TestIfMatch(t *testing.T) {
	for _, c := range []struct {
		tag     string
		missing bool
		version int64
		status  int // of Version's error; 0 for none
	}{
		{"", true, 7, 0}, {"*", false, 7, 0}, {`"7"`, false, 7, 0},
		{`"6"`, false, 0, 412}, {`"8"`, false, 0, 412}, {`W/"7"`, false, 0, 412}, {"7", false, 0, 412},
		{`"9999999999999999999"`, false, 0, 412}, {`"7", "8"`, false, 7, 0}, {`"6","7"`, false, 7, 0},
		{`"6" , W/"7"`, false, 0, 412}, {`"a,\"", "7"`, false, 0, 412}, {`"a,b", "7"`, false, 7, 0},
		{`"07"`, false, 0, 412}, {`"+7"`, false, 0, 412}, {`"7`, false, 0, 412}, {`"6" "7"`, false, 0, 412},
		{`, "7",`, false, 7, 0},
	} {
		m := IfMatch{IfMatch: c.tag}
		var missing *Problem
		if errors.As(m.Missing(), &missing) != c.missing ||
			c.missing && missing.Status != http.StatusPreconditionRequired {
			t.Errorf("%q: Missing returns %+v, want an error: %t", c.tag, missing, c.missing)
		}
		version, err := m.Version(7)
		var stale *Problem
		if errors.As(err, &stale) != (c.status != 0) || version != c.version {
			t.Errorf("%q: got version %d, %v, want %d and status %d", c.tag, version, err, c.version,
				c.status)
			continue
		}
		if stale != nil && (stale.Status != c.status || *stale.Current != 7 ||
			stale.GetHeaders().Get("ETag") != ETag(7)) {
			t.Errorf("%q: got %+v, want status %d and version 7", c.tag, stale, c.status)
		}
	}
}

// If-None-Match compares weakly. A change is refused if it has the current version.
func TestIfNoneMatch(t *testing.T) {
	for tags, want := range map[string]bool{
		"": false, "*": true, `"7"`: true, `W/"7"`: true, `"6", W/"7"`: true, `"6"`: false, "7": false,
		`w/"7"`: false,
	} {
		if got := (IfNoneMatch{tags}).NotModified(7); got != want {
			t.Errorf("%q: got %t, want %t", tags, got, want)
		}
		_, err := IfMatch{IfNoneMatch: tags}.Version(7)
		if (err != nil) != want {
			t.Errorf("%q: a change gets %v, want an error: %t", tags, err, want)
		}
	}
}

// A problem does not contain the invalid value, which may be a secret, or long.
func TestProblemOmitsValue(t *testing.T) {
	useProblems()
	detail := &huma.ErrorDetail{Location: "body.name", Message: "too long", Value: "tg_secret"}
	errs := []error{detail, errors.New(strings.Repeat("é", maxMessage))}
	for range MaxErrors {
		errs = append(errs, detail)
	}
	var p *Problem
	if !errors.As(huma.NewError(http.StatusUnprocessableEntity, "validation failed", errs...), &p) {
		t.Fatal("NewError returns no Problem")
	}
	if len(p.Errors) != MaxErrors || p.Errors[0] != (Detail{Location: "body.name", Message: "too long"}) {
		t.Errorf("got %d errors, the first %+v, want %d", len(p.Errors), p.Errors[0], MaxErrors)
	}
	if m := p.Errors[1].Message; len(m) > maxMessage+len("…") || !utf8.ValidString(m) {
		t.Errorf("a long message has %d bytes, valid UTF-8: %t", len(m), utf8.ValidString(m))
	}
	if strings.Contains(fmt.Sprintf("%+v", p.Errors), "secret") {
		t.Error("the problem contains the value")
	}
}
