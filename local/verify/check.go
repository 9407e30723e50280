package verify

import (
	"fmt"
	"net/http"
	"regexp"
	"slices"
	"strings"
)

// byHand is the reason for skipping rows without a probe.
const byHand = "by hand: see -list"

// judge checks the row with its probe's evidence.
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

// checks has the probe and the check of each row that a program can check.
var checks = map[string]struct {
	probe *probe
	check check
}{
	"rest-allowed":   {restKey, status(http.StatusOK)},
	"rest-decided":   {restKey, on(http.StatusOK, notDegraded)},
	"rest-latency":   {restKey, on(http.StatusOK, timely)},
	"rest-counts":    {restKey, on(http.StatusOK, counted)},
	"rest-context":   {restKey, on(http.StatusOK, contextOf(false))},
	"rest-fields":    {restKey, on(http.StatusOK, fields(rateLimit))},
	"rest-path":      {restPath, on(http.StatusOK, pathEndsIn("/verify/a%20b", "/verify/a b"))},
	"rest-long-path": {restLongPath, status(http.StatusOK)},
	"rest-long-arn":  {restLongARN, status(http.StatusRequestURITooLong)},
	"rest-headers":   {restHeaders, status(http.StatusRequestHeaderFieldsTooLarge)},

	"rest-401":              {restOpen, status(http.StatusUnauthorized)},
	"rest-401-wrong":        {restBadKey, status(http.StatusUnauthorized)},
	"rest-401-authenticate": {restOpen, on(http.StatusUnauthorized, header("WWW-Authenticate", bearer))},
	"rest-401-body":         {restOpen, on(http.StatusUnauthorized, problemBody(http.StatusUnauthorized))},
	"rest-401-cors":         {restOpen, on(http.StatusUnauthorized, readable)},
	"rest-preflight":        {restPreflight, all(status(http.StatusOK, http.StatusNoContent), allowsKey)},

	"rest-429":             {restOver, status(tooMany)},
	"rest-429-retry-after": {restOver, on(tooMany, retryAfter)},
	"rest-429-ratelimit":   {restOver, on(tooMany, header("RateLimit", usedUp))},
	"rest-429-policy":      {restOver, on(tooMany, header("RateLimit-Policy", rateLimitPolicy))},
	"rest-429-type":        {restOver, on(tooMany, header("Content-Type", problemJSON))},
	"rest-429-static":      {restOver, on(tooMany, header("Cache-Control", `no-store`))},
	"rest-429-body":        {restOver, on(tooMany, problemIn(tooMany))},
	"rest-429-body-wait":   {restOver, on(tooMany, waitInBody)},
	"rest-429-cors":        {restOver, on(tooMany, readable)},
	"rest-again":           {restAgain, status(http.StatusOK)},

	"http-allowed":         {httpKey, status(http.StatusOK)},
	"http-counts":          {httpKey, on(http.StatusOK, counted)},
	"http-context":         {httpKey, on(http.StatusOK, contextOf(true))},
	"http-fields":          {httpKey, on(http.StatusOK, fields(rateLimit))},
	"http-preflight":       {httpPreflight, all(status(http.StatusOK, http.StatusNoContent), allowsKey)},
	"http-cors":            {httpKey, on(http.StatusOK, readable)},
	"http-path":            {httpPath, on(http.StatusOK, pathEndsIn("/verify/a%20b", "/verify/a b"))},
	"http-403":             {httpOpen, status(http.StatusForbidden)},
	"http-403-cors":        {httpOpen, on(http.StatusForbidden, readableOrNot)},
	"http-403-wrong":       {httpBadKey, status(http.StatusForbidden)},
	"http-headers":         {httpHeaders, status(http.StatusRequestHeaderFieldsTooLarge)},
	"http-over":            {httpOver, status(http.StatusForbidden, tooMany)},
	"http-429-retry-after": {httpOver, onTrue429(retryAfter)},
	"http-429-body":        {httpOver, onTrue429(problemBody(tooMany))},
	"http-429-fields":      {httpOver, onTrue429(fields(usedUp))},
	"http-429-cors":        {httpOver, onTrue429(readable)},

	"edit-acts": {edits, overridden},
	"edit-ends": {edits, asBefore},

	"dash-redirect": {dashRoot, redirects},
	"dash-login":    {dashLogin, all(status(http.StatusOK), header("Content-Type", `text/html(;.*)?`))},
	"dash-cookie":   {dashLogin, on(http.StatusOK, cookie)},
	"dash-headers":  {dashLogin, on(http.StatusOK, securityHeaders)},
	"dash-static":   {dashStatic, all(status(http.StatusOK), compressed)},
	"dash-health":   {dashHealth, all(status(http.StatusOK), bodyHas("store ready"))},
	"dash-401": {dashAPI, all(status(http.StatusUnauthorized), header("WWW-Authenticate", bearer),
		problemBody(http.StatusUnauthorized))},
	"dash-token": {dashToken, status(http.StatusOK)},

	"throttle-rest":      {restFlood, throttled(http.StatusUnauthorized)},
	"throttle-dashboard": {dashFlood, loginThrottled},

	"stack":                 {awsStack, printed(`(CREATE|UPDATE|IMPORT)_COMPLETE`)},
	"cache-user":            {awsUser, printed(`active`)},
	"pepper":                {awsPepper, pepper},
	"log-key":               {awsLogKey, listed(encrypted)},
	"log-lines":             {awsLogLines, listed(noPlatformLines)},
	"rest-authorizer":       {awsRESTAuthorizer, listed(authorizers)},
	"rest-gateway-response": {awsDenied, mapsHeaders},
	"http-authorizer":       {awsHTTPAuthorizer, listed(authorizers)},
	"usage-plan":            {awsUsagePlan, listed(planAfterAuthorizer)},
	"cache-metric":          {awsMetric, listed(cacheDimension)},
	"alarm":                 {awsAlarm, printed(`OK`)},
}

// check compares a probe's evidence with a row's expectation.
type check func(evidence) outcome

const tooMany = http.StatusTooManyRequests

// Patterns of header values.
const (
	bearer          = `Bearer .+`
	problemJSON     = `application/problem\+json(;.*)?`
	rateLimit       = `"[^"]+";r=\d+.*`
	usedUp          = `.*;r=0.*`
	rateLimitPolicy = `"[^"]+";q=\d+.*`
)

// last returns the last answer, which most rows check.
func (e evidence) last() answer { return e.answers[len(e.answers)-1] }

// status expects one of the statuses in the last answer.
func status(want ...int) check {
	return func(e evidence) outcome {
		a := e.last()
		seen := fmt.Sprint(a.status)
		if slices.Contains(want, a.status) {
			return pass(seen)
		}
		if kind := a.header.Get("X-Amzn-Errortype"); kind != "" {
			seen += " " + kind
		}
		return differ(seen + excerpt(a.body))
	}
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

// on skips a check if the last answer has another status, which the row on the status
// reports.
func on(status int, c check) check {
	return func(e evidence) outcome {
		if got := e.last().status; got != status {
			return skip(fmt.Sprintf("the status is %d: see the row on the status", got))
		}
		return c(e)
	}
}

// header expects that the last answer has the header once, with a value that matches.
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

// all expects that every check passes. It returns the outcome of the first that does not.
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

// fields expects both RateLimit fields. The first must match a pattern.
func fields(rateLimit string) check {
	return all(header("RateLimit", rateLimit), header("RateLimit-Policy", rateLimitPolicy))
}

// readable expects the headers that let another site's script read an answer in a
// browser.
func readable(e evidence) outcome {
	h := e.last().header
	origin, exposed := h.Get("Access-Control-Allow-Origin"), h.Get("Access-Control-Expose-Headers")
	switch {
	case origin == "":
		return differ("no Access-Control-Allow-Origin")
	case origin == "*" && h.Get("Access-Control-Allow-Credentials") == "true":
		return differ("Access-Control-Allow-Credentials with the origin *, which browsers refuse")
	}
	for _, name := range []string{"Retry-After", "RateLimit", "RateLimit-Policy"} {
		if !lists(exposed, name) {
			return differ("Access-Control-Expose-Headers lacks " + name)
		}
	}
	return pass(origin)
}

func lists(fields, name string) bool {
	for field := range strings.SplitSeq(fields, ",") {
		if strings.EqualFold(strings.TrimSpace(field), name) {
			return true
		}
	}
	return false
}
