package verify

import (
	"encoding/json"
	"fmt"
	"net/http"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

type verdict string

// The verdicts.
const (
	ok      verdict = "ok"
	differs verdict = "differs"
	skipped verdict = "skipped"
)

// outcome is a verdict with the observation, or with the reason for skipping the row.
type outcome struct {
	verdict verdict
	seen    string
}

func pass(seen string) outcome { return outcome{ok, seen} }

func differ(seen string) outcome { return outcome{differs, seen} }

func skip(reason string) outcome { return outcome{skipped, reason} }

// judged returns a pass if good, and else a difference.
func judged(good bool, seen string) outcome {
	if good {
		return pass(seen)
	}
	return differ(seen)
}

// all returns the first outcome that is no pass, else a pass with all that was seen.
func all(outcomes ...outcome) outcome {
	var seen []string
	for _, o := range outcomes {
		if o.verdict != ok {
			return o
		}
		seen = append(seen, o.seen)
	}
	return pass(strings.Join(seen, ", "))
}

const tooMany = http.StatusTooManyRequests

// Patterns of header values.
const (
	bearer          = `Bearer .+`
	problemJSON     = `application/problem\+json(;.*)?`
	rateLimit       = `"[^"]+";r=\d+.*`
	usedUp          = `.*;r=0.*`
	rateLimitPolicy = `"[^"]+";q=\d+.*`
)

// is expects one of the statuses.
func (a answer) is(want ...int) outcome {
	if a.err != nil {
		return differ("no answer: " + a.err.Error())
	}
	seen := fmt.Sprint(a.status)
	if slices.Contains(want, a.status) {
		return pass(seen)
	}
	if kind := a.header.Get("X-Amzn-Errortype"); kind != "" {
		seen += " " + kind
	}
	return differ(seen + excerpt(a.body))
}

// excerpt returns a space and the first 60 characters of a body on one line; "" for an
// empty body.
func excerpt(body string) string {
	text := []rune(strings.Join(strings.Fields(body), " "))
	if len(text) == 0 {
		return ""
	}
	return " " + string(text[:min(len(text), 60)])
}

// has expects the header once, with a value that matches.
func (a answer) has(name, pattern string) outcome {
	value, remapped := a.header.Get(name), a.header.Get("X-Amzn-Remapped-"+name)
	switch {
	case regexp.MustCompile(`^(?:`+pattern+`)$`).MatchString(value) && len(a.header.Values(name)) == 1:
		return pass(value)
	case remapped != "":
		return differ("x-amzn-remapped-" + strings.ToLower(name) + ": " + remapped)
	case value == "":
		return differ("no " + name)
	}
	return differ(strings.Join(a.header.Values(name), " | "))
}

// hasFields expects both RateLimit fields. The first must match a pattern.
func (a answer) hasFields(rateLimit string) outcome {
	return all(a.has("RateLimit", rateLimit), a.has("RateLimit-Policy", rateLimitPolicy))
}

// readable expects the headers that let another site's script read an answer in a
// browser.
func (a answer) readable() outcome {
	origin, exposed := a.header.Get("Access-Control-Allow-Origin"),
		a.header.Get("Access-Control-Expose-Headers")
	switch {
	case origin == "":
		return differ("no Access-Control-Allow-Origin")
	case origin == "*" && a.header.Get("Access-Control-Allow-Credentials") == "true":
		return differ("Access-Control-Allow-Credentials with the origin *, which browsers refuse")
	}
	for _, name := range []string{"Retry-After", "RateLimit", "RateLimit-Policy"} {
		if !lists(exposed, name) {
			return differ("Access-Control-Expose-Headers lacks " + name)
		}
	}
	return pass(origin)
}

// allowsKey expects that a preflight allows the header of API keys.
func (a answer) allowsKey() outcome {
	allowed := a.header.Get("Access-Control-Allow-Headers")
	if a.header.Get("Access-Control-Allow-Origin") == "" {
		return differ("no Access-Control-Allow-Origin")
	}
	return judged(lists(allowed, "X-Api-Key") || allowed == "*", "allows "+allowed)
}

// readableOrNot says whether another site's script can read an answer in a browser. An
// answer with the header must be readable by this origin.
func (a answer) readableOrNot() outcome {
	switch origin := a.header.Get("Access-Control-Allow-Origin"); origin {
	case "":
		return pass("no Access-Control-Allow-Origin")
	case "*", someOrigin:
		return pass("Access-Control-Allow-Origin: " + origin)
	default:
		return differ("Access-Control-Allow-Origin: " + origin)
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

// noContext is the reason for skipping rows on the context.
const noContext = "the backend does not return the context, as the example's backend does"

// notDegraded expects that Valkey decided the call.
func (a answer) notDegraded() outcome {
	authorizer := a.context()
	if authorizer == nil {
		return skip(noContext)
	}
	value, found := authorizer["degraded"]
	return judged(!found || fmt.Sprint(value) != "true", fmt.Sprintf("degraded %t", found))
}

// hasContext expects the context's keys. All values are strings. If typed, as on an HTTP
// API, remaining is a number and denied a boolean.
func (a answer) hasContext(typed bool) outcome {
	authorizer := a.context()
	if authorizer == nil {
		return skip(noContext)
	}
	for _, name := range []string{"keyId", "plan", "rateLimit", "remaining", "denied"} {
		value, found := authorizer[name]
		if !found {
			return differ("no " + name)
		}
		_, isText := value.(string)
		if wantText := !typed || name != "remaining" && name != "denied"; isText != wantText {
			return differ(fmt.Sprintf("%s is %T", name, value))
		}
	}
	return pass(fmt.Sprintf("plan %v, remaining %v", authorizer["plan"], authorizer["remaining"]))
}

// pathEndsIn expects that the path which the backend got has one of the endings.
func (a answer) pathEndsIn(endings ...string) outcome {
	echoed, found := a.echo()
	if !found {
		return skip("the backend does not return the path, as the example's backend does")
	}
	return judged(slices.ContainsFunc(endings, func(ending string) bool {
		return strings.HasSuffix(echoed.Path, ending)
	}), echoed.Path)
}

// waits expects Retry-After in seconds, 1 to the limit's window.
func (a answer) waits(q quota) outcome {
	text := a.header.Get("Retry-After")
	if text == "" {
		return differ("no Retry-After")
	}
	seconds, err := strconv.Atoi(text)
	return judged(err == nil && seconds >= 1 && float64(seconds) <= q.window.Seconds(), text)
}

// hasProblem expects a complete problem of RFC 9457 in the body. That of a 429 names the
// limits. If wait, it repeats Retry-After, where the header has no bound.
func (a answer) hasProblem(wait bool) outcome {
	var p struct {
		Type     string   `json:"type"`
		Status   int      `json:"status"`
		Wait     *string  `json:"retry-after"`
		Violated []string `json:"violated-policies"`
	}
	inHeader := a.header.Get("Retry-After")
	switch err := json.Unmarshal([]byte(a.body), &p); {
	case err != nil:
		return differ("not JSON:" + excerpt(a.body))
	case p.Status != a.status || p.Type == "":
		return differ(fmt.Sprintf("type %q, status %d", p.Type, p.Status))
	case a.status == tooMany && (len(p.Violated) == 0 || p.Violated[0] == ""):
		return differ("no violated-policies")
	case !wait:
		return pass(p.Type)
	case p.Wait == nil:
		return differ("no retry-after")
	case *p.Wait == "" || inHeader != "" && inHeader != "86400" && *p.Wait != inHeader:
		return differ(fmt.Sprintf("retry-after is %q, the header %q", *p.Wait, inHeader))
	}
	return pass(p.Type + ", retry-after " + *p.Wait)
}
