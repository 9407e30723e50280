package direct

import (
	"context"
	"encoding/json"
	"errors"
	"maps"
	"net/netip"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/aws/aws-lambda-go/events"

	"tidegate/functions/check/identity"
	"tidegate/internal/apikey"
	"tidegate/internal/enforce"
	"tidegate/internal/limits"
	"tidegate/internal/policy"
	"tidegate/internal/registry"
	"tidegate/internal/route"
	"tidegate/internal/testing/registrytest"
	"tidegate/internal/testing/storetest"
	"tidegate/internal/testing/valkeytest"
)

func TestMain(m *testing.M) { os.Exit(valkeytest.Run(m)) }

var (
	pepper = apikey.Pepper(strings.Repeat("pepper!!", 4))
	byTest = registry.Edit{By: registry.Actor{Kind: "user", Name: "tester"}, Reason: "a test"}
)

// asked is a Checker that counts what it is asked.
type asked struct {
	*enforce.Checker
	calls int
}

func (a *asked) Check(ctx context.Context, call enforce.Call) (enforce.Result, error) {
	a.calls++
	return a.Checker.Check(ctx, call)
}

func (a *asked) Settle(ctx context.Context, text string, actual limits.Costs) (enforce.Settlement,
	error) {
	a.calls++
	return a.Checker.Settle(ctx, text, actual)
}

type fixture struct {
	*Handler
	t       *testing.T
	checker *asked
	store   *registry.Store
	secret  apikey.Secret
	key     policy.Key
}

func newFixture(t *testing.T) *fixture {
	t.Helper()
	client := storetest.Connect(t, valkeytest.Start(t))
	identities, err := identity.New(identity.Config{Sources: []identity.Kind{identity.Key}, Pepper: pepper,
		IPv4Bits: 32, IPv6Bits: 64})
	if err != nil {
		t.Fatal(err)
	}
	f := &fixture{t: t, checker: &asked{Checker: enforce.NewChecker(client, pepper)},
		store: registrytest.New(t, client, pepper)}
	f.Handler = &Handler{Checker: f.checker, Identities: identities}
	parse := func(texts ...string) (all []limits.Limit) {
		for _, text := range texts {
			l, err := limits.Parse(text)
			if err != nil {
				t.Fatal(err)
			}
			all = append(all, l)
		}
		return all
	}
	registrytest.Put(t, f.store, byTest, policy.Set{
		Plans: []policy.Plan{{Name: "pro", Limits: parse("5 per hour", "1,000 input per hour",
			"400 input per hour, each group", "9 calls per hour, on POST /export")}},
		Limits: parse("3 per hour, on GET /by-address, each address"),
		Deny:   []netip.Prefix{netip.MustParsePrefix("198.51.100.0/24")},
		Routes: []limits.Route{{Name: "chat", Match: []route.Pattern{{Method: "POST", Path: "/chat"}},
			Cost: limits.Costs{Units: map[string]int64{limits.Cost: 2}}}},
	})
	f.key, f.secret, err = f.store.Create(t.Context(), policy.NewKey{Name: "one", Env: "test", Plan: "pro"},
		byTest)
	if err != nil {
		t.Fatal(err)
	}
	return f
}

// check makes a direct call of a check.
func (f *fixture) check(members string) Response {
	f.t.Helper()
	if !strings.Contains(members, "address") {
		members += `,"address":"203.0.113.1"`
	}
	body, err := f.Invoke(f.t.Context(), []byte(`{"tidegate":"check",`+members+`}`))
	if err != nil {
		f.t.Fatalf("%s: %v", members, err)
	}
	var r Response
	if err := json.Unmarshal(body, &r); err != nil {
		f.t.Fatal(err)
	}
	return r
}

func (f *fixture) statuses(members string, want ...int) (last Response) {
	f.t.Helper()
	var got []int
	for range want {
		last = f.check(members)
		got = append(got, last.Status)
	}
	if !slices.Equal(got, want) {
		f.t.Errorf("%s: got %v, want %v; the last was %+v", members, got, want, last)
	}
	return last
}

// A direct call gets the decision and the fields of an authorizer, on the same counts.
func TestChecks(t *testing.T) {
	f := newFixture(t)
	last := f.statuses(`"subject":"user-42","plan":"pro","group":"acme","method":"POST","path":"/chat"`, 200,
		200, 429)
	if last.Allowed || last.Headers["Retry-After"] == "" ||
		last.Headers["Content-Type"] != "application/problem+json" ||
		!strings.Contains(last.Headers["RateLimit"], `"5 per hour";r=1`) ||
		!strings.Contains(last.Body, `"violated-policies":["5 per hour"]`) || last.Context["denied"] != any(true) {
		t.Errorf("got %+v", last)
	}
	if first := f.statuses(`"subject":"user-42","plan":"pro","method":"GET","path":"/x"`,
		200); !first.Allowed ||
		!strings.Contains(first.Headers["RateLimit"], `"5 per hour";r=0`) || first.Context["plan"] != "pro" ||
		first.Body != "" {
		t.Errorf("got %+v, want the rest of the same counts", first)
	}
	f.statuses(`"subject":"user-42","issuer":"https://issuer.example","plan":"pro","method":"GET","path":"/x"`, 200)
	f.statuses(`"subject":"user-43","plan":"pro","cost":{"input":1000}`, 200, 429)
	f.statuses(`"apiKey":"`+f.secret.Reveal()+`","cost":5,"method":"GET","path":"/x"`, 200, 429)
	f.statuses(`"subject":"user-44","plan":"pro","method":"GET","path":"/by-address","address":"203.0.113.9"`,
		200, 200, 200, 429)
	f.statuses(`"subject":"user-45","plan":"pro","method":"GET","path":"/by-address","address":"203.0.113.9"`,
		429)
	f.statuses(`"subject":"user-45","plan":"pro","method":"GET","path":"/by-address","address":""`, 403)
	f.statuses(`"subject":"user-46","plan":"pro","group":"acme","cost":{"input":300}`, 200)
	f.statuses(`"subject":"user-47","plan":"pro","group":"acme","cost":{"input":200}`, 429) // the group's 400
}

// A caller that may not call gets 401 or 403, as on an API.
func TestRefusals(t *testing.T) {
	f := newFixture(t)
	unknown, err := apikey.Generate("test")
	if err != nil {
		t.Fatal(err)
	}
	if r := f.statuses(`"apiKey":"`+unknown.Reveal()+`"`, 401); r.Headers["WWW-Authenticate"] == "" ||
		r.Allowed {
		t.Errorf("got %+v", r)
	}
	f.statuses(`"apiKey":"no key at all"`, 401)
	f.statuses(`"subject":"user","plan":"pro","address":"198.51.100.7"`, 403)
	if _, err := registrytest.Update(t.Context(), f.store, f.key.ID, registry.KeyEdit, byTest,
		func(k *policy.Key) { k.Opens = []route.Pattern{{Path: "/open"}} }); err != nil {
		t.Fatal(err)
	}
	f.statuses(`"apiKey":"`+f.secret.Reveal()+`","method":"GET","path":"/closed"`, 403)
	f.statuses(`"apiKey":"`+f.secret.Reveal()+`","method":"GET","path":"/open"`, 200)
}

// A call that asks for it is settled, by unit.
func TestSettles(t *testing.T) {
	f := newFixture(t)
	subject := `"subject":"user-42","plan":"pro"`
	r := f.statuses(subject+`,"cost":{"cost":4,"input":900},"settle":true`, 200)
	text, _ := r.Context["settlement"].(string)
	body, err := f.Invoke(t.Context(), []byte(`{"tidegate":"settle","settlement":"`+text+`","cost":{"cost":1,"input":950}}`))
	if err != nil {
		t.Fatal(err)
	}
	var s Settled
	if err := json.Unmarshal(body, &s); err != nil || s.Partial || s.Owed != 0 ||
		!maps.Equal(s.Reserved, map[string]int64{"cost": 4, "input": 900}) ||
		!maps.Equal(s.Actual, map[string]int64{"cost": 1, "input": 950}) {
		t.Errorf("got %s, %v", body, err)
	}
	f.statuses(subject+`,"cost":{"cost":4,"input":50}`, 200, 429)
	if _, err := f.Invoke(t.Context(), []byte(`{"tidegate":"settle","settlement":"`+text+`","cost":0}`)); !errors.Is(err,
		enforce.ErrSettled) {
		t.Errorf("settled twice: %v", err)
	}
}

// A cost of 0 is 0 in every unit: a settlement gives everything back, a check takes nothing.
func TestNothingInEveryUnit(t *testing.T) {
	f := newFixture(t)
	subject := `"subject":"user-42","plan":"pro"`
	r := f.statuses(subject+`,"cost":{"cost":4,"input":900},"settle":true`, 200)
	text, _ := r.Context["settlement"].(string)
	body, err := f.Invoke(t.Context(), []byte(`{"tidegate":"settle","settlement":"`+text+`","cost":0}`))
	if want := `"actual":{"cost":0,"input":0}`; err != nil || !strings.Contains(string(body), want) {
		t.Errorf("got %s, %v, want %s", body, err, want)
	}
	f.statuses(subject+`,"cost":{"cost":5,"input":1000}`, 200)
	chat := `"subject":"user-43","plan":"pro","method":"POST","path":"/chat"`
	f.statuses(chat+`,"cost":0`, 200, 200, 200, 200)
	f.statuses(chat, 200, 200, 429)
}

// A call with a mistake gets an error that names the member, and takes nothing.
func TestMistakes(t *testing.T) {
	f := newFixture(t)
	for raw, want := range map[string]string{
		`{"tidegate":"check"}`:                                                   "apiKey and subject are missing",
		`{"tidegate":"check","subject":"a","apiKey":"b"}`:                        "both there",
		`{"tidegate":"check","subject":"a","plan":"gone"}`:                       "plan: the plan",
		`{"tidegate":"check","subject":"a"}`:                                     "plan: the call names no plan",
		`{"tidegate":"check","subject":""}`:                                      "subject has 0 bytes",
		`{"tidegate":"check","subject":"a","subject":"b"}`:                       `"subject" is there twice`,
		`{"tidegate":"check","subject":"a","Subject":"b"}`:                       `"Subject" is not a member`,
		`{"tidegate":"check","subject":"a","cost":{"input":1,"input":2}}`:        `"input" is there twice`,
		`{"tidegate":"check","subject":"a","burst":7}`:                           `"burst" is not a member`,
		`{"tidegate":"check","subject":7}`:                                       "subject is a number: must be a string",
		`{"tidegate":"check","subject":"a","cost":-1}`:                           "cost is -1: must be 0 to",
		`{"tidegate":"check","subject":"a","cost":1.5}`:                          "cost is 1.5",
		`{"tidegate":"check","subject":"a","cost":"5"}`:                          `cost is "5"`,
		`{"tidegate":"check","subject":"a","cost":{"calls":5}}`:                  "cost.calls is always 1",
		`{"tidegate":"check","subject":"a","cost":{"a b":5}}`:                    "cost.a b is",
		`{"tidegate":"check","subject":"a","cost":{"input":null}}`:               "cost.input is null",
		`{"tidegate":"check","subject":"a","cost":{"":4,"cost":5}}`:              "unit without a name",
		`{"tidegate":"check","subject":"a","\u017fubject":"b"}`:                  "is not a member",
		`{"tidegate":"check","subject":"a","PLAN":"b"}`:                          `"PLAN" is not a member`,
		`{"tidegate":"check","subject":"a","address":"here"}`:                    "address is not an IP address",
		`{"tidegate":"check","subject":"a","path":"orders"}`:                     "path must begin with /",
		`{"tidegate":"check","subject":"a","path":"/orders"}`:                    "method is missing",
		`{"tidegate":"check","subject":"a","group":"-"}`:                         "group must be",
		`{"tidegate":"check","apiKey":"a","plan":"pro"}`:                         "plan, group and issuer belong to a subject",
		`{"tidegate":"check","subject":"a","settlement":"x"}`:                    "settlement belongs to",
		`{"tidegate":"settle"}`:                                                  "settlement is missing",
		`{"tidegate":"settle","settlement":"tgr_x"}`:                             "cost is missing",
		`{"tidegate":"settle","settlement":"tgr_x","cost":1,"plan":"p"}`:         "settlement and cost alone",
		`{"tidegate":"settle","settlement":"tgr_x","cost":1}`:                    "settlement is not one",
		`{"tidegate":"explain","subject":"a"}`:                                   "must be check or settle",
		`{"tidegate":"check","subject":"a"} {}`:                                  "not one JSON object",
		`{"tidegate":"check","subject":"` + strings.Repeat("a", maxBytes) + `"}`: "must have at most",
	} {
		_, err := f.Invoke(t.Context(), []byte(raw))
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%.80s: got %v, want …%s…", raw, err, want)
		}
	}
	if _, err := f.Invoke(t.Context(), []byte(`{"tidegate":"check","subject":"a","plan":"pro"}`)); err != nil {
		t.Error(err) // without an address that the policy asks for it is refused
	}
	if states, err := f.checker.Usage(t.Context(), f.checker.Set(), []policy.Key{{Kind: policy.Token,
		ID: f.Identities.Token("", "a"), Plan: "pro", Status: policy.Active}}); err != nil ||
		slices.ContainsFunc(states[0], func(l enforce.LimitState) bool { return l.Used() > 0 }) {
		t.Errorf("something was taken: %+v, %v", states, err)
	}
}

// No event of API Gateway is a direct call, whatever members a client adds to it.
func TestEventsOfAPIsAreNoDirectCalls(t *testing.T) {
	f := newFixture(t)
	for _, event := range []any{
		events.APIGatewayCustomAuthorizerRequest{Type: "TOKEN", AuthorizationToken: "t", MethodArn: "arn"},
		events.APIGatewayCustomAuthorizerRequestTypeRequest{Type: "REQUEST", Path: "/x"},
		events.APIGatewayV2CustomAuthorizerV1Request{Version: "1.0"},
		events.APIGatewayV2CustomAuthorizerV2Request{Version: "2.0"},
		events.APIGatewayWebsocketProxyRequest{Path: "/x"}, events.APIGatewayProxyRequest{Path: "/x"},
		events.APIGatewayV2HTTPRequest{Version: "2.0"}, events.ALBTargetGroupRequest{Path: "/x"},
		events.LambdaFunctionURLRequest{Version: "2.0"}, events.AppSyncLambdaAuthorizerRequest{},
	} {
		raw, err := json.Marshal(event)
		if err != nil {
			t.Fatal(err)
		}
		var members map[string]any
		if err := json.Unmarshal(raw, &members); err != nil {
			t.Fatal(err)
		}
		if Is(raw) {
			t.Errorf("%T is a direct call", event)
		}
		maps.Copy(members, map[string]any{"tidegate": "check", "subject": "user-42", "plan": "pro"})
		if raw, err = json.Marshal(members); err != nil {
			t.Fatal(err)
		}
		if answer, err := f.Invoke(t.Context(), raw); err == nil {
			t.Errorf("%T with the members of a direct call: %s", event, answer)
		}
	}
	if f.checker.calls > 0 {
		t.Errorf("%d calls were checked", f.checker.calls)
	}
}
