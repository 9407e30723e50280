package main

import (
	"fmt"
	"net/http"
	"slices"
	"strings"
	"time"
)

var restAllowedRows = []row{
	{
		id:     "rest-allowed",
		what:   "A call with a good key",
		source: unproven + " for ElastiCache's log-in by IAM from this function",
		how: "`GET $REST/verify` with the key; again a day later, since a connection that logged in " +
			"by IAM ends after 12 hours",
		expected: "200",
		probe:    restKey,
		check:    status(http.StatusOK),
		advice: "401: the key is not of this deployment. 403: deploy the REST API anew. 429: the key " +
			"is in use, or Valkey is not reached: read log group /tidegate/STAGE/check.",
	},
	{
		id:       "rest-decided",
		what:     "The decision is Valkey's",
		source:   unproven + " for how long a first connection takes",
		how:      "the context in the echoed body",
		expected: "no `degraded` in the context",
		probe:    restKey,
		check:    on(http.StatusOK, notDegraded),
		advice: "Valkey did not answer in time: read StoreErrors and the log of check; raise " +
			"VALKEY_CONNECT_TIMEOUT or -c storeTimeout.",
	},
	{
		id:       "rest-latency",
		what:     "Time of a first and of later calls",
		source:   unproven + " for the time of a cold start in a network",
		how:      "four calls in a row; the first includes TLS and, after a pause, a cold start",
		expected: "each within 10 s; the times are reported",
		probe:    restKey,
		check:    on(http.StatusOK, timely),
		advice: "Compare with `ColdStart` and `StoreLatency`; give the functions more memory with -c " +
			"checkMemory.",
	},
	{
		id:       "rest-counts",
		what:     "Every call is counted: results are not cached",
		source:   guide + "Use API Gateway Lambda authorizers: a TTL of 0 switches the cache off",
		how:      "`remaining` of four calls in a row",
		expected: "it falls",
		probe:    restKey,
		check:    on(http.StatusOK, counted),
		advice: "Set the authorizer's result TTL to 0 and deploy the API anew: a cached result lets " +
			"calls pass uncounted and revoked keys live on.",
	},
	{
		id:       "rest-context",
		what:     "The context reaches a proxy integration as strings",
		source:   guide + "Output from an API Gateway Lambda authorizer",
		how:      "`requestContext.authorizer` in the echoed body",
		expected: "`keyId`, `plan`, `remaining`, `rateLimit`, all strings",
		probe:    restKey,
		check:    on(http.StatusOK, contextOf(false)),
		advice:   "Read the keys in your backend as this account sends them, and report what it sends.",
	},
	{
		id:       "rest-fields",
		what:     "RateLimit fields that the backend adds",
		source:   guide + "Lambda proxy integrations: headers are passed on",
		how:      "the same call",
		expected: "`RateLimit` and `RateLimit-Policy`",
		probe:    restKey,
		check: on(http.StatusOK, all(header("RateLimit", rateLimit),
			header("RateLimit-Policy", rateLimitPolicy))),
		advice: "A proxy integration maps nothing: copy both from the context in your backend, as " +
			"infra/backend.js does.",
	},
	{
		id:     "rest-path",
		what:   "The path of a call, percent-encoded or not",
		source: unproven,
		how: "`GET $REST/verify/a%20b`; the echoed path. With a rule for `/verify/a b` the context's " +
			"`rule` is that rule",
		expected: "`/verify/a%20b` or `/verify/a b`; Tidegate takes either",
		probe:    restPath,
		check:    on(http.StatusOK, pathEndsIn("/verify/a%20b", "/verify/a b")),
		advice:   "Route rules may not match: report the path, and try the rule with *Explain*.",
	},
	{
		id:       "rest-long-path",
		what:     "A policy for a long method ARN",
		source:   guide + "Quotas: 512 characters of a policy's resource, 1,600 bytes of a method ARN",
		how:      "a path of 1,000 characters",
		expected: "200",
		probe:    restLongPath,
		check:    status(http.StatusOK),
		advice: "The policy's resource was refused: report the length at which it begins; shorten " +
			"paths meanwhile.",
	},
	{
		id:       "rest-long-arn",
		what:     "A method ARN over 1,600 bytes",
		source:   guide + "Quotas: 414",
		how:      "a path of 1,700 characters",
		expected: "414",
		probe:    restLongARN,
		check:    status(http.StatusRequestURITooLong),
		advice: "Only the emulator's answer differs: no harm, unless the call was allowed and not " +
			"counted.",
	},
	{
		id:       "rest-headers",
		what:     "Headers over 10,240 bytes",
		source:   guide + "Quotas; no source for the status",
		how:      "a header of 11,000 bytes, without a key",
		expected: "431",
		probe:    restHeaders,
		check:    status(http.StatusRequestHeaderFieldsTooLarge),
		advice: "Only the emulator's answer differs. If it is 401, API Gateway takes longer headers " +
			"than documented.",
	},
}

var restRefusedRows = []row{
	{
		id:       "rest-401",
		what:     "No credential: the authorizer's error `Unauthorized`",
		source:   guide + "Gateway response types, UNAUTHORIZED",
		how:      "`GET $REST/verify`. With `-c metrics=true`, metric `Refused` counts it",
		expected: "401",
		probe:    restOpen,
		check:    status(http.StatusUnauthorized),
		advice: "200: this path has no authorizer. 403: deploy the API anew. 500: API Gateway may not " +
			"invoke the function: see its permission.",
	},
	{
		id:       "rest-401-wrong",
		what:     "A wrong key",
		source:   guide + "Gateway response types, UNAUTHORIZED",
		how:      "`GET $REST/verify` with `x-api-key: tg_verify_wrong`",
		expected: "401",
		probe:    restBadKey,
		check:    status(http.StatusUnauthorized),
		advice:   "200: anybody gets in: take the API off the net. 403 or 500: as for no credential.",
	},
	{
		id:   "rest-401-authenticate",
		what: "WWW-Authenticate of the 401 from a static mapping",
		source: guide + "Set up gateway responses: static headers. Its list of remapped headers names " +
			"this one for integrations",
		how:      "the same call",
		expected: "`WWW-Authenticate: Bearer …`",
		probe:    restOpen,
		check:    on(http.StatusUnauthorized, header("WWW-Authenticate", `Bearer .+`)),
		advice: "Renamed or missing, it is API Gateway's doing: clients must go by the status. " +
			"Missing everywhere: deploy the API anew.",
	},
	{
		id:   "rest-401-body",
		what: "Body and type of the 401",
		source: guide + "Set up gateway responses: a Content-Type set by a header mapping has no " +
			"source",
		how:      "the same call",
		expected: "JSON with `status` 401, `application/problem+json`",
		probe:    restOpen,
		check: on(http.StatusUnauthorized, all(header("Content-Type", problemJSON),
			problemBody(http.StatusUnauthorized))),
		advice: "Clients must not rely on it: the status decides. Deploy the API anew if the gateway " +
			"responses are newer than the deployment.",
	},
	{
		id:       "rest-401-cors",
		what:     "CORS headers of the 401",
		source:   guide + "CORS for REST APIs: gateway responses need them",
		how:      "the same call, with `Origin`",
		expected: "Access-Control-Allow-Origin; Retry-After and both fields exposed",
		probe:    restOpen,
		check:    on(http.StatusUnauthorized, readable()),
		advice: "Wanted with `-c corsOrigin=none`. Otherwise deploy the API anew; see *Browsers* in " +
			"docs/attach.md.",
	},
	{
		id:       "rest-preflight",
		what:     "A browser's preflight needs no key",
		source:   guide + "CORS for REST APIs",
		how:      "`OPTIONS $REST/verify` with the headers of a preflight",
		expected: "200 or 204, `x-api-key` allowed",
		probe:    restPreflight,
		check:    all(status(http.StatusOK, http.StatusNoContent), allowsKey),
		advice: "Wanted with `-c corsOrigin=none`. Otherwise add OPTIONS without authorization, see " +
			"*Browsers* in docs/attach.md.",
	},
}

// Patterns of header values.
const (
	problemJSON     = `application/problem\+json(;.*)?`
	rateLimit       = `"[^"]+";r=\d+.*`
	rateLimitPolicy = `"[^"]+";q=\d+;w=\d+.*`
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
