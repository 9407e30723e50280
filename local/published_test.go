//go:build unix

package main

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"strings"
	"testing"
	"time"

	"tidegate/internal/testing/waiting"
)

// published is what a public API says of its limits, in a policy of ours, and calls with
// what that API answers.
type published struct {
	api    string
	policy string        // its plans are free and pro
	within time.Duration // calls of one attempt; 0 for a minute
	calls  []calls
}

// calls are equal calls one after another. A # in a call stands for a text that no other
// attempt has.
type calls struct {
	plan   string
	call   string // method and path
	times  int
	status int
	// fields are parts of the RateLimit field of the last answer, or of its
	// RateLimit-Policy.
	fields []string
}

var publishedLimits = []published{
	{"GitHub", `
plans:
  - name: free
    limits:
      - 5,000 per hour, except search
      - 30 per minute, on search
      - 80 calls per minute, on writes
      - 100 at once
  - {name: pro, limits: ["15,000 per hour"]}
routes:
  - {name: search, match: [GET /search]}
  - {name: writes, match: ["POST /{proxy+}", "PATCH /{proxy+}"], cost: 5}
`, 0, []calls{
		{"free", "GET /repos", 2, 200, []string{`"5,000 per hour except search";r=4998`}},
		{"free", "POST /issues", 1, 200, []string{`"5,000 per hour except search";r=4993`,
			`"80 calls per minute on writes";r=79`, `"100 at once";r=97`}},
		{"free", "GET /search", 30, 200, []string{`"30 per minute on search";r=0`, `"100 at once";r=67`}},
		{"free", "GET /search", 1, 429, []string{`"30 per minute on search";r=0`, `q=30;w=60`}},
		{"free", "GET /repos", 1, 200, []string{`"5,000 per hour except search";r=4992`}},
	}},
	{"Stripe", `
plans:
  - name: free
    limits:
      - 100 per second, on reads, except search
      - 100 per second, on writes
      - 20 per second, on search
  - {name: pro, limits: ["1,000 per second"]}
routes:
  - {name: reads, match: ["GET /v1/{proxy+}"]}
  - {name: search, match: ["GET /v1/{kind}/search"]}
  - {name: writes, match: ["POST /v1/{proxy+}", "DELETE /v1/{proxy+}"]}
`, 900 * time.Millisecond, []calls{
		{"free", "GET /v1/charges/1", 2, 200, []string{`"100 per second on reads except search";r=98`}},
		{"free", "POST /v1/charges", 1, 200, []string{`"100 per second on writes";r=99`}},
		{"free", "GET /v1/charges/search", 20, 200, []string{`"20 per second on search";r=0`}},
		{"free", "GET /v1/charges/search", 1, 429, []string{`"20 per second on search";r=0`}},
		{"free", "GET /v1/charges/1", 1, 200, []string{`"100 per second on reads except search";r=97`}},
	}},
	{"Slack", `
plans:
  - name: free
    limits:
      - 1 per minute, on tier1, each caller and pattern
      - 20 per minute, on tier2, each caller and pattern
  - {name: pro, limits: ["50 per minute, on tier2, each caller and pattern"]}
routes:
  - {name: tier1, match: [GET /admin.apps]}
  - {name: tier2, match: [GET /users.list, GET /bots.info]}
`, 0, []calls{
		{"free", "GET /users.list", 20, 200, []string{`"20 per minute on tier2 each caller and pattern";r=0`}},
		{"free", "GET /users.list", 1, 429, []string{`q=20;w=60`}},
		{"free", "GET /bots.info", 1, 200, []string{`r=19`}},
		{"free", "GET /admin.apps", 1, 200, nil},
		{"free", "GET /admin.apps", 1, 429, nil},
		{"pro", "GET /users.list", 1, 200, []string{`r=49`}},
	}},
	{"Discord", `
plans:
  - name: free
    limits:
      - 5 per 5 seconds, on messages, each caller and {channel}
      - 50 per second
  - {name: pro, limits: [50 per second]}
routes:
  - {name: messages, match: ["POST /channels/{channel}/messages", "PATCH /channels/{channel}/messages/{id}"]}
`, 4 * time.Second, []calls{
		{"free", "POST /channels/a/messages", 4, 200, nil},
		{"free", "PATCH /channels/A/messages/7", 1, 200, []string{`each caller and {channel}";r=0`}},
		{"free", "POST /channels/a/messages", 1, 429, []string{`q=5;w=5`}},
		{"free", "POST /channels/b/messages", 1, 200, []string{`each caller and {channel}";r=4`}},
		{"pro", "POST /channels/a/messages", 1, 200, nil},
	}},
	{"Anthropic, OpenAI", `
plans:
  - name: free
    limits:
      - 50 calls per minute
      - 30,000 input per minute
      - 8,000 output per minute
      - 10,000 calls per day
  - {name: pro, limits: ["450,000 input per minute"]}
routes:
  - {name: chat, match: [POST /chat], cost: {input: 5000, output: 3000}}
`, 0, []calls{
		{"free", "POST /chat", 2, 200, []string{`"50 calls per minute";r=48`, `"30,000 input per minute";r=20000`,
			`"8,000 output per minute";r=2000`, `"10,000 calls per day";r=9998`}},
		{"free", "POST /chat", 1, 429, []string{`"8,000 output per minute";r=2000`}},
		{"free", "GET /models", 1, 200, []string{`"50 calls per minute";r=47`}},
		{"pro", "POST /chat", 3, 200, []string{`"450,000 input per minute";r=435000`}},
	}},
	{"Figma, Zendesk, Notion", `
plans:
  - {name: free, limits: ["5 per minute, on files", "25 per minute, on comments"]}
  - {name: pro, limits: ["10 per minute, on files", "50 per minute, on comments"]}
routes:
  - {name: files, match: ["GET /files/{id}", "GET /images/{id}"]}
  - {name: comments, match: ["GET /files/{id}/comments"]}
`, 0, []calls{
		{"free", "GET /files/1", 5, 200, nil},
		{"free", "GET /images/1", 1, 429, []string{`"5 per minute on files";r=0`}},
		{"free", "GET /files/1/comments", 1, 200, []string{`"25 per minute on comments";r=24`}},
		{"pro", "GET /files/1", 10, 200, nil},
		{"pro", "GET /files/1", 1, 429, []string{`"10 per minute on files";r=0`}},
	}},
	{"Okta, Binance", `
plans:
  - {name: free, limits: ["600 per minute, on users", "6,000 per minute, except users"]}
  - {name: pro, limits: ["12,000 per minute"]}
routes:
  - {name: users, match: ["GET /users/{id}", "POST /users", "GET /groups/{id}/users"]}
  - {name: depth, match: [GET /depth], cost: 250}
  - {name: order, match: [POST /order]}
`, 0, []calls{
		{"free", "GET /users/1", 1, 200, nil},
		{"free", "POST /users", 1, 200, nil},
		{"free", "GET /groups/1/users", 1, 200, []string{`"600 per minute on users";r=597`}},
		{"free", "GET /depth", 2, 200, []string{`"6,000 per minute except users";r=5500`}},
		{"free", "POST /order", 1, 200, []string{`"6,000 per minute except users";r=5499`}},
	}},
	{"X", `
plans:
  - {name: free, limits: ["450 per 15 minutes, on search"]}
  - {name: pro, limits: ["900 per 15 minutes, on search"]}
routes:
  - {name: search, match: [GET /2/tweets/search/recent]}
`, 0, []calls{
		{"free", "GET /2/tweets/search/recent", 1, 200, []string{`"450 per 15 minutes on search";r=449`}},
		{"pro", "GET /2/tweets/search/recent", 1, 200, []string{`"900 per 15 minutes on search";r=899`}},
	}},
	{"Airtable, Jira, Graph", `
plans:
  - {name: free, limits: ["4 at once, on mail, each caller and {mailbox}", 100 per minute]}
  - {name: pro, limits: [100 per minute]}
limits:
  - 5 per second, on bases, each {base}
  - 20 per second, on issues, each {issue}
routes:
  - {name: bases, match: ["GET /v0/{base}/{table}"]}
  - {name: issues, match: ["PUT /issue/{issue}"]}
  - {name: mail, match: ["GET /users/{mailbox}/messages"], settle: true}
`, 900 * time.Millisecond, []calls{
		{"free", "GET /v0/base#/t", 4, 200, nil},
		{"pro", "GET /v0/base#/u", 1, 200, nil},
		{"free", "GET /v0/base#/t", 1, 429, []string{`"5 per second on bases each {base}";r=0`}},
		{"free", "GET /v0/other#/t", 1, 200, nil},
		{"free", "PUT /issue/T-#", 1, 200, []string{`"20 per second on issues each {issue}";r=19`}},
		{"free", "GET /users/ada/messages", 4, 200, nil},
		{"free", "GET /users/ada/messages", 1, 429, []string{`"4 at once on mail each caller and {mailbox}";r=0`}},
		{"free", "GET /users/bob/messages", 1, 200, nil},
	}},
	{"Shopify, Twilio, Salesforce", `
plans:
  - name: free
    limits: ["40 per 20 seconds, token bucket", 100 at once, "100,000 per 24 hours, each group"]
  - {name: pro, limits: ["80 per 20 seconds, token bucket"]}
`, 0, []calls{
		{"free", "GET /orders", 1, 200, []string{`"40 per 20 seconds";r=39`, `"100 at once";r=99`,
			`"100,000 per day each group";r=`}},
	}},
	{"YouTube, Strava, Trello", `
plans:
  - name: free
    limits: ["10,000 per calendar day (America/Los_Angeles)", "200 per 15 minutes, fixed window"]
  - {name: pro, limits: [300 per 10 seconds]}
limits:
  - 5,000 per 10 seconds, together
routes:
  - {name: insert, match: [POST /videos], cost: 100}
`, 0, []calls{
		{"free", "POST /videos", 2, 200, []string{`"200 per 15 minutes";r=0`,
			`"10,000 per calendar day (America/Los_Angeles)";r=9800`, `"5,000 per 10 seconds together";r=`}},
		{"free", "POST /videos", 1, 429, []string{`"200 per 15 minutes";r=0`}},
	}},
}

// What public APIs publish can be said in a policy, and calls through the gateway are
// answered as these APIs answer.
func TestPublishedLimits(t *testing.T) {
	p, c := start(t, withDashboard(t)...), newCaller(t, 1)
	admin := adminFunction{url: p.url("admin")}
	cookie := cookieOf(admin.login(t, p.url("admin_user"), p.url("admin_password")))
	attempt := 0
	for _, api := range publishedLimits {
		t.Run(api.api, func(t *testing.T) {
			saved := admin.send(t, http.MethodPut, "/api/v1/policy.yaml?reason=published&accept=true",
				api.policy,
				"Content-Type", "application/yaml", "If-Match", "*", "Cookie", cookie)
			if saved.status != http.StatusOK {
				t.Fatalf("%d %s", saved.status, saved.body)
			}
			var problems []string
			waiting.Until(t, "calls in time", func() bool {
				attempt++
				keys := map[string]string{}
				for _, plan := range []string{"free", "pro"} {
					keys[plan] = newKey(t, admin, cookie, plan, attempt)
				}
				began := time.Now()
				problems = api.play(c, p.url("rest"), keys, strconv.Itoa(attempt))
				return api.within == 0 || time.Since(began) < api.within
			})
			for _, problem := range problems {
				t.Error(problem)
			}
		})
	}
}

// newKey creates a key in a group by the API and returns its secret.
func newKey(t *testing.T, admin adminFunction, cookie, plan string, attempt int) string {
	t.Helper()
	made := admin.send(t, http.MethodPost, "/api/v1/keys",
		fmt.Sprintf(`{"name":"%s %d","plan":%q,"group":"customer"}`, plan, attempt, plan),
		"Content-Type", "application/json", "Cookie", cookie)
	var key struct {
		Secret string `json:"secret"`
	}
	if err := json.Unmarshal([]byte(made.body), &key); err != nil || made.status != http.StatusCreated {
		t.Fatalf("%d %s", made.status, made.body)
	}
	return key.Secret
}

// play makes the calls and returns what differs from what is published.
func (api published) play(c caller, url string, keys map[string]string, unique string,
) (problems []string) {
	for _, these := range api.calls {
		method, path, _ := strings.Cut(strings.ReplaceAll(these.call, "#", unique), " ")
		for i := range these.times {
			a := c.call(method, url+path, keys[these.plan])
			if a.status != these.status {
				problems = append(problems, fmt.Sprintf("%s, call %d of %s: %d, want %d: %v", these.plan, i+1,
					these.call, a.status, these.status, a.header))
			}
			said := a.header.Get("RateLimit") + " " + a.header.Get("RateLimit-Policy")
			for _, field := range these.fields {
				if i == these.times-1 && !strings.Contains(said, field) {
					problems = append(problems, fmt.Sprintf("%s, %s: %s, want %s", these.plan, these.call,
						said, field))
				}
			}
		}
	}
	return problems
}

// call makes a call of any method.
func (c caller) call(method, url, key string) answer {
	c.t.Helper()
	r, err := http.NewRequestWithContext(c.t.Context(), method, url, http.NoBody)
	if err != nil {
		c.t.Fatal(err)
	}
	r.Header.Set("X-Api-Key", key)
	response, err := c.client.Do(r)
	if err != nil {
		c.t.Fatal(err)
	}
	defer func() { _ = response.Body.Close() }()
	body, err := io.ReadAll(response.Body)
	if err != nil {
		c.t.Fatal(err)
	}
	return answer{response.StatusCode, response.Header, string(body)}
}
