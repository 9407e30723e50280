package authorizer

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"tidegate/functions/check/identity"
	"tidegate/internal/answer"
	"tidegate/internal/apikey"
	"tidegate/internal/enforce"
	"tidegate/internal/limits"
	"tidegate/internal/policy"
	"tidegate/internal/registry"
	"tidegate/internal/testing/registrytest"
	"tidegate/internal/testing/storetest"
	"tidegate/internal/testing/valkeytest"
)

const (
	methodARN  = "arn:aws:execute-api:us-east-1:123456789012:abcdef123/prod/GET/orders"
	connectARN = "arn:aws:execute-api:us-east-1:123456789012:abcdef123/prod/$connect"
	routeARN   = "arn:aws:execute-api:us-east-1:123456789012:abcdef123/$default/GET/orders"
)

var simple = Answers{Format: Simple, Denial: Deny}

var tester = registry.Edit{By: registry.Actor{Kind: "user", Name: "tester"}}

func onlyKeys() *identity.Resolver {
	r, err := identity.New(identity.Default())
	if err != nil {
		panic(err) // the default is valid
	}
	return r
}

// fixture is a registry in Valkey with an active key, limited to 1 call per 10 seconds,
// and a revoked key.
type fixture struct {
	url     string
	store   *registry.Store
	checker *enforce.Checker
	set     *policy.Set
	key     policy.Key
	active  apikey.Secret
	revoked apikey.Secret
	log     bytes.Buffer
}

func newFixture(t *testing.T, url string) *fixture {
	t.Helper()
	client := storetest.Connect(t, url)
	pepper := apikey.Pepper(strings.Repeat("pepper!!", 4))
	f := &fixture{url: url, store: registrytest.New(t, client, pepper),
		checker: enforce.NewChecker(client, pepper)}
	f.set = registrytest.Save(t, f.store, tester,
		registrytest.Plan("free", registrytest.Limits("1 per 10 seconds")...))
	create := func(name string) (policy.Key, apikey.Secret) {
		k, secret := registrytest.Create(t, f.store, tester,
			policy.NewKey{Name: name, Env: "test", Plan: "free"})
		return k, secret
	}
	f.key, f.active = create("orders team")
	k, revoked := create("old")
	f.revoked = revoked
	if _, err := registrytest.Revoke(t.Context(), f.store, k.ID, tester); err != nil {
		t.Fatal(err)
	}
	return f
}

func (f *fixture) authorizer(answers Answers) *Authorizer {
	return New(f.checker, onlyKeys(), answers, slog.New(slog.NewJSONHandler(&f.log, nil)))
}

// withKey returns events of every kind that contain the credential.
func withKey(credential string) map[string]map[string]any {
	return map[string]map[string]any{
		"REST TOKEN": {"type": "TOKEN", "methodArn": methodARN,
			"authorizationToken": "Bearer " + credential},
		"REST TOKEN bare": {"type": "TOKEN", "methodArn": methodARN, "authorizationToken": credential},
		"REST REQUEST":    restEvent(map[string][]string{"X-Api-Key": {credential}}),
		"REST bearer":     restEvent(map[string][]string{"authorization": {"bearer " + credential}}),
		"REST both headers": restEvent(map[string][]string{"Authorization": {"Bearer " + credential},
			"x-api-key": {credential}}),
		"REST other bearer": restEvent(map[string][]string{
			"Authorization": {"Bearer eyJhbGciOiJub25lIn0.e30."}, "x-api-key": {credential}}),
		"WebSocket": {"type": "REQUEST", "methodArn": connectARN,
			"headers": map[string]string{"X-API-Key": credential}},
		"WebSocket query": {"type": "REQUEST", "methodArn": connectARN,
			"queryStringParameters": map[string]string{"access_token": credential}},
		"HTTP 1.0": {"version": "1.0", "type": "REQUEST", "methodArn": methodARN,
			"headers": map[string]string{"X-API-Key": credential}},
		"HTTP 2.0": {"version": "2.0", "type": "REQUEST", "routeArn": routeARN,
			"headers": map[string]string{"x-api-key": credential}},
	}
}

func restEvent(headers map[string][]string) map[string]any {
	single := map[string]string{}
	for name, values := range headers {
		single[name] = values[len(values)-1]
	}
	return map[string]any{"type": "REQUEST", "methodArn": methodARN, "headers": single,
		"multiValueHeaders": headers,
		"requestContext":    map[string]any{"stage": "prod"}}
}

func invoke(t *testing.T, a *Authorizer, event any) (map[string]any, error) {
	t.Helper()
	raw, err := json.Marshal(event)
	if err != nil {
		t.Fatal(err)
	}
	response, err := a.Invoke(t.Context(), raw)
	if err != nil {
		return nil, err
	}
	var decoded map[string]any
	if err := json.Unmarshal(response, &decoded); err != nil {
		t.Fatal(err)
	}
	return decoded, nil
}

func iamPolicy(principal, effect, resource string, context map[string]any) map[string]any {
	return map[string]any{
		"principalId": principal,
		"policyDocument": map[string]any{
			"Version": "2012-10-17",
			"Statement": []any{map[string]any{"Action": []any{"execute-api:Invoke"}, "Effect": effect,
				"Resource": []any{resource}}},
		},
		"context": context,
	}
}

// Each kind of event gets the answer in its own form: first allowed, then denied with a
// Retry-After.
func TestAnswerToEveryKind(t *testing.T) {
	for name := range withKey("") {
		t.Run(name, func(t *testing.T) {
			f := newFixture(t, valkeytest.Start(t))
			event := withKey(f.active.Reveal())[name]
			allowed := map[string]any{
				"rateLimit": `"1 per 10 seconds";r=0;t=10`, "rateLimitPolicy": `"1 per 10 seconds";q=1;w=10`,
				"denied": false, "limit": 1.0, "remaining": 0.0, "reset": 10.0,
				"keyId": f.key.ID, "keyName": "orders team", "plan": "free",
				"policyVersion": float64(f.set.Version),
				"keyVersion":    float64(f.key.Version),
			}
			denied := map[string]any{
				"retryAfter":       "10",
				"message":          "The limit of 1 per 10 seconds is reached. Retry after 10 seconds.",
				"violatedPolicies": `["1 per 10 seconds"]`, "violatedPolicy": "1 per 10 seconds",
				"wait": "10", "problemType": answer.QuotaExceeded, "reference": "",
			}
			for k, v := range allowed {
				denied[k] = v
			}
			denied["denied"] = true
			wantAllow, wantDeny := iamPolicy(f.key.ID, "Allow", methodARN, allowed),
				iamPolicy(f.key.ID, "Deny", methodARN, denied)
			if strings.HasPrefix(name, "WebSocket") {
				wantAllow, wantDeny = iamPolicy(f.key.ID, "Allow", connectARN, allowed),
					iamPolicy(f.key.ID, "Deny", connectARN, denied)
			}
			if name == "HTTP 2.0" {
				wantAllow = map[string]any{"isAuthorized": true, "context": allowed}
				wantDeny = map[string]any{"isAuthorized": false, "context": denied}
			}
			for _, want := range []map[string]any{wantAllow, wantDeny} {
				got, err := invoke(t, f.authorizer(simple), event)
				if err != nil {
					t.Fatal(err)
				}
				if diff := cmp.Diff(want, got); diff != "" {
					t.Error(diff)
				}
			}
		})
	}
}

func TestHTTP2AnswersWithAPolicyWhenAsked(t *testing.T) {
	f := newFixture(t, valkeytest.Embedded(t))
	got, err := invoke(t, f.authorizer(Answers{Format: IAM, Denial: Deny}),
		withKey(f.active.Reveal())["HTTP 2.0"])
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(iamPolicy(f.key.ID, "Allow", routeARN, got["context"].(map[string]any)),
		got); diff != "" {
		t.Error(diff)
	}
}

// wantRefused returns an error unless got and err are the answer to a bad credential:
// ErrUnauthorized for REST and WebSocket APIs, a deny without limits for HTTP APIs.
func wantRefused(got map[string]any, err error, event map[string]any) error {
	if version, _ := event["version"].(string); version == "" {
		if !errors.Is(err, ErrUnauthorized) || err.Error() != "Unauthorized" {
			return fmt.Errorf("%v, %w; want Unauthorized", got, err)
		}
		return nil
	}
	context := map[string]any{"message": "A valid credential is required."}
	want := iamPolicy("unverified", "Deny", methodARN, context)
	if event["version"] == "2.0" {
		want = map[string]any{"isAuthorized": false, "context": context}
	}
	if diff := cmp.Diff(want, got); err != nil || diff != "" {
		return fmt.Errorf("%w %s", err, diff)
	}
	return nil
}

// Unknown, revoked and malformed keys get the same answer as no key, in every kind of
// event.
func TestBadCredentialsAreUnauthorized(t *testing.T) {
	f := newFixture(t, valkeytest.Start(t))
	unknown, err := apikey.Generate("test")
	if err != nil {
		t.Fatal(err)
	}
	good := f.active.Reveal()
	for _, credential := range []string{unknown.Reveal(), f.revoked.Reveal(), "", "tg_", good + "x",
		good[:len(good)-1],
		good + "," + good, "{" + good + "}", good + "\x00", strings.Repeat("tg_test_", 2000)} {
		for name, event := range withKey(credential) {
			got, err := invoke(t, f.authorizer(simple), event)
			if err := wantRefused(got, err, event); err != nil {
				t.Errorf("%s with %.30q: %v", name, credential, err)
			}
		}
	}
	for name, event := range map[string]map[string]any{
		"no header":  restEvent(map[string][]string{"Accept": {"*/*"}}),
		"two values": restEvent(map[string][]string{"x-api-key": {good, good}}),
		"two spellings": {"version": "2.0", "type": "REQUEST", "routeArn": routeARN,
			"headers": map[string]string{"x-api-key": good, "X-Api-Key": good}},
		"two keys": restEvent(map[string][]string{"x-api-key": {good},
			"authorization": {"Bearer " + unknown.Reveal()}}),
		"key in a URL": {"type": "REQUEST", "methodArn": methodARN,
			"queryStringParameters": map[string]string{"x-api-key": good, "access_token": good}},
		"basic scheme": restEvent(map[string][]string{"authorization": {"Basic " + good}}),
	} {
		got, err := invoke(t, f.authorizer(simple), event)
		if err := wantRefused(got, err, event); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// counting allows every call and counts them.
type counting struct{ calls int }

func (c *counting) Check(context.Context, enforce.Call) (enforce.Result, error) {
	c.calls++
	return enforce.Result{Allowed: true, WouldAllow: true}, nil
}

// A key with a wrong checksum or prefix is refused without calling the Checker, in every
// kind of event.
func TestWrongChecksumIsNotChecked(t *testing.T) {
	secret, err := apikey.Generate("test")
	if err != nil {
		t.Fatal(err)
	}
	good := secret.Reveal()
	last := good[len(good)-1]
	otherKey := good[:len(good)-1] + string('0'+(last-'0'+1)%10)
	store := &counting{}
	a := New(store, onlyKeys(), simple, slog.New(slog.DiscardHandler))
	for _, credential := range []string{otherKey, "sk_" + good[3:], "tg_", ""} {
		for name, event := range withKey(credential) {
			got, err := invoke(t, a, event)
			if err := wantRefused(got, err, event); err != nil || store.calls != 0 {
				t.Errorf("%s with %.12q: %d checks, want 0; %v", name, credential, store.calls, err)
			}
		}
	}
	for name, event := range withKey(good) {
		store.calls = 0
		if _, err := invoke(t, a, event); err != nil || store.calls != 1 {
			t.Errorf("%s with a good key: %d checks, want 1; %v", name, store.calls, err)
		}
	}
}

type allowAll struct{}

func (allowAll) Check(context.Context, enforce.Call) (enforce.Result, error) {
	return enforce.Result{Allowed: true, WouldAllow: true}, nil
}

type broken struct{}

func (broken) Check(context.Context, enforce.Call) (enforce.Result, error) { panic("broken") }

// The sample events of aws-lambda-go have no API key, and most are of other kinds: none
// is allowed, even by a Checker that allows every call.
func TestSampleEventsNeverAllow(t *testing.T) {
	dir, err := exec.CommandContext(t.Context(), "go", "list", "-m", "-f", "{{.Dir}}",
		"github.com/aws/aws-lambda-go").Output()
	if err != nil {
		t.Fatal(err)
	}
	files, err := filepath.Glob(filepath.Join(strings.TrimSpace(string(dir)), "events", "testdata", "*.json"))
	if err != nil || len(files) < 50 {
		t.Fatalf("%d sample events, %v", len(files), err)
	}
	for _, file := range files {
		raw, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		got, err := New(allowAll{}, onlyKeys(), simple,
			slog.New(slog.DiscardHandler)).Invoke(t.Context(), raw)
		if !errors.Is(err, ErrUnauthorized) && !denied(got) {
			t.Errorf("%s: %s, %v; want a refusal", filepath.Base(file), got, err)
		}
	}
}

// denied reports whether a response is a deny in either form.
func denied(response []byte) bool {
	return bytes.Contains(response, []byte(`"isAuthorized":false`)) ||
		bytes.Contains(response, []byte(`"Effect":"Deny"`))
}

func TestMalformedEventsNeverAllow(t *testing.T) {
	secret, err := apikey.Generate("test")
	if err != nil {
		t.Fatal(err)
	}
	key := secret.Reveal()
	for _, raw := range []string{
		``, `{}`, `null`, `[]`, `""`, `7`, `{"type":"REQUEST"}`,
		`{"type":"TOKEN","authorizationToken":"` + key + `"}`,
		`{"type":"REQUEST","headers":{"x-api-key":"` + key + `"}}`,
		`{"type":"REQUEST","version":"2.0","methodArn":"` + methodARN +
			`","headers":{"x-api-key":"` + key + `"}}`,
		`{"type":"REQUEST","version":"3.0","methodArn":"` + methodARN +
			`","headers":{"x-api-key":"` + key + `"}}`,
		`{"type":"REQUEST","methodArn":"` + methodARN + `","headers":{"x-api-key":"` + key +
			`"},"requestContext":{"eventType":"CONNECT"}}`,
		`{"type":"REQUEST","methodArn":"` + connectARN + `","headers":{"x-api-key":"` + key +
			`"},"requestContext":{"eventType":"MESSAGE"}}`,
		`{"type":"REQUEST","methodArn":"arn:aws:execute-api:r:1:a/s","headers":{"x-api-key":"` + key + `"}}`,
		`{"type":"REQUEST","methodArn":"arn:aws:s3:::a/s/GET/x","headers":{"x-api-key":"` + key + `"}}`,
		`{"type":"TOKEN","methodArn":"arn:aws:execute-api:r:1:a/s/$connect","authorizationToken":"` + key +
			`"}`,
		`{"type":"REQUEST","methodArn":"` + methodARN + `","headers":["x-api-key"]}`,
		`{"type":"TOKEN","methodArn":"` + methodARN + `","authorizationToken":["` + key + `"]}`,
	} {
		a := New(allowAll{}, onlyKeys(), simple, slog.New(slog.DiscardHandler))
		if got, err := a.Invoke(t.Context(), []byte(raw)); !errors.Is(err, ErrUnauthorized) {
			t.Errorf("%.80s: %s, %v; want Unauthorized", raw, got, err)
		}
	}
}

func TestPanicIsUnauthorized(t *testing.T) {
	secret, _ := apikey.Generate("test")
	got, err := invoke(t, New(broken{}, onlyKeys(), simple, slog.New(slog.DiscardHandler)),
		withKey(secret.Reveal())["REST REQUEST"])
	if !errors.Is(err, ErrUnauthorized) {
		t.Errorf("%v, %v; want Unauthorized", got, err)
	}
}

// While Valkey is unavailable every call is denied, and none gets a 5xx.
func TestStoreDownDenies(t *testing.T) {
	f := newFixture(t, valkeytest.Embedded(t))
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	raw, _ := json.Marshal(withKey(f.active.Reveal())["HTTP 2.0"])
	response, err := f.authorizer(simple).Invoke(ended, raw)
	if err != nil {
		t.Fatal(err)
	}
	want :=
		`{"isAuthorized":false,"context":{"degraded":true,"message":"The limits cannot be checked right now. Retry after 1 second.",` +
			`"problemType":"https://iana.org/assignments/http-problem-types#temporary-reduced-capacity",` +
			`"reference":"","retryAfter":"1","violatedPolicies":"[]","violatedPolicy":"capacity","wait":"1"}}`
	if string(response) != want {
		t.Errorf("got %s, want %s", response, want)
	}
}

// decided is a Checker with the same result for every call.
type decided enforce.Result

func (d decided) Check(context.Context, enforce.Call) (enforce.Result, error) {
	return enforce.Result(d), nil
}

// The context of a decision without Valkey has degraded = true. The principal of a caller
// that could not be verified is "unverified".
func TestDegradedDecisions(t *testing.T) {
	secret, err := apikey.Generate("test")
	if err != nil {
		t.Fatal(err)
	}
	full := enforce.LimitState{Applied: limits.Applied{Limit: registrytest.Limits("5 per minute")[0],
		Cost: 1},
		Next: 9 * time.Second, RetryAfter: 9 * time.Second}
	for name, c := range map[string]struct {
		checked   enforce.Result
		principal string
		effect    string
		problem   any
		retry     any
	}{
		"open": {enforce.Result{Degraded: true, ID: "id", Allowed: true, WouldAllow: true}, "id",
			"Allow", nil, nil},
		"closed": {enforce.Result{Degraded: true, ID: "id"}, "id", "Deny", answer.ReducedCapacity, "1"},
		"over": {enforce.Result{Degraded: true, ID: "id", Limits: []enforce.LimitState{full}}, "id",
			"Deny", answer.QuotaExceeded, "9"},
		"unregistered": {enforce.Result{Degraded: true}, unverified, "Deny", answer.ReducedCapacity, "1"},
	} {
		t.Run(name, func(t *testing.T) {
			a := New(decided(c.checked), onlyKeys(), simple, slog.New(slog.DiscardHandler))
			got, err := invoke(t, a, withKey(secret.Reveal())["REST REQUEST"])
			if err != nil {
				t.Fatal(err)
			}
			context := got["context"].(map[string]any)
			effect :=
				got["policyDocument"].(map[string]any)["Statement"].([]any)[0].(map[string]any)["Effect"]
			if got["principalId"] != c.principal || effect != c.effect || !context["degraded"].(bool) ||
				context["problemType"] != c.problem || context["retryAfter"] != c.retry {
				t.Errorf("got %v, want %+v", got, c)
			}
		})
	}
}

func TestLongARNsFitAPolicy(t *testing.T) {
	long := methodARN + strings.Repeat("/é", 600)
	got := resource(long)
	if len(got) > maxResourceLen || !strings.HasSuffix(got, "*") ||
		!strings.HasPrefix(long, strings.TrimSuffix(got, "*")) {
		t.Errorf("resource of a %d byte ARN: %d bytes, %s", len(long), len(got), got)
	}
	if resource(methodARN) != methodARN {
		t.Error("a short ARN was changed")
	}
}

// allowOnly is a Checker that allows one secret.
type allowOnly struct{ secret apikey.Secret }

func (o allowOnly) Check(_ context.Context, call enforce.Call) (enforce.Result, error) {
	if call.Secret != o.secret {
		return enforce.Result{}, policy.ErrUnknownKey
	}
	return enforce.Result{Allowed: true, WouldAllow: true}, nil
}

// No input panics, and none without the one good key is allowed.
func FuzzInvoke(f *testing.F) {
	secret, err := apikey.Generate("test")
	if err != nil {
		f.Fatal(err)
	}
	other, err := apikey.Generate("test")
	if err != nil {
		f.Fatal(err)
	}
	for _, credential := range []string{"", "tg_test_0", other.Reveal()} {
		for _, e := range withKey(credential) {
			raw, _ := json.Marshal(e)
			f.Add(raw)
		}
	}
	for _, odd := range badEvents {
		f.Add([]byte(odd))
	}
	a := New(allowOnly{secret}, onlyKeys(), simple, slog.New(slog.DiscardHandler))
	f.Fuzz(func(t *testing.T, raw []byte) {
		if response, err := a.Invoke(t.Context(), raw); !errors.Is(err, ErrUnauthorized) &&
			!denied(response) {
			t.Fatalf("%q: %s, %v; want a refusal", raw, response, err)
		}
	})
}
