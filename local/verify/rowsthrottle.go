package main

import (
	"fmt"
	"net/http"
	"strings"
)

var throttleRows = []row{
	{
		id:     "throttle-rest",
		what:   "The stage's throttle stands before or behind the authorizer",
		source: unproven,
		how: "with `-throttle`: 1,000 calls without a credential, 100 at a time. Some 429 among the " +
			"401: before; none: behind, or never reached",
		expected: "401, and API Gateway's own 429; no 5xx",
		probe:    restFlood,
		check:    throttled(http.StatusUnauthorized),
		advice: "5xx: Lambda's concurrency was used up before the throttle: lower the stage's " +
			"throttle or raise -c checkConcurrency.",
	},
	{
		id:       "throttle-dashboard",
		what:     "The log-in's throttle leaves the other routes alone",
		source:   guide + "Throttle requests to HTTP APIs: settings of a route",
		how:      "with `-throttle`: 100 calls of the login page, 100 at a time, then `/healthz`",
		expected: "some 429; then 200",
		probe:    dashFlood,
		check:    loginThrottled,
		advice: "No 429: the stage's route settings are missing: deploy again. No 200: one route's " +
			"calls use up another's throttle.",
	},
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
