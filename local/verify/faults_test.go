package main

import (
	"errors"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"
)

// fault breaks one part of a deployment.
type fault struct {
	name   string
	row    string // the only row that must differ
	advice string // a part of the row's advice
	inject func(*fake)
}

// answers changes the answers with a status from URLs with a prefix.
func answers(prefix string, status int, change func(*fakeAnswer)) func(*fake) {
	return func(f *fake) {
		f.tamper = func(_ *fake, r *http.Request, a *fakeAnswer) {
			if a.status == status && strings.HasPrefix(r.URL.String(), prefix) {
				change(a)
			}
		}
	}
}

func dropped(name string) func(*fakeAnswer) {
	return func(a *fakeAnswer) { a.header.Del(name) }
}

func set(name, value string) func(*fakeAnswer) {
	return func(a *fakeAnswer) { a.header.Set(name, value) }
}

func replaced(old, by string) func(*fakeAnswer) {
	return func(a *fakeAnswer) { a.body = strings.ReplaceAll(a.body, old, by) }
}

// becomes replaces an answer by one of API Gateway with a status.
func becomes(status int) func(*fakeAnswer) {
	return func(a *fakeAnswer) {
		a.status, a.body, a.header = status, `{"message":"Forbidden"}`, http.Header{}
	}
}

// only changes the answers to calls that match.
func only(match func(*http.Request) bool, change func(*fakeAnswer)) func(*fake) {
	return func(f *fake) {
		f.tamper = func(_ *fake, r *http.Request, a *fakeAnswer) {
			if match(r) {
				change(a)
			}
		}
	}
}

func wrongKey(prefix string) func(*http.Request) bool {
	return func(r *http.Request) bool {
		key := r.Header.Get("X-Api-Key")
		return strings.HasPrefix(r.URL.String(), prefix) && key != "" && key != fakeKey
	}
}

// noKey matches calls without a credential, except those of the flood.
func noKey(prefix string) func(*http.Request) bool {
	return func(r *http.Request) bool {
		return r.Method == http.MethodGet && strings.HasPrefix(r.URL.String(), prefix) &&
			r.Header.Get("X-Api-Key") == "" &&
			r.Header.Get("A") == "" && r.Header.Get("Origin") != ""
	}
}

func path(text string) func(*http.Request) bool {
	return func(r *http.Request) bool { return strings.HasPrefix(r.URL.String(), text) }
}

func prints(command, output string) func(*fake) {
	return func(f *fake) { f.commands[command] = output }
}

// caches answers all calls with the key of an API with the first answer, as with an
// authorizer's cache.
func caches(prefix string) func(*fake) {
	return func(f *fake) {
		var first *fakeAnswer
		f.tamper = func(_ *fake, r *http.Request, a *fakeAnswer) {
			if !strings.HasPrefix(r.URL.String(), prefix+"/verify") || r.Header.Get("X-Api-Key") != fakeKey ||
				strings.Contains(r.URL.Path, "/verify/") {
				return
			}
			if first == nil {
				first = &fakeAnswer{status: a.status, header: a.header.Clone(), body: a.body}
			}
			a.status, a.header, a.body = first.status, first.header.Clone(), first.body
		}
	}
}

// again denies only the call after Retry-After, which comes exactly 10 s after a denial.
func again(f *fake) {
	var denied time.Time
	f.tamper = func(f *fake, r *http.Request, a *fakeAnswer) {
		if !strings.HasPrefix(r.URL.String(), fakeREST+"/verify") {
			return
		}
		if a.status == tooMany {
			denied = f.clock
		} else if !denied.IsZero() && f.clock.Sub(denied) == 10*time.Second {
			becomes(tooMany)(a)
		}
	}
}

// slow delays the first call with the key.
func slow(f *fake) {
	delayed := false
	f.tamper = func(f *fake, r *http.Request, _ *fakeAnswer) {
		if r.Header.Get("X-Api-Key") == fakeKey && !delayed {
			delayed = true
			f.clock = f.clock.Add(11 * time.Second)
		}
	}
}

// staleEdit answers with the old limit while the override is in force, or with the
// override's limit after its end.
func staleEdit(inForce bool) func(*fake) {
	return func(f *fake) {
		edited := false
		f.tamper = func(f *fake, r *http.Request, a *fakeAnswer) {
			edited = edited || f.overridden
			if !strings.HasPrefix(r.URL.String(), fakeREST+"/verify") || !edited || f.overridden != inForce {
				return
			}
			if inForce {
				replaced("11 per 10 seconds", "10 per 10 seconds")(a)
				replaced("q=11", "q=10")(a)
			} else {
				replaced("q=10", "q=11")(a)
			}
		}
	}
}

// Each fault makes its row differ, with the advice for it, and no other row.
func TestFaults(t *testing.T) {
	for _, c := range faults {
		t.Run(c.row+"/"+c.name, func(t *testing.T) {
			f := newFake()
			c.inject(f)
			out, _, r, code := f.verify(t, fakeOptions())
			if code != somethingDiffers || !slices.Equal(r.with(differs), []string{c.row}) {
				t.Fatalf("got exit status %d; %q differ, want only %s\n%s", code, r.with(differs), c.row, out)
			}
			i := slices.IndexFunc(r.Rows, func(row result) bool { return row.ID == c.row })
			if row := r.Rows[i]; !strings.Contains(row.Do, c.advice) || !strings.Contains(out, row.Do) ||
				row.Seen == "" {
				t.Errorf("got %+v, want advice with %q", row, c.advice)
			}
		})
	}
}

// A REST or HTTP API that allows no call makes its first row differ, and the rows about
// allowed calls are skipped.
func TestNothingIsAllowed(t *testing.T) {
	for base, row := range map[string]string{fakeREST: "rest-allowed", fakeHTTP: "http-allowed"} {
		f := newFake()
		answers(base, 200, becomes(500))(f)
		_, _, r, _ := f.verify(t, fakeOptions())
		if got := r.with(differs); !slices.Contains(got, row) ||
			slices.Contains(got, strings.Replace(row, "allowed", "context", 1)) {
			t.Errorf("%s: got %q, want %s and no row on allowed calls", base, got, row)
		}
	}
}

// An API that cannot be reached makes its rows differ, with the error.
func TestNoAnswer(t *testing.T) {
	f := newFake()
	f.tamper = func(_ *fake, r *http.Request, a *fakeAnswer) {
		if strings.HasPrefix(r.URL.String(), fakeHTTP) {
			a.err = errors.New("no such host")
		}
	}
	out, _, r, code := f.verify(t, fakeOptions())
	if code != somethingDiffers || !slices.Contains(r.with(differs), "http-allowed") ||
		!strings.Contains(out, "no such host") {
		t.Errorf("got exit status %d, want %d and the error\n%s", code, somethingDiffers, out)
	}
}

// Every row that a program checks has a fault of its own.
func TestEveryRowHasAFault(t *testing.T) {
	broken := map[string]bool{"rest-allowed": true, "http-allowed": true} // by TestNothingIsAllowed
	for _, c := range faults {
		broken[c.row] = true
	}
	known := map[string]bool{}
	for _, r := range rows {
		if known[r.id] {
			t.Errorf("got two rows %s, want one", r.id)
		}
		known[r.id] = true
		if r.probe != nil && !broken[r.id] {
			t.Errorf("%s: want a fault", r.id)
		}
		if (r.probe == nil) != (r.check == nil) || (r.probe == nil) != strings.HasPrefix(r.id, "hand-") {
			t.Errorf("%s: want a probe and a check, or neither for a row by hand", r.id)
		}
		if r.probe != nil && !slices.Contains(probes, r.probe) {
			t.Errorf("%s: want its probe among probes", r.id)
		}
	}
	for id := range checks {
		if !known[id] {
			t.Errorf("want row %s in docs/verify.md", id)
		}
	}
	for _, p := range probes {
		if !slices.ContainsFunc(rows, func(r row) bool { return r.probe == p }) {
			t.Errorf("probe %q: want a row that uses it", p.what)
		}
	}
}

// faults has one or more faults for each row.
var faults = slices.Concat(restFaults, overFaults, httpFaults, dashboardFaults, accountFaults)

var restFaults = []fault{
	{"Valkey is unavailable", "rest-decided", "StoreErrors",
		answers(fakeREST, 200, replaced(`"plan"`, `"degraded":"true","plan"`))},
	{"a cold start of 11 s", "rest-latency", "ColdStart", slow},
	{"the REST API caches", "rest-counts", "TTL to 0", caches(fakeREST)},
	{"the context loses its plan", "rest-context", "Read the keys",
		answers(fakeREST, 200, replaced(`"plan"`, `"other"`))},
	{"the context has numbers", "rest-context", "Read the keys",
		answers(fakeREST, 200, replaced(`"denied":"false"`, `"denied":false`))},
	{"a header is dropped", "rest-fields", "copy both", answers(fakeREST, 200, dropped("RateLimit"))},
	{"the path is escaped twice", "rest-path", "Route rules",
		answers(fakeREST, 200, replaced("a%20b", "a%2520b"))},
	{"a policy of a long ARN is refused", "rest-long-path", "resource was refused",
		only(path(fakeREST+"/verify/lll"), func(a *fakeAnswer) {
			if a.status == 200 {
				becomes(500)(a)
			}
		})},
	{"a long ARN is allowed", "rest-long-arn", "not counted", answers(fakeREST, 414, becomes(200))},
	{"long headers are taken", "rest-headers", "longer headers", answers(fakeREST, 431, becomes(401))},
	{"a call without a key passes", "rest-401", "no authorizer", only(noKey(fakeREST), becomes(200))},
	{"a wrong key passes", "rest-401-wrong", "off the net", only(wrongKey(fakeREST), becomes(200))},
	{"WWW-Authenticate is renamed", "rest-401-authenticate", "status",
		answers(fakeREST, 401, func(a *fakeAnswer) {
			a.set("X-Amzn-Remapped-Www-Authenticate", a.header.Get("Www-Authenticate"))
			a.header.Del("Www-Authenticate")
		})},
	{"the 401 is plain JSON", "rest-401-body", "status decides",
		answers(fakeREST, 401, set("Content-Type", "application/json"))},
	{"the 401 has no CORS headers", "rest-401-cors", "corsOrigin",
		answers(fakeREST, 401, dropped("Access-Control-Allow-Origin"))},
	{"the preflight needs a key", "rest-preflight", "OPTIONS without", answers(fakeREST, 204, becomes(401))},
	{"the preflight allows no key", "rest-preflight", "OPTIONS without",
		answers(fakeREST, 204, set("Access-Control-Allow-Headers", "Content-Type"))},
	{"a flood ends in 500", "throttle-rest", "concurrency", func(f *fake) {
		f.tamper = func(f *fake, r *http.Request, a *fakeAnswer) {
			if f.burst["rest"] > 100 && strings.HasPrefix(r.URL.String(), fakeREST) {
				becomes(500)(a)
			}
		}
	}},
}

var overFaults = []fault{
	{"denials are 403", "rest-429", "deploy the API anew", answers(fakeREST, 429, func(a *fakeAnswer) {
		if a.header.Get("Retry-After") != "" {
			becomes(403)(a)
		}
	})},
	{"Retry-After is dropped", "rest-429-retry-after", "`retry-after` of the body",
		answers(fakeREST, 429, dropped("Retry-After"))},
	{"Retry-After is the expression", "rest-429-retry-after", "deploy the API anew",
		answers(fakeREST, 429, func(a *fakeAnswer) {
			if a.header.Get("Retry-After") != "" {
				a.header.Set("Retry-After", "context.authorizer.retryAfter")
				a.body = strings.Replace(a.body, `"retry-after":"10"`,
					`"retry-after":"context.authorizer.retryAfter"`, 1)
			}
		})},
	{"RateLimit is dropped", "rest-429-ratelimit", "quotes", answers(fakeREST, 429, dropped("RateLimit"))},
	{"RateLimit-Policy is dropped", "rest-429-policy", "RateLimit",
		answers(fakeREST, 429, dropped("RateLimit-Policy"))},
	{"the 429 is plain JSON", "rest-429-type", "file the template",
		answers(fakeREST, 429, set("Content-Type", "application/json"))},
	{"the 429 may be cached", "rest-429-static", "deploy the API anew",
		answers(fakeREST, 429, dropped("Cache-Control"))},
	{"quotes are not escaped", "rest-429-body", "Report the body",
		answers(fakeREST, 429, replaced(`["10 per`, `[""10 per`))},
	{"the body has no limits", "rest-429-body", "Report the body",
		answers(fakeREST, 429, replaced(`"10 per 10 seconds"`, `""`))},
	{"the context reaches no template", "rest-429-body-wait", "does not reach templates",
		answers(fakeREST, 429, replaced(`"retry-after":"10"`, `"retry-after":""`))},
	{"the 429 hides Retry-After", "rest-429-cors", "corsOrigin",
		answers(fakeREST, 429, set("Access-Control-Expose-Headers", "RateLimit,RateLimit-Policy"))},
	{"Retry-After is too short", "rest-again", "Somebody else", again},
	{"an edit comes late", "edit-acts", "another Valkey", staleEdit(true)},
	{"the end of an override comes late", "edit-ends", "End the override", staleEdit(false)},
}

var httpFaults = []fault{
	{"the HTTP API caches", "http-counts", "TtlInSeconds to 0", caches(fakeHTTP)},
	{"the HTTP API's preflight needs a key", "http-preflight", "take OPTIONS out",
		answers(fakeHTTP, 204, becomes(403))},
	{"the HTTP API's preflight allows no key", "http-preflight", "take OPTIONS out",
		answers(fakeHTTP, 204, set("Access-Control-Allow-Headers", "Content-Type"))},
	{"allowed answers have no CORS headers", "http-cors", "CORS configuration",
		answers(fakeHTTP, 200, dropped("Access-Control-Allow-Origin"))},
	{"refusals have CORS headers", "http-403-cors", "Report it",
		answers(fakeHTTP, 403, set("Access-Control-Allow-Origin", "*"))},
	{"the true 429 exposes no fields", "http-429-cors", "expose the three",
		answers(fakeHTTP, 429, dropped("Access-Control-Expose-Headers"))},
	{"the context has texts alone", "http-context", "takes either",
		answers(fakeHTTP, 200, replaced(`"denied":false`, `"denied":"false"`))},
	{"a mapping is dropped", "http-fields", "as the middleware does",
		answers(fakeHTTP, 200, dropped("RateLimit-Policy"))},
	{"rawPath is escaped twice", "http-path", "Route rules",
		answers(fakeHTTP, 200, replaced("a%20b", "a%2520b"))},
	{"there is an identity source", "http-403", "take it out", only(noKey(fakeHTTP), becomes(401))},
	{"a wrong key passes", "http-403-wrong", "off the net", only(wrongKey(fakeHTTP), becomes(200))},
	{"long headers are taken", "http-headers", "longer headers", answers(fakeHTTP, 431, becomes(403))},
	{"the backend does not refuse", "http-over", "run the middleware", answers(fakeHTTP, 429, becomes(200))},
	{"the 429 has no Retry-After", "http-429-retry-after", "middleware",
		answers(fakeHTTP, 429, dropped("Retry-After"))},
	{"the 429 is text", "http-429-body", "middleware", answers(fakeHTTP, 429, func(a *fakeAnswer) {
		a.body = "Too many"
	})},
	{"the 429 has a field twice", "http-429-fields", "overwrite", answers(fakeHTTP, 429, func(a *fakeAnswer) {
		a.header.Add("RateLimit", a.header.Get("RateLimit"))
	})},
}

var dashboardFaults = []fault{
	{"a redirect loses the base path", "dash-redirect", "ADMIN_URL",
		answers(fakeDash, 303, set("Location", "/login"))},
	{"the login page is 503", "dash-login", "access string", func(f *fake) {
		f.tamper = func(f *fake, r *http.Request, a *fakeAnswer) {
			if r.URL.Path == "/limits/login" && f.burst["login"] < 3 {
				a.status = 503
			}
		}
	}},
	{"a cookie is not Secure", "dash-cookie", "rewrites cookies", answers(fakeDash, 200, func(a *fakeAnswer) {
		a.header.Set("Set-Cookie", strings.Replace(a.header.Get("Set-Cookie"), "Secure; ", "", 1))
	})},
	{"a header is dropped", "dash-headers", "pass them on",
		answers(fakeDash+"/login", 200, dropped("Strict-Transport-Security"))},
	{"a file is packed in base64", "dash-static", "Accept-Encoding",
		only(path(fakeDash+"/static"), func(a *fakeAnswer) { a.body = "H4sIAAAA" })},
	{"Valkey is unavailable", "dash-health", "log of admin", func(f *fake) {
		f.tamper = func(f *fake, r *http.Request, a *fakeAnswer) {
			if r.URL.Path == "/limits/healthz" && f.burst["health"] == 0 {
				f.burst["health"]++
				becomes(503)(a)
			}
		}
	}},
	{"the API takes everybody", "dash-401", "off the net", answers(fakeDash, 401, becomes(200))},
	{"Authorization is dropped", "dash-token", "expired", only(func(r *http.Request) bool {
		return r.URL.Path == "/limits/api/v1/me" && r.Header.Get("Authorization") != ""
	}, becomes(401))},
	{"the login has no throttle", "throttle-dashboard", "route settings",
		only(path(fakeDash+"/login"), func(a *fakeAnswer) {
			if a.status == tooMany {
				becomes(200)(a)
			}
		})},
}

var accountFaults = []fault{
	{"a rollback", "stack", "describe-stack-events",
		prints("cloudformation describe-stacks", `"ROLLBACK_COMPLETE"`)},
	{"a user is being changed", "cache-user", "word of the access string",
		prints("elasticache describe-users", `"modifying"`)},
	{"an unresolved reference", "pepper", "Rotate",
		prints("lambda get-function-configuration", `"{{resolve:secretsmanager:x}}"`)},
	{"a log group without a key", "log-key", "key's policy",
		prints("logs describe-log-groups", `[["/tidegate/dev/check", null]]`)},
	{"platform lines", "log-lines", "WARN",
		prints("logs filter-log-events", `["REPORT RequestId: 1 Duration: 2 ms"]`)},
	{"platform lines in JSON", "log-lines", "WARN",
		prints("logs filter-log-events", `["{\"time\":\"now\",\"type\":\"platform.start\"}"]`)},
	{"a default cache", "rest-authorizer", "TTL to 0",
		prints("apigateway get-authorizers", `[{"ttl": 300, "source": ""}]`)},
	{"an identity source", "http-authorizer", "take the source out", prints("apigatewayv2 get-authorizers",
		`[{"ttl": 0, "source": ["$request.header.X-Api-Key"]}]`)},
	{"the usage plan comes first", "usage-plan", "not counted here", prints("execution log",
		`["Verifying Usage Plan for request: 0-a. API Key:  API Stage: rest123/prod",
		"Starting authorizer: a1 for request: 0-a"]`)},
	{"an old gateway response", "rest-gateway-response", "attach again",
		prints("apigateway get-gateway-response", `{}`)},
	{"another dimension", "cache-metric", "report the dimension",
		prints("cloudwatch list-metrics", `[["CacheName", "tidegate-dev"]]`)},
	{"an alarm", "alarm", "raise the alarm", prints("cloudwatch describe-alarms", `"ALARM"`)},
}
