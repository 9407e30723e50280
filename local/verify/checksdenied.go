package main

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strconv"
	"strings"
)

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

// whereTrue restricts a check to a true 429. A 403 is valid too, and has none of its
// fields.
func whereTrue(c check) check {
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
		own := false
		for _, a := range e.answers {
			seen = append(seen, fmt.Sprint(a.status))
			own = own || a.status == tooMany
			if a.status != refused && a.status != tooMany {
				return differ(fmt.Sprintf("%d%s", a.status, excerpt(a.body)))
			}
		}
		if !own {
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
