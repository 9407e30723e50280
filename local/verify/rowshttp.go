package main

import (
	"net/http"
	"strings"
)

var httpRows = []row{
	{
		id:       "http-allowed",
		what:     "A call with a good key",
		source:   guide + "Control access to HTTP APIs with Lambda authorizers",
		how:      "`GET $HTTP/verify` with the key",
		expected: "200",
		probe:    httpKey,
		check:    status(http.StatusOK),
		advice: "500: API Gateway may not invoke the function, or its answer was refused " +
			"(enableSimpleResponses, payload 2.0). 403: the key, or its limit.",
	},
	{
		id:   "http-counts",
		what: "Every call is counted: results are not cached",
		source: guide + "Control access to HTTP APIs with Lambda authorizers: no caching unless a TTL " +
			"is set",
		how:      "`remaining` of four calls in a row",
		expected: "it falls",
		probe:    httpKey,
		check:    on(http.StatusOK, counted),
		advice: "Set AuthorizerResultTtlInSeconds to 0: a cached result lets calls pass uncounted and " +
			"revoked keys live on.",
	},
	{
		id:       "http-context",
		what:     "The context reaches the integration with its types",
		source:   guide + "Control access to HTTP APIs with Lambda authorizers; no source for types",
		how:      "`requestContext.authorizer.lambda` in the echoed body",
		expected: "`keyId`, `plan`, `rateLimit` strings, `remaining` a number, `denied` a boolean",
		probe:    httpKey,
		check:    on(http.StatusOK, contextOf(true)),
		advice: "Read both forms in your backend: the middleware takes either. Report what this " +
			"account sends.",
	},
	{
		id:   "http-fields",
		what: "RateLimit fields by the integration's response mapping",
		source: guide + "Transform API requests and responses for HTTP APIs; no public example for " +
			"`$context.authorizer` in responses",
		how:      "`GET $HTTP/verify` with the key",
		expected: "`RateLimit` and `RateLimit-Policy`",
		probe:    httpKey,
		check: on(http.StatusOK, all(header("RateLimit", rateLimit),
			header("RateLimit-Policy", rateLimitPolicy))),
		advice: "Add them in the backend, as the middleware does, and take the mappings out.",
	},
	{
		id:   "http-preflight",
		what: "A browser's preflight needs no key",
		source: guide + "Configure CORS for HTTP APIs: API Gateway answers OPTIONS itself where no " +
			"route takes it",
		how:      "`OPTIONS $HTTP/verify` with the headers of a preflight",
		expected: "200 or 204, `x-api-key` allowed",
		probe:    httpPreflight,
		check:    all(status(http.StatusOK, http.StatusNoContent), allowsKey),
		advice: "Wanted with `-c corsOrigin=none`. Otherwise take OPTIONS out of the routes with the " +
			"authorizer, see *Browsers* in docs/attach.md.",
	},
	{
		id:       "http-cors",
		what:     "CORS headers of an allowed answer, by the API's configuration",
		source:   guide + "Configure CORS for HTTP APIs: they are added to an integration's response",
		how:      "`GET $HTTP/verify` with the key and `Origin`",
		expected: "Access-Control-Allow-Origin; Retry-After and both fields exposed",
		probe:    httpKey,
		check:    on(http.StatusOK, readable()),
		advice: "Wanted with `-c corsOrigin=none`. Otherwise give the API a CORS configuration, see " +
			"*Browsers* in docs/attach.md.",
	},
	{
		id:       "http-path",
		what:     "`rawPath`, percent-encoded or not",
		source:   unproven,
		how:      "`GET $HTTP/verify/a%20b`; the echoed path",
		expected: "`/verify/a%20b` or `/verify/a b`; Tidegate takes either",
		probe:    httpPath,
		check:    on(http.StatusOK, pathEndsIn("/verify/a%20b", "/verify/a b")),
		advice:   "Route rules may not match: report the path, and try the rule with *Explain*.",
	},
	{
		id:   "http-403",
		what: "No credential: the function denies",
		source: guide + "Control access to HTTP APIs with Lambda authorizers: 401 when an identity " +
			"source is missing",
		how:      "`GET $HTTP/verify`. With `-c metrics=true`, metric `Refused` counts it",
		expected: "403",
		probe:    httpOpen,
		check:    status(http.StatusForbidden),
		advice: "401: the authorizer has an identity source: take it out. 200: the route has no " +
			"authorizer. 500: API Gateway may not invoke the function.",
	},
	{
		id:   "http-403-cors",
		what: "CORS headers of the authorizer's 403, which browsers need to read it",
		source: guide + "Configure CORS for HTTP APIs names an integration's response alone; other " +
			"emulators differ on a refusal",
		how:      "the same call, with `Origin`",
		expected: "no Access-Control-Allow-Origin",
		probe:    httpOpen,
		check:    on(http.StatusForbidden, unreadable),
		advice: "Good news: scripts in browsers can read the refusals of this account. Report it, so " +
			"that *Browsers* in docs/attach.md can say so.",
	},
	{
		id:       "http-403-wrong",
		what:     "A wrong key",
		source:   guide + "Control access to HTTP APIs with Lambda authorizers",
		how:      "`GET $HTTP/verify` with `x-api-key: tg_verify_wrong`",
		expected: "403",
		probe:    httpBadKey,
		check:    status(http.StatusForbidden),
		advice:   "200: anybody gets in: take the API off the net. 500: read the log of check.",
	},
	{
		id:       "http-headers",
		what:     "Headers over 10,240 bytes",
		source:   guide + "Quotas for HTTP APIs; no source for the status",
		how:      "a header of 11,000 bytes, without a key",
		expected: "431",
		probe:    httpHeaders,
		check:    status(http.StatusRequestHeaderFieldsTooLarge),
		advice: "Only the emulator's answer differs. If it is 403, API Gateway takes longer headers " +
			"than documented.",
	},
	{
		id:       "http-over",
		what:     "Over the limit: 403, or a true 429 by the backend",
		source:   guide + "Control access to HTTP APIs with Lambda authorizers: a deny is 403",
		how:      "calls with the key until one is denied; no more than its limit plus one",
		expected: "403; with `-c httpApiDeny=context` 429",
		probe:    httpOver,
		check:    status(http.StatusForbidden, tooMany),
		advice: "200 with `httpApiDeny=context`: the backend does not refuse what the context denies: " +
			"run the middleware. 5xx: read the log.",
	},
	{
		id:       "http-429-retry-after",
		what:     "Retry-After of the true 429",
		source:   "The backend's own header, passed on",
		how:      "the same call",
		expected: "`Retry-After`: 1 to the window, in seconds",
		probe:    httpOver,
		check:    whereTrue(retryAfter),
		advice:   "The backend lacks the middleware, or `retryAfter` does not reach its context.",
	},
	{
		id:       "http-429-body",
		what:     "Body and type of the true 429",
		source:   "The backend's own, passed on",
		how:      "the same call",
		expected: "JSON with `status` 429, `application/problem+json`",
		probe:    httpOver,
		check:    whereTrue(all(header("Content-Type", problemJSON), problemBody(tooMany))),
		advice:   "The backend lacks the middleware.",
	},
	{
		id:   "http-429-fields",
		what: "Response mappings hold for a 429 too",
		source: guide + "Transform API requests and responses for HTTP APIs: one mapping for each " +
			"status",
		how:      "the same call",
		expected: "`RateLimit` and `RateLimit-Policy`, once each",
		probe:    httpOver,
		check: whereTrue(all(header("RateLimit", `.*;r=0.*`),
			header("RateLimit-Policy", rateLimitPolicy))),
		advice: "Missing: map them for 429. Twice: `overwrite` did not replace what the backend set: " +
			"take out the mappings or the middleware's fields.",
	},
	{
		id:       "http-429-cors",
		what:     "CORS headers of the true 429, by the API's configuration",
		source:   guide + "Configure CORS for HTTP APIs: a backend's own are ignored",
		how:      "the same call, with `Origin`",
		expected: "Access-Control-Allow-Origin; Retry-After and both fields exposed",
		probe:    httpOver,
		check:    whereTrue(readable()),
		advice: "Wanted with `-c corsOrigin=none`. Otherwise expose the three fields by the API's CORS " +
			"configuration, see *Browsers* in docs/attach.md.",
	},
}

// unreadable expects that a browser hides an answer from another site's script.
func unreadable(e evidence) outcome {
	origin := e.last().header.Get("Access-Control-Allow-Origin")
	if origin == "" {
		return pass("no Access-Control-Allow-Origin")
	}
	return differ("Access-Control-Allow-Origin: " + origin)
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

var editRows = []row{
	{
		id:     "edit-acts",
		what:   "An edit acts on the next check",
		source: "Tidegate's promise, across functions and shards",
		how: "with `-token`: an override with one call more, and a call; it ends by itself after 5 " +
			"minutes if verify cannot",
		expected: "`RateLimit-Policy` has the override's limit",
		probe:    edits,
		check:    overridden,
		advice: "200 with the old limit: check reads another Valkey than the dashboard writes: " +
			"compare VALKEY_URL of both functions.",
	},
	{
		id:       "edit-ends",
		what:     "Ending the override acts on the next check",
		source:   "Tidegate's promise",
		how:      "the override is ended, and a call",
		expected: "`RateLimit-Policy` as before",
		probe:    edits,
		check:    asBefore,
		advice:   "End the override in the dashboard, then as for the edit.",
	},
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

// policy returns the RateLimit-Policy of an answer.
func (a answer) policy() string {
	if text, found := a.context()["rateLimitPolicy"].(string); found {
		return text
	}
	return strings.Join(a.header.Values("RateLimit-Policy"), ", ")
}
