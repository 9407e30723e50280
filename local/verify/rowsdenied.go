package main

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strconv"
)

const responses = guide + "Set up gateway responses"

var restOverRows = []row{
	{
		id:       "rest-429",
		what:     "A deny becomes 429",
		source:   responses + ", ACCESS_DENIED",
		how:      "calls with the key until one is denied; no more than its limit plus one",
		expected: "429",
		probe:    restOver,
		check:    status(tooMany),
		advice: "403: the gateway response is not deployed: deploy the API anew. 200: limits are off " +
			"or in shadow, or calls pass uncounted. 5xx: read the log.",
	},
	{
		id:   "rest-429-retry-after",
		what: "Retry-After, mapped from the authorizer's context",
		source: responses + ", documents request parameters and static values; `context.authorizer.*` " +
			"in headers is seen in public templates alone",
		how:      "the same call",
		expected: "`Retry-After`: 1 to the window, in seconds",
		probe:    restOver,
		check:    on(tooMany, retryAfter),
		advice: "This account does not map the context into headers: clients read `retry-after` of " +
			"the body. If `rest-gateway-response` differs too, deploy the API anew.",
	},
	{
		id:       "rest-429-ratelimit",
		what:     "RateLimit, mapped from the authorizer's context",
		source:   "As for Retry-After",
		how:      "the same call",
		expected: "`RateLimit` with `r=0`",
		probe:    restOver,
		check:    on(tooMany, header("RateLimit", `.*;r=0.*`)),
		advice:   "As for Retry-After; quotes in the value may be what is refused.",
	},
	{
		id:       "rest-429-policy",
		what:     "RateLimit-Policy, mapped from the authorizer's context",
		source:   "As for Retry-After",
		how:      "the same call",
		expected: "`RateLimit-Policy` with `q` and `w`",
		probe:    restOver,
		check:    on(tooMany, header("RateLimit-Policy", rateLimitPolicy)),
		advice:   "As for RateLimit.",
	},
	{
		id:       "rest-429-type",
		what:     "Content-Type, set by a header mapping",
		source:   unproven,
		how:      "the same call",
		expected: "`application/problem+json`",
		probe:    restOver,
		check:    on(tooMany, header("Content-Type", problemJSON)),
		advice: "Clients must parse the body as JSON whatever its type; file the template under " +
			"`application/problem+json` and check again.",
	},
	{
		id:       "rest-429-static",
		what:     "Cache-Control, a static value",
		source:   responses,
		how:      "the same call",
		expected: "`no-store`",
		probe:    restOver,
		check:    on(tooMany, header("Cache-Control", `no-store`)),
		advice:   "The gateway responses are older than this repository's: deploy the API anew.",
	},
	{
		id:       "rest-429-body",
		what:     "The body is JSON, whether or not quotes are escaped",
		source:   responses + ": templates are not processed by VTL; escaping has no source",
		how:      "the same call",
		expected: "JSON with `status` 429, a `type`, `violated-policies`",
		probe:    restOver,
		check:    on(tooMany, problemBody(tooMany)),
		advice:   "Report the body. Clients must go by the status and Retry-After meanwhile.",
	},
	{
		id:       "rest-429-body-wait",
		what:     "The body repeats Retry-After",
		source:   responses + ": context variables in bodies",
		how:      "the same call",
		expected: "`retry-after` as in the header",
		probe:    restOver,
		check:    on(tooMany, waitInBody),
		advice: "Empty: the context does not reach templates on a deny. Absent: the template is older " +
			"than this repository's.",
	},
	{
		id:       "rest-429-cors",
		what:     "CORS headers of the 429",
		source:   guide + "CORS for REST APIs: gateway responses need them",
		how:      "the same call",
		expected: "Access-Control-Allow-Origin; Retry-After and both fields exposed",
		probe:    restOver,
		check:    on(tooMany, readable()),
		advice: "Wanted with `-c corsOrigin=none`. Otherwise deploy the API anew; see *Browsers* in " +
			"docs/attach.md.",
	},
	{
		id:       "rest-again",
		what:     "Retry-After is long enough",
		source:   "Tidegate's promise",
		how:      "wait as long as Retry-After says, and call",
		expected: "200",
		probe:    restAgain,
		check:    status(http.StatusOK),
		advice: "Somebody else uses the key, or a policy counts denied calls. Otherwise compare the " +
			"time of day here and in the log, and report both.",
	},
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

// problemBody expects a complete problem. A 429's names limits.
func problemBody(status int) check {
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
