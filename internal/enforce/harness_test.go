package enforce

import (
	"errors"
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/valkey-io/valkey-go"

	"tidegate/internal/apikey"
	"tidegate/internal/audit"
	"tidegate/internal/limiter"
	"tidegate/internal/policy"
	"tidegate/internal/registry"
	"tidegate/internal/route"
	"tidegate/internal/store/acl"
	"tidegate/internal/testing/registrytest"
	"tidegate/internal/testing/storetest"
	_ "tidegate/internal/testing/tier" // few under the race detector
	"tidegate/internal/testing/valkeytest"
)

func TestMain(m *testing.M) { os.Exit(valkeytest.Run(m)) }

var (
	testPepper = apikey.Pepper(strings.Repeat("pepper!!", 4))
	byTest     = registry.Edit{By: audit.Actor{Kind: "user", Name: "tester"}, Reason: "a test"}
)

// world is a registry and the Checkers under test, all on one Valkey.
type world struct {
	*registry.Store
	checker   *Checker // with the permissions of the check function
	explainer *Checker // with the permissions of the admin function
	client    valkey.Client
	group     string // group of the keys that create makes; empty for none
}

// open returns a world on the server at url. Its Store has the permissions of the admin
// function, its client has all.
func open(t testing.TB, url string) *world {
	t.Helper()
	admin := storetest.Connect(t, valkeytest.As(t, url, "admin", acl.Rules(acl.Admin())))
	check := storetest.Connect(t, valkeytest.As(t, url, "check", acl.Rules(acl.Check())))
	return &world{
		Store: registry.NewStore(admin, testPepper), checker: NewChecker(check, testPepper),
		explainer: NewChecker(admin, testPepper), client: storetest.Connect(t, url),
	}
}

// onSingleServers runs a test on Valkey and on the embedded server.
func onSingleServers(t *testing.T, test func(*testing.T, *world)) {
	t.Helper()
	storetest.OnSingleServers(t, func(t *testing.T, url string) { test(t, open(t, url)) })
}

// onEveryServer runs a test on Valkey, on the embedded server and on a cluster.
func onEveryServer(t *testing.T, test func(*testing.T, *world)) {
	t.Helper()
	storetest.OnEveryServer(t, func(t *testing.T, url string) { test(t, open(t, url)) })
}

func perMinute(requests int64) []limiter.Limit {
	return []limiter.Limit{{Requests: requests, Window: time.Minute}}
}

// save changes and saves the policy set.
func (w *world) save(t testing.TB, change func(*policy.Set)) *policy.Set {
	t.Helper()
	return registrytest.Save(t, w, byTest, change)
}

// plan saves a plan with this name and these limits. It replaces the limits of an
// existing plan.
func (w *world) plan(t testing.TB, name string, limits ...limiter.Limit) {
	t.Helper()
	w.save(t, registrytest.Plan(name, limits...))
}

func (w *world) create(t testing.TB, name, plan string) (policy.Key, apikey.Secret) {
	t.Helper()
	k, secret := registrytest.Create(t, w, byTest,
		policy.NewKey{Name: name, Env: "test", Plan: plan,
			Group: w.group})
	return k, secret
}

func call(secret apikey.Secret) Call {
	return Call{Kind: policy.APIKey, Subject: secret.ID(), Secret: secret,
		Route: route.Call{API: "api", Stage: "prod", Method: "GET", Path: "/orders"}}
}

// check checks a call. It fails the test if there is no decision.
func (w *world) check(t testing.TB, c Call) Result {
	t.Helper()
	result, err := w.checker.Check(t.Context(), c, nil)
	if err != nil {
		t.Fatal(err)
	}
	return result
}

// expect checks a call len(want) times and compares which were allowed, as in "yyn". It
// returns the last result.
func (w *world) expect(t testing.TB, c Call, want string) Result {
	t.Helper()
	var last Result
	got := ""
	for range want {
		last = w.check(t, c)
		got += map[bool]string{true: "y", false: "n"}[last.Allowed]
	}
	if got != want {
		t.Fatalf("allowed %s, want %s; last result %s", got, want, describe(last))
	}
	return last
}

func describe(c Result) string {
	return fmt.Sprintf("%+v", c)
}

func must[T any](v T, err error) T {
	if err != nil {
		panic(err)
	}
	return v
}

// wantInvalid requires an InvalidError about exactly one field.
func wantInvalid(t *testing.T, err error, field string) {
	t.Helper()
	var invalid *policy.InvalidError
	if !errors.As(err, &invalid) || len(invalid.Fields) != 1 || invalid.Fields[0].Field != field {
		t.Errorf("got %v, want an InvalidError about %s alone", err, field)
	}
}
