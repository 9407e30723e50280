package verify

import (
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"
)

// noContext is the reason for skipping rows on the context.
const noContext = "the backend does not return the context, as the example's backend does"

// notDegraded expects that Valkey decided the first call.
func notDegraded(e evidence) outcome {
	authorizer := e.answers[0].context()
	if authorizer == nil {
		return skip(noContext)
	}
	if value, found := authorizer["degraded"]; found && fmt.Sprint(value) == "true" {
		return differ("degraded is true on the first call")
	}
	return pass("no degraded")
}

const slowest = 10 * time.Second // an HTTP API's time-out for its authorizer

// timely expects that every answer came in time.
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

// counted expects that the remaining calls decrease.
func counted(e evidence) outcome {
	fell, known, seen := remainingFalls(e.answers)
	if !known {
		return skip("no answer has the remaining calls")
	}
	return judged(fell, seen)
}

// contextOf expects the context's keys. All values are strings. If typed, as on an HTTP
// API, remaining is a number and denied a boolean.
func contextOf(typed bool) check {
	return func(e evidence) outcome {
		authorizer := e.last().context()
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
}

// pathEndsIn expects that the path which the backend got has one of the endings.
func pathEndsIn(endings ...string) check {
	return func(e evidence) outcome {
		echoed, found := e.last().echo()
		if !found {
			return skip("the backend does not return the path, as the example's backend does")
		}
		return judged(slices.ContainsFunc(endings, func(ending string) bool {
			return strings.HasSuffix(echoed.Path, ending)
		}), echoed.Path)
	}
}

// allowsKey expects that a preflight allows the header of API keys.
func allowsKey(e evidence) outcome {
	h := e.last().header
	allowed := h.Get("Access-Control-Allow-Headers")
	if h.Get("Access-Control-Allow-Origin") == "" {
		return differ("no Access-Control-Allow-Origin")
	}
	return judged(lists(allowed, "X-Api-Key") || allowed == "*", "allows "+allowed)
}

// readableOrNot says whether another site's script can read an answer in a browser. An
// answer with the header must be readable by this origin.
func readableOrNot(e evidence) outcome {
	switch origin := e.last().header.Get("Access-Control-Allow-Origin"); origin {
	case "":
		return pass("no Access-Control-Allow-Origin")
	case "*", someOrigin:
		return pass("Access-Control-Allow-Origin: " + origin)
	default:
		return differ("Access-Control-Allow-Origin: " + origin)
	}
}

// overridden expects the override's limit in the first answer.
func overridden(e evidence) outcome {
	policy := e.answers[0].policy()
	q, found := parseQuota(policy)
	return judged(found && q.requests == e.limit.requests+1, "with the override: "+policy)
}

// asBefore expects the plan's limit in the last answer.
func asBefore(e evidence) outcome {
	policy := e.last().policy()
	q, found := parseQuota(policy)
	return judged(found && q == e.limit, "without the override: "+policy)
}

// retryAfter expects Retry-After in seconds, 1 to the limit's window.
func retryAfter(e evidence) outcome {
	text := e.last().header.Get("Retry-After")
	if text == "" {
		return differ("no Retry-After")
	}
	seconds, err := strconv.Atoi(text)
	return judged(err == nil && seconds >= 1 && float64(seconds) <= e.limit.window.Seconds(), text)
}

// problem is a problem body of RFC 9457.
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

// problemBody expects a complete problem in the body, and its Content-Type.
func problemBody(status int) check {
	return all(header("Content-Type", problemJSON), problemIn(status))
}

// problemIn expects a complete problem in the body. That of a 429 names the limits.
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

// waitInBody expects the value of Retry-After in the body, where it has no bound.
func waitInBody(e evidence) outcome {
	p, err := e.last().problem()
	switch inHeader := e.last().header.Get("Retry-After"); {
	case err != nil:
		return skip("the body is not JSON: see the row on the body")
	case p.Wait == nil:
		return differ("no retry-after")
	case *p.Wait == "" || inHeader != "" && inHeader != "86400" && *p.Wait != inHeader:
		return differ(fmt.Sprintf("retry-after is %q, the header %q", *p.Wait, inHeader))
	default:
		return pass(*p.Wait)
	}
}

// onTrue429 skips a check if a denial is 403, which is valid too and has no fields.
func onTrue429(c check) check {
	return func(e evidence) outcome {
		if e.last().status == http.StatusForbidden {
			return skip("denials are 403: deploy with check.HTTP_API_DENY=context for a true 429")
		}
		return on(tooMany, c)(e)
	}
}

// throttled reports whether a throttle acts before the authorizer. The outcome is a
// difference only for an answer with neither the refused status nor 429.
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
			return skip("no call was throttled: the throttle is after the authorizer, or was not reached")
		}
		return pass("before the authorizer: " + strings.Join(seen, " and "))
	}
}

// loginThrottled expects that some log-ins were throttled, and the last call was not.
func loginThrottled(e evidence) outcome {
	throttled := false
	for _, a := range e.answers[:len(e.answers)-1] {
		throttled = throttled || a.status == tooMany
	}
	seen := fmt.Sprintf("throttled %t, then %d", throttled, e.last().status)
	return judged(throttled && e.last().status == http.StatusOK, seen)
}
