package main

import (
	"fmt"
	"slices"
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
	fell, known, seen := falls(e.answers)
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
		for _, ending := range endings {
			if strings.HasSuffix(echoed.Path, ending) {
				return pass(echoed.Path)
			}
		}
		return differ(echoed.Path)
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
	q, found := quotaOf(policy)
	return judged(found && q.requests == e.limit.requests+1, "after the edit: "+policy)
}

func asBefore(e evidence) outcome {
	policy := e.last().policy()
	q, found := quotaOf(policy)
	return judged(found && q == e.limit, "after its end: "+policy)
}
