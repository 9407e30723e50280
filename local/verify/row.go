package main

import (
	"fmt"
	"net/http"
	"regexp"
	"strings"
)

// row is one point that AWS does not document, or that an account may configure
// differently.
type row struct {
	id       string
	what     string // what is checked
	source   string // where AWS documents it, or that no source is known
	how      string // calls, or the commands for a person
	expected string
	advice   string // what to do after a difference
	probe    *probe // nil for a check by a person
	check    check
}

// check compares a probe's evidence with the expectation.
type check func(evidence) outcome

// Sources of several rows.
const (
	unproven = "No source known"
	guide    = "API Gateway developer guide, "
)

type verdict string

// The verdicts.
const (
	ok      verdict = "ok"
	differs verdict = "differs"
	skipped verdict = "skipped"
)

// outcome is a verdict with the observation, or the reason of a skip.
type outcome struct {
	verdict verdict
	seen    string
}

func pass(seen string) outcome { return outcome{ok, seen} }

func differ(seen string) outcome { return outcome{differs, seen} }

func skip(reason string) outcome { return outcome{skipped, reason} }

// judged returns a pass or a difference.
func judged(good bool, seen string) outcome {
	if good {
		return pass(seen)
	}
	return differ(seen)
}

// byHand is the reason of rows without a probe.
const byHand = "by hand: docs/verify.md says how"

// judge checks a row with its probe's evidence.
func (r row) judge(seen map[*probe]evidence) outcome {
	if r.probe == nil {
		return skip(byHand)
	}
	e := seen[r.probe]
	if e.reason != "" {
		return skip(e.reason)
	}
	for _, a := range e.answers {
		if a.err != nil {
			return differ("no answer: " + a.err.Error())
		}
	}
	if len(e.answers) == 0 {
		return skip("no call was made")
	}
	return r.check(e)
}

// last returns the answer that most rows check.
func (e evidence) last() answer { return e.answers[len(e.answers)-1] }

// status expects one of the statuses in the last answer.
func status(want ...int) check {
	return func(e evidence) outcome {
		a := e.last()
		seen := fmt.Sprint(a.status)
		for _, s := range want {
			if a.status == s {
				return pass(seen)
			}
		}
		if kind := a.header.Get("X-Amzn-Errortype"); kind != "" {
			seen += " " + kind
		}
		return differ(seen + excerpt(a.body))
	}
}

// excerpt returns the beginning of a body on one line.
func excerpt(body string) string {
	text := []rune(strings.Join(strings.Fields(body), " "))
	if len(text) == 0 {
		return ""
	}
	return " " + string(text[:min(len(text), 60)])
}

// on restricts a check to answers with a status. Other rows check other statuses.
func on(status int, c check) check {
	return func(e evidence) outcome {
		if got := e.last().status; got != status {
			return skip(fmt.Sprintf("the answer was %d: see the row on its status", got))
		}
		return c(e)
	}
}

// header expects that a header of the last answer matches.
func header(name, pattern string) check {
	want := regexp.MustCompile(`^(?:` + pattern + `)$`)
	return func(e evidence) outcome {
		h := e.last().header
		value := h.Get(name)
		switch {
		case want.MatchString(value) && len(h.Values(name)) == 1:
			return pass(value)
		case h.Get("X-Amzn-Remapped-"+name) != "":
			return differ("x-amzn-remapped-" + strings.ToLower(name) + ": " + h.Get("X-Amzn-Remapped-"+name))
		case value == "":
			return differ("no " + name)
		}
		return differ(strings.Join(h.Values(name), " | "))
	}
}

// all expects that every check passes, and shows the first that does not.
func all(checks ...check) check {
	return func(e evidence) outcome {
		var seen []string
		for _, c := range checks {
			o := c(e)
			if o.verdict != ok {
				return o
			}
			seen = append(seen, o.seen)
		}
		return pass(strings.Join(seen, ", "))
	}
}

// readable expects the headers that let another site's script read an answer in a
// browser.
func readable() check {
	return func(e evidence) outcome {
		h := e.last().header
		origin, exposed := h.Get("Access-Control-Allow-Origin"), h.Get("Access-Control-Expose-Headers")
		if origin == "" {
			return differ("no Access-Control-Allow-Origin")
		}
		for _, name := range []string{"Retry-After", "RateLimit", "RateLimit-Policy"} {
			if !lists(exposed, name) {
				return differ("Access-Control-Expose-Headers lacks " + name)
			}
		}
		return pass(origin)
	}
}

func lists(fields, name string) bool {
	for field := range strings.SplitSeq(fields, ",") {
		if strings.EqualFold(strings.TrimSpace(field), name) {
			return true
		}
	}
	return false
}

// rows is the whole table, in the order of the report.
var rows = func() []row {
	var table []row
	for _, part := range sections {
		table = append(table, part.rows...)
	}
	return table
}()

// section is a part of the table under a heading.
type section struct {
	title string
	rows  []row
}

var sections = []section{
	{"REST API: allowed calls", restAllowedRows},
	{"REST API: calls without a good credential", restRefusedRows},
	{"REST API: over the limit", restOverRows},
	{"HTTP API", httpRows},
	{"Edits", editRows},
	{"Dashboard", dashboardRows},
	{"Throttles", throttleRows},
	{"With the AWS command line", accountRows},
	{"By hand", handRows},
}

const tooMany = http.StatusTooManyRequests
