package limits

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"

	"tidegate/internal/limiter"
	"tidegate/internal/route"
)

// a reads a policy in words: "plan NAME: LIMIT; LIMIT", "all: LIMIT", "route NAME COST[
// settle]: PATTERN; PATTERN", one a line. A second line of a plan follows its first.
func a(t testing.TB, lines string) *Policy {
	t.Helper()
	p := &Policy{}
	for line := range strings.Lines(lines) {
		front, list, found := strings.Cut(strings.TrimSpace(line), ": ")
		if !found {
			continue
		}
		parts := strings.Split(list, "; ")
		switch words := strings.Fields(front); words[0] {
		case "plan":
			last := len(p.Plans) - 1
			if last < 0 || p.Plans[last].Name != words[1] {
				p.Plans = append(p.Plans, Plan{ID: words[1], Name: words[1]})
				last++
			}
			p.Plans[last].Limits = append(p.Plans[last].Limits, parsed(t, parts)...)
		case "all":
			p.Limits = append(p.Limits, parsed(t, parts)...)
		default:
			r := Route{ID: "id-" + words[1], Name: words[1]}
			for _, word := range words[2:] {
				if word == "settle" {
					r.Settle = true
				} else if err := json.Unmarshal([]byte(word), &r.Cost); err != nil {
					t.Fatal(err)
				}
			}
			for _, text := range parts {
				pattern, err := route.Parse(text)
				if err != nil {
					t.Fatal(err)
				}
				r.Match = append(r.Match, pattern)
			}
			p.Routes = append(p.Routes, r)
		}
	}
	return p
}

func parsed(t testing.TB, texts []string) []Limit {
	t.Helper()
	var limits []Limit
	for _, text := range texts {
		l, err := Parse(text)
		if err != nil {
			t.Fatal(err)
		}
		limits = append(limits, l)
	}
	return limits
}

// router compiles a policy.
func (p *Policy) router(t testing.TB) *Router {
	t.Helper()
	lists := [][]Limit{p.Limits}
	for _, plan := range p.Plans {
		lists = append(lists, plan.Limits)
	}
	r, err := NewRouter(p.Routes, lists...)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// taken tells what a call of a plan takes: "LIMIT: COST [NAME]" for each limit, with a
// number for the count, the same for calls that count together.
func (p *Policy) taken(t testing.TB, plan, call string, names map[string]int) string {
	t.Helper()
	method, path, _ := strings.Cut(call, " ")
	c, err := p.router(t).Find(route.Call{Method: method, Path: path})
	if err != nil {
		t.Fatalf("%s: %v", call, err)
	}
	i := slices.IndexFunc(p.Plans, func(each Plan) bool { return each.Name == plan })
	var texts []string
	for _, applied := range p.Applied(Caller{Plan: &p.Plans[i], Group: "acme", Address: true}, &c) {
		name := applied.Counted(applied.Count.Name(), limiter.Periods{}).StateKeys()[0]
		if names[name] == 0 {
			names[name] = len(names) + 1
		}
		texts = append(texts, fmt.Sprintf("%s: %d [%d]", applied.Rate(), applied.Cost, names[name]))
	}
	return strings.Join(texts, ", ")
}

// What ten public APIs publish can be said, and each call takes what they say.
func TestPublishedLimits(t *testing.T) {
	for _, c := range []struct{ name, policy, calls string }{
		{"GitHub", `
			plan user: 5,000 per hour, except search; 30 per minute, on search; 80 calls per minute, on writes
			route search: GET /search/*
			route writes: POST /*; PATCH /*; PUT /*; DELETE /*`, `
			user GET /repos = 5,000 per hour: 1 [1]
			user GET /search/code = 30 per minute: 1 [2]
			user PATCH /repos/1 = 5,000 per hour: 1 [1], 80 calls per minute: 1 [3]`},
		{"Stripe", `
			plan live: 100 per second, on reads, except search; 100 per second, on writes
			plan live: 20 per second, on search
			route reads: GET /*
			route writes: POST /*; DELETE /*
			route search: GET /v1/{object}/search`, `
			live GET /v1/charges = 100 per second: 1 [1]
			live POST /v1/charges = 100 per second: 1 [2]
			live GET /v1/charges/search = 20 per second: 1 [3]`},
		{"Slack", `
			plan free: 20 per minute, on tier2, each caller and pattern
			plan free: 1 per minute, on tier1, each caller and pattern
			plan paid: 20 per minute, on tier2, each caller and pattern
			route tier1: POST /admin.users.list
			route tier2: POST /users.list; POST /team.info`, `
			free POST /users.list = 20 per minute: 1 [1]
			free POST /team.info = 20 per minute: 1 [2]
			paid POST /users.list = 20 per minute: 1 [1]
			free POST /admin.users.list = 1 per minute: 1 [3]`},
		{"Discord", `
			plan bot: 50 per second; 5 per 5 seconds, on messages, each caller and {channel}
			route messages: POST /channels/{channel}/messages; PATCH /channels/{channel}/messages/{id}`, `
			bot POST /channels/1/messages = 50 per second: 1 [1], 5 per 5 seconds: 1 [2]
			bot PATCH /channels/1/messages/9 = 50 per second: 1 [1], 5 per 5 seconds: 1 [2]
			bot POST /channels/2/messages = 50 per second: 1 [1], 5 per 5 seconds: 1 [3]`},
		{"Anthropic", `
			plan tier1: 50 calls per minute; 30,000 input per minute; 8,000 output per minute
			route chat {"input":500,"output":800} settle: POST /v1/messages`, `
			tier1 GET /v1/models = 50 calls per minute: 1 [1]
			tier1 POST /v1/messages = 50 calls per minute: 1 [1], 30,000 input per minute: 500 [2], 8,000 output per minute: 800 [3]`},
		{"Figma", `
			plan starter: 6 per calendar month, on tier1; 50 per minute, on tier2
			plan full: 10 per minute, on tier1; 25 per minute, on tier2
			route tier1: GET /v1/files/{key}
			route tier2: GET /v1/me`, `
			starter GET /v1/files/x = 6 per calendar month: 1 [1]
			full GET /v1/files/x = 10 per minute: 1 [2]
			starter GET /v1/me = 50 per minute: 1 [3]
			full GET /v1/me = 25 per minute: 1 [3]`},
		{"Okta and Binance", `
			plan org: 1,200 per minute, on users
			route users: GET /api/v1/users/{id}; GET /api/v1/users
			route depth 50: GET /api/v1/users/depth`, `
			org GET /api/v1/users = 1,200 per minute: 1 [1]
			org GET /api/v1/users/7 = 1,200 per minute: 1 [1]
			org GET /api/v1/users/depth = 1,200 per minute: 50 [1]`},
		{"X", `
			plan app: 450 per 15 minutes, on search
			plan user: 900 per 15 minutes, on search
			route search: GET /2/tweets/search/recent`, `
			app GET /2/tweets/search/recent = 450 per 15 minutes: 1 [1]
			user GET /2/tweets/search/recent = 900 per 15 minutes: 1 [1]`},
		{"Airtable and Jira", `
			plan pro: 100 per minute
			all: 5 per second, on bases, each {base}; 20 per second, on issues, each {issue}
			route bases: /v0/{base}/*
			route issues: POST /rest/issue/{issue}`, `
			pro GET /v0/App1/t = 100 per minute: 1 [1], 5 per second: 1 [2]
			pro GET /v0/app1/u = 100 per minute: 1 [1], 5 per second: 1 [2]
			pro POST /rest/issue/7 = 100 per minute: 1 [1], 20 per second: 1 [3]`},
		{"Shopify and Salesforce", `
			plan shop: 40 per 20 seconds, token bucket; 100,000 per 24 hours, each group
			route health 0: GET /health`, `
			shop GET /products = 40 per 20 seconds: 1 [1], 100,000 per day: 1 [2]
			shop GET /health = 40 per 20 seconds: 0 [1], 100,000 per day: 0 [2]`},
		{"YouTube", `
			plan project: 10,000 per calendar day (America/Los_Angeles)
			route search 100: GET /youtube/v3/search`, `
			project GET /youtube/v3/search = 10,000 per calendar day (America/Los_Angeles): 100 [1]
			project GET /youtube/v3/videos = 10,000 per calendar day (America/Los_Angeles): 1 [1]`},
	} {
		t.Run(c.name, func(t *testing.T) {
			p := a(t, c.policy)
			if errs := p.Errors(); len(errs) > 0 {
				t.Error(errs)
			}
			names := map[string]int{}
			for line := range strings.Lines(c.calls) {
				call, want, found := strings.Cut(strings.TrimSpace(line), " = ")
				if !found {
					continue
				}
				plan, call, _ := strings.Cut(call, " ")
				if got := p.taken(t, plan, call, names); got != want {
					t.Errorf("%s of %s:\n got %s\nwant %s", call, plan, got, want)
				}
			}
		})
	}
}

// A call costs in each unit what the most specific route that names the unit says.
func TestCosts(t *testing.T) {
	p := a(t, `
		plan free: 10 per minute; 1,000 input per minute; 5 calls per minute
		route chat {"input":500}: POST /chat
		route wide {"input":100,"cost":3}: POST /*
		route dear 5: POST /x
		route free 0: GET /free
		route zero {"cost":0}: GET /zero
		route get 2: GET /y
		route head 0: HEAD /y`)
	for call, want := range map[string]string{
		// Each unit is found by itself.
		"POST /chat": "10 per minute: 3 [1], 1,000 input per minute: 500 [2], 5 calls per minute: 1 [3]",
		"POST /x":    "10 per minute: 5 [1], 1,000 input per minute: 100 [2], 5 calls per minute: 1 [3]",
		"POST /z":    "10 per minute: 3 [1], 1,000 input per minute: 100 [2], 5 calls per minute: 1 [3]",
		"GET /free":  "10 per minute: 0 [1], 1,000 input per minute: 0 [2], 5 calls per minute: 1 [3]",
		"GET /zero":  "10 per minute: 0 [1], 5 calls per minute: 1 [3]",
		"GET /other": "10 per minute: 1 [1], 5 calls per minute: 1 [3]",
		// A HEAD call falls under routes of GET too.
		"HEAD /y": "10 per minute: 0 [1], 1,000 input per minute: 0 [2], 5 calls per minute: 1 [3]",
	} {
		names := map[string]int{}
		p.taken(t, "free", "POST /chat", names)
		if got := p.taken(t, "free", call, names); got != want {
			t.Errorf("%s:\n got %s\nwant %s", call, got, want)
		}
	}
	call, err := p.router(t).Find(route.Call{Method: "HEAD", Path: "/y"})
	if err != nil || call.Route != "head" || len(call.Routes) != 2 {
		t.Errorf("HEAD /y: told %s of %d routes, %v, want head of 2", call.Route, len(call.Routes), err)
	}
}

// Counts are named by what limits count, not by numbers, windows, plans and places.
func TestIdentities(t *testing.T) {
	p := a(t, `
		plan free: 5 per second, each {b}, on bases; 10 per minute; 10 per minute, token bucket
		plan free: 20 per minute, each group
		plan pro: 50 per second, each {b}, on bases; 1,000 per hour; 1,000 per minute, token bucket
		plan pro: 50 per minute, each group; 10 per minute, counter
		all: 40 per minute, each caller; 40 per minute, each caller, token bucket
		all: 100 per second, on bases, each {b}; 10 per minute, each caller, counter
		route bases: /v0/{b}`)
	names := map[string]int{}
	free := p.taken(t, "free", "GET /v0/x", names)
	pro := p.taken(t, "pro", "GET /v0/x", names)
	wantFree := "10 per minute: 1 [1], 10 per minute: 1 [2], 40 per minute: 1 [1], 40 per minute: 1 [3], " +
		"10 per minute: 1 [4], 5 per second: 1 [5], 20 per minute: 1 [6], 100 per second: 1 [7]"
	wantPro := "1,000 per hour: 1 [1], 1,000 per minute: 1 [8], 10 per minute: 1 [4], " +
		"40 per minute: 1 [1], 40 per minute: 1 [3], 10 per minute: 1 [4], 50 per second: 1 [9], " +
		"50 per minute: 1 [10], 100 per second: 1 [7]"
	if free != wantFree {
		t.Errorf("free:\n got %s\nwant %s", free, wantFree)
	}
	if pro != wantPro {
		t.Errorf("pro:\n got %s\nwant %s", pro, wantPro)
	}
	renamed := a(t, "plan free: 10 per minute, on bases\nroute bases: /v0/{b}")
	before := p.count(Limit{On: "bases"}, FromPlan, Caller{}).Name()
	renamed.Routes[0].Name = "tables"
	if after := renamed.count(Limit{On: "tables"}, FromPlan, Caller{}).Name(); after != before {
		t.Error("renaming a route began a new count")
	}
}

// An override replaces the limits of each caller with the same unit, on, except and
// parameter; what it replaces goes on counting.
func TestOverrides(t *testing.T) {
	p := a(t, `
		plan free: 10 per minute; 20 per minute, on search; 100 input per minute, on search
		plan free: 5 per minute, each group
		all: 40 per minute, each caller; 30 per minute, on search, each caller and {q}
		route search {"input":10}: GET /find/{q}`)
	for override, want := range map[string]string{
		"50 per minute, on search": "50, 10, (20), 100 input, 40, 30, 5",
		"1,000 per minute":         "1,000, (10), 20, 100 input, (40), 30, 5", // the policy's too
		"1,000 per minute, shadow": "1,000, 10, 20, 100 input, 40, 30, 5",     // lifts nothing
		"no limit, on search":      "10, (20), 100 input, 40, 30, 5",
		"no limit":                 "(10), 20, 100 input, (40), 30, 5",
		"":                         "(10), (20), (100 input), 40, 30, 5", // an empty list lifts the plan's
		"60 per minute, on search, each caller and {q}": "60, 10, 20, 100 input, 40, (30), 5",
	} {
		caller := Caller{Plan: &p.Plans[0], Group: "acme", InForce: true, Source: FromOverride}
		if override != "" {
			l, err := Parse(override)
			if err != nil {
				t.Fatal(err)
			}
			caller.Override = []Limit{l}
			if errs := p.OverrideErrors("limits", caller.Override, nil); len(errs) > 0 {
				t.Errorf("%q: %v", override, errs)
			}
		}
		call, err := p.router(t).Find(route.Call{Method: "GET", Path: "/find/a"})
		if err != nil {
			t.Fatal(err)
		}
		var got []string
		for _, applied := range p.Applied(caller, &call) {
			text, _, _ := strings.Cut(applied.Rate(), " per")
			if applied.CountsOnly {
				text = "(" + text + ")"
			}
			got = append(got, text)
		}
		if text := strings.Join(got, ", "); text != want {
			t.Errorf("%q:\n got %s\nwant %s", override, text, want)
		}
	}
	for override, want := range map[string]string{
		"100 per minute, each group":   "an override has limits of each caller",
		"100 per minute, together":     "an override has limits of each caller",
		"100 per minute, each address": "an override has limits of each caller",
		"no limit, on serach":          "did you mean search?",
		"5 input per minute":           "could never pass",
	} {
		l, err := Parse(override)
		if err != nil {
			t.Fatal(err)
		}
		if got := fmt.Sprint(p.OverrideErrors("limits", []Limit{l}, nil)); !strings.Contains(got, want) {
			t.Errorf("%q: got %s, want %q in it", override, got, want)
		}
	}
}

// A policy that means nothing, or not what it says, is refused at its field.
func TestPolicyErrors(t *testing.T) {
	many := "plan p: 1 per minute"
	for i := range 17 {
		many += fmt.Sprintf("; %d per %d seconds, counter", i+1, i+1)
	}
	for policy, want := range map[string]string{
		"all: 100 per minute": "limits[0].each is missing. For whom? " +
			"Write 100 per minute, each caller; each address; or together",
		"plan p: no limit": "only an override lifts limits",
		"plan p: 1 per minute, on serach\nroute search: GET /s":     "did you mean search?",
		"plan p: 1 per minute, on other\nroute search: GET /s":      "there is no such route",
		"plan p: 1 per minute, except GET /s\nroute search: GET /s": "write except search",
		"plan p: 1 per minute, on GET /s\nroute search: GET /s":     "write on search",
		"plan p: 1 per minute, each {q}": "needs a route " +
			"whose every pattern has {q}",
		"plan p: 1 per minute, on s, each {q}\nroute s: GET /f/{q}; GET /s":   "GET /s of route s has no {q}",
		"plan p: 1 per minute, on GET /f/{q+}, each {q}":                      "has no {q} as one segment",
		"plan p: 1 per minute; 1 per minute":                                  "is there twice",
		"plan p: 1 per minute; 1 per minute, each caller":                     "is there twice",
		"plan p: 9 per day, token bucket; 1 per 24 hours, token bucket":       "second token bucket",
		"plan p: 9 a day, token bucket; 1 per day, each caller, token bucket": "token bucket of",
		"plan p: 4 per minute\nroute x 5: GET /x":                             "could never pass",
		"all: 4 per minute, on y, together\n" +
			"route x 5: GET /y/x\nroute y: GET /y/*": "could never pass",
		"plan p: 1 per minute\nroute GET: GET /x":                        "is a method",
		"plan p: 1 per minute\nroute a 5: GET /{x}\nroute b 6: GET /{y}": "let one say it",
		"plan p: 1 per minute\nroute a: GET /x; GET /X":                  "matches the same calls",
		"plan p: 1 per minute\nroute a: GET /x\nroute a: GET /y":         "names must differ",
		`plan p: 1 per minute` + "\n" + `route a {"calls":2}: GET /x`:    "is always 1",
		`plan p: 1 per minute` + "\n" + `route a {"per":2}: GET /x`:      "is a word of every limit",
		`plan p: 1 per minute` + "\n" + `route a -1: GET /x`:             "must be 0 to",
		many:                                 "must be at most 16",
		"all: 1 per billing month, together": "billing months are of each caller or each group",
		"plan p: 1 per billing month (Asia/Tokyo)":              "has the time zone of the key or the group",
		"all: 1 per minute, each group, denied calls count":     "leave it out",
		"plan p: 1 per minute, on a, except a\nroute a: GET /x": "which the limit is on",
		"plan p: 1 per 10 seconds, notify at 80 %":              "use at least 1 minute",
		"plan p: 1 per minute, notify at 80/50 %":               "ascending",
		"plan p: 1 per 10 seconds, denied calls count, counter": "only the exact algorithm",
	} {
		errs := a(t, policy).Errors()
		if text := fmt.Sprint(errs); !strings.Contains(text, want) {
			t.Errorf("%s:\n got %s\nwant %q in it", policy, text, want)
		}
	}
	for _, policy := range []string{
		"plan p: 4 calls per minute\nroute x 5: GET /x",
		"plan p: 4 per minute, except x\nroute x 5: GET /x",
		"plan p: 4 per minute, on y\nroute x 5: GET /x\nroute y: GET /y",
		"plan a: 5 per minute\nroute a 5: GET /{x}\nroute b {\"input\":6}: GET /{y}",
	} {
		if errs := a(t, policy).Errors(); len(errs) > 0 {
			t.Errorf("%s: %v", policy, errs)
		}
	}
}

// What can be saved and does not do what its author may expect is told.
func TestWarnings(t *testing.T) {
	for policy, want := range map[string]string{
		"plan p: 1 tokens per minute\n" +
			"route c {\"input\":1,\"output\":2}: POST /c": "(they name: input, output)",
		"plan p: 10 per minute; 100 per minute":                      `"100 per minute" never decides`,
		"plan p: 900 per 15 minutes; 450 per 15 minutes, each group": "never decides",
		"plan p: 100 per minute\nall: 50 per minute, each caller":    "never decides",
		"plan p: 10 per second; 700 per minute":                      "never decides",
		"all: 5 per second, on b, each {b}\nroute b: /v/{b}\n" +
			"plan p: 1 per minute, on x\nroute x: /x": "add a limit of each caller",
		"plan p: 5 per second, shadow": "Nothing limits the callers of plan p",
	} {
		if text := fmt.Sprint(a(t, policy).Warnings()); !strings.Contains(text, want) {
			t.Errorf("%s:\n got %s\nwant %q in it", policy, text, want)
		}
	}
	for _, policy := range []string{
		"plan p: 10 per second; 500 per minute",
		"plan p: 100 per minute\nplan q: 10 per minute",
		"plan p: 10 per minute, shadow; 100 per minute",
		"plan p: 10 per minute, on x; 100 per minute\nroute x: GET /x",
		"plan p: 10 per minute, except x; 100 per minute\nroute x: GET /x",
		"plan p: 10 calls per minute; 100 per minute",
		"plan p: 100 per minute\nall: 5 per second, on b, each {b}\nroute b: /v/{b}",
		"plan p: 1,000 per calendar month; 10 per second",
	} {
		if warnings := a(t, policy).Warnings(); len(warnings) > 0 {
			t.Errorf("%s: %v", policy, warnings)
		}
	}
}

// An override is judged beside what it does not replace.
func TestOverrideWarnings(t *testing.T) {
	p := a(t, `
		all: 200 per minute, on orders, each caller; 50 per hour, each address; 9 per second, together
		route orders: GET /orders`)
	for override, want := range map[string]string{
		"200 per minute, on orders":                    "[]",
		"500 per minute, on orders, each caller":       "[]",
		"500 per minute, on orders, shadow":            "never decides", // it replaces nothing
		"10 per minute; 100 per minute":                "never decides",
		"10 per second":                                `"9 per second, together" denies`,
		"no limit, on orders; 400 calls per minute":    "[]",
		"no limit; 3 tokens per minute, on GET /other": "No route's cost names tokens",
	} {
		got := fmt.Sprint(p.OverrideWarnings(parsed(t, strings.Split(override, "; "))))
		if !strings.Contains(got, want) {
			t.Errorf("%s: got %s, want %s", override, got, want)
		}
	}
}

// A cost that could be read in two ways is refused.
func TestCostsRefused(t *testing.T) {
	for _, text := range []string{`null`, `{"":3}`, `{"":3,"cost":7}`, `"5"`, `1.5`, `{"input":null}`} {
		var c Costs
		if err := json.Unmarshal([]byte(text), &c); err == nil {
			t.Errorf("%s is read as %q", text, c)
		}
	}
}

// Scopes have the form that tokens have them in, and each pattern has them from one route.
func TestScopesErrors(t *testing.T) {
	p := a(t, "plan p: 1 per minute\nroute a: GET /{x}\nroute b: GET /{y}")
	p.Routes[0].Scopes = []string{"orders:read", "https://api.example/orders.read"}
	if errs := p.Errors(); len(errs) > 0 {
		t.Errorf("got %v", errs)
	}
	for want, scopes := range map[string][]string{
		"scopes[0] is \"a b\"": {"a b"}, "scopes[1] is \"\"": {"a", ""}, `is "\"a\""`: {`"a"`},
		"has 11 scopes": make([]string, 11), "let one have them": {"admin"},
	} {
		p.Routes[1].Scopes = scopes
		if text := fmt.Sprint(p.Errors()); !strings.Contains(text, want) {
			t.Errorf("%q: got %s, want %s", scopes, text, want)
		}
	}
}
