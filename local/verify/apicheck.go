package main

import (
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"
)

func notDegraded(e evidence) outcome {
	authorizer := e.answers[0].context()
	if authorizer == nil {
		return skip("the backend does not show the context: only the example's does")
	}
	if value, found := authorizer["degraded"]; found && fmt.Sprint(value) == "true" {
		return differ("degraded is true on the first call")
	}
	return pass("no degraded")
}

const slowest = 10 * time.Second // an HTTP API's timeout of authorizers

func timely(e evidence) outcome {
	var later []time.Duration
	for _, a := range e.answers[1:] {
		later = append(later, a.took)
	}
	first := e.answers[0].took
	worst := first
	seen := fmt.Sprintf("first %s", first.Round(time.Millisecond))
	if len(later) > 0 {
		slices.Sort(later)
		worst = max(first, later[len(later)-1])
		seen += fmt.Sprintf(", later %s to %s", later[0].Round(time.Millisecond),
			later[len(later)-1].Round(time.Millisecond))
	}
	return judged(worst <= slowest, seen)
}

func counted(e evidence) outcome {
	fell, known, seen := remainingFalls(e.answers)
	if !known {
		return skip("no answer shows what remains")
	}
	return judged(fell, seen)
}

// contextOf expects the context's keys. On a REST API all are strings; on an HTTP API
// there is a number and a boolean.
func contextOf(typed bool) check {
	return func(e evidence) outcome {
		authorizer := e.last().context()
		if authorizer == nil {
			return skip("the backend does not show the context: only the example's does")
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
}

func pathEndsIn(endings ...string) check {
	return func(e evidence) outcome {
		echoed, found := e.last().echo()
		if !found {
			return skip("the backend does not show the path: only the example's does")
		}
		return judged(slices.ContainsFunc(endings, func(ending string) bool {
			return strings.HasSuffix(echoed.Path, ending)
		}), echoed.Path)
	}
}

func allowsKey(e evidence) outcome {
	h := e.last().header
	allowed := h.Get("Access-Control-Allow-Headers")
	if h.Get("Access-Control-Allow-Origin") == "" {
		return differ("no Access-Control-Allow-Origin")
	}
	return judged(lists(allowed, "X-Api-Key") || allowed == "*", "allows "+allowed)
}

// unreadable expects that a browser hides an answer from another site's script.
func unreadable(e evidence) outcome {
	origin := e.last().header.Get("Access-Control-Allow-Origin")
	if origin == "" {
		return pass("no Access-Control-Allow-Origin")
	}
	return differ("Access-Control-Allow-Origin: " + origin)
}

func overridden(e evidence) outcome {
	policy := e.answers[0].policy()
	q, found := parseQuota(policy)
	return judged(found && q.requests == e.limit.requests+1, "after the edit: "+policy)
}

func asBefore(e evidence) outcome {
	policy := e.last().policy()
	q, found := parseQuota(policy)
	return judged(found && q == e.limit, "after its end: "+policy)
}

func retryAfter(e evidence) outcome {
	text := e.last().header.Get("Retry-After")
	if text == "" {
		return differ("no Retry-After")
	}
	seconds, err := strconv.Atoi(text)
	return judged(err == nil && seconds >= 1 && float64(seconds) <= e.limit.window.Seconds(), text)
}

// problem is a body of RFC 9457.
type problem struct {
	Type     string   `json:"type"`
	Status   int      `json:"status"`
	Wait     *string  `json:"retry-after"`
	Violated []string `json:"violated-policies"`
}

func (a answer) problem() (problem, error) {
	var p problem
	err := json.Unmarshal([]byte(a.body), &p)
	return p, err
}

// problemBody expects a complete problem, by its type too.
func problemBody(status int) check {
	return all(header("Content-Type", problemJSON), problemIn(status))
}

// problemIn expects a complete problem in the body. A 429's names limits.
func problemIn(status int) check {
	return func(e evidence) outcome {
		p, err := e.last().problem()
		switch {
		case err != nil:
			return differ("not JSON:" + excerpt(e.last().body))
		case p.Status != status || p.Type == "":
			return differ(fmt.Sprintf("type %q, status %d", p.Type, p.Status))
		case status == tooMany && (len(p.Violated) == 0 || p.Violated[0] == ""):
			return differ("no violated-policies")
		}
		return pass(p.Type)
	}
}

func waitInBody(e evidence) outcome {
	p, err := e.last().problem()
	switch inHeader := e.last().header.Get("Retry-After"); {
	case err != nil:
		return skip("the body is no JSON: see the row on it")
	case p.Wait == nil:
		return differ("no retry-after")
	case *p.Wait == "" || inHeader != "" && *p.Wait != inHeader:
		return differ(fmt.Sprintf("retry-after is %q, the header %q", *p.Wait, inHeader))
	default:
		return pass(*p.Wait)
	}
}

// onTrue429 restricts a check to a true 429. A 403 is valid too, and has none of its
// fields.
func onTrue429(c check) check {
	return func(e evidence) outcome {
		if e.last().status == http.StatusForbidden {
			return skip("denials are 403 here: deploy with -c httpApiDeny=context for a true 429")
		}
		return on(tooMany, c)(e)
	}
}

// throttled reports where a throttle acts. It differs only for an answer that is neither
// a refusal nor a throttle's.
func throttled(refused int) check {
	return func(e evidence) outcome {
		var seen []string
		throttled := false
		for _, a := range e.answers {
			seen = append(seen, fmt.Sprint(a.status))
			throttled = throttled || a.status == tooMany
			if a.status != refused && a.status != tooMany {
				return differ(fmt.Sprintf("%d%s", a.status, excerpt(a.body)))
			}
		}
		if !throttled {
			return skip("no call was throttled: the throttle is behind the authorizer, or was not reached")
		}
		return pass("before the authorizer: " + strings.Join(seen, " and "))
	}
}

func loginThrottled(e evidence) outcome {
	throttled := false
	for _, a := range e.answers[:len(e.answers)-1] {
		throttled = throttled || a.status == tooMany
	}
	seen := fmt.Sprintf("throttled %t, then %d", throttled, e.last().status)
	return judged(throttled && e.last().status == http.StatusOK, seen)
}
