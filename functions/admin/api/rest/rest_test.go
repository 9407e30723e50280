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

// Programs that read a body differently must not see different bodies.
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
		{`{"a":1,"a":2}`, "a name stands twice"},
		{`{"a":1,"\u0061":2}`, "a name stands twice"},
		{"{\"a\":\"\xff\"}", "not UTF-8"},
		{`{"a":`, "unexpected end"},
		{fields(maxFields + 1), "more than 64 fields"},
		{nested(maxNesting + 1), "deeper than 16 levels"},
	} {
		var into any
		err := strictJSON.Unmarshal([]byte(c.body), &into)
		if (err == nil) != (c.problem == "") || err != nil && !strings.Contains(err.Error(), c.problem) {
			t.Errorf("%.60s: %v, want %q", c.body, err, c.problem)
		}
	}
}

// A change without a version is refused, and so is one of another version.
func TestIfMatch(t *testing.T) {
	for _, c := range []struct {
		tag     string
		missing bool
		version int64
		status  int // of Version's error; 0 for none
	}{
		{"", true, 7, 0}, {"*", false, 7, 0}, {`"7"`, false, 7, 0},
		{`"6"`, false, 0, 412}, {`"8"`, false, 0, 412}, {`W/"7"`, false, 0, 412}, {"7", false, 0, 412},
		{`"9999999999999999999"`, false, 0, 412}, {`"7", "8"`, false, 0, 412},
	} {
		m := IfMatch{c.tag}
		var missing *Problem
		if errors.As(m.Missing(), &missing) != c.missing ||
			c.missing && missing.Status != http.StatusPreconditionRequired {
			t.Errorf("%q: missing %+v", c.tag, missing)
		}
		version, err := m.Version(7)
		var stale *Problem
		if errors.As(err, &stale) != (c.status != 0) || version != c.version {
			t.Errorf("%q: version %d, %v", c.tag, version, err)
			continue
		}
		if stale != nil && (stale.Status != c.status || *stale.Current != 7 ||
			stale.GetHeaders().Get("ETag") != ETag(7)) {
			t.Errorf("%q: %+v", c.tag, stale)
		}
	}
}

// A problem never repeats the value that was wrong: it may be a secret, or long.
func TestProblemsRepeatNoValue(t *testing.T) {
	useProblems()
	detail := &huma.ErrorDetail{Location: "body.name", Message: "too long", Value: "tg_secret"}
	errs := []error{detail, errors.New(strings.Repeat("é", maxMessage))}
	for range MaxErrors {
		errs = append(errs, detail)
	}
	var p *Problem
	if !errors.As(huma.NewError(http.StatusUnprocessableEntity, "validation failed", errs...), &p) {
		t.Fatal("no problem")
	}
	if len(p.Errors) != MaxErrors || p.Errors[0] != (Detail{Location: "body.name", Message: "too long"}) {
		t.Errorf("%d errors, first %+v", len(p.Errors), p.Errors[0])
	}
	if m := p.Errors[1].Message; len(m) > maxMessage+len("…") || !utf8.ValidString(m) {
		t.Errorf("a message of %d bytes, UTF-8 %t", len(m), utf8.ValidString(m))
	}
	if strings.Contains(fmt.Sprintf("%+v", p.Errors), "secret") {
		t.Error("the value is in the problem")
	}
}

func TestDetails(t *testing.T) {
	var d Details
	d.Add("plan", nil)
	if err := d.Err(); err != nil {
		t.Fatal(err)
	}
	d.Add("limits[0].window", errors.New("is missing"))
	var p *Problem
	if !errors.As(d.Err(), &p) || p.Status != http.StatusUnprocessableEntity || len(p.Errors) != 1 ||
		p.Errors[0] != (Detail{Location: "body.limits[0].window", Message: "is missing"}) {
		t.Errorf("%+v", p)
	}
}
