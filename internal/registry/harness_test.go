package registry_test

import (
	"errors"
	"fmt"
	"os"
	"strings"
	"testing"
	"tidegate/internal/registry"
	"time"

	"github.com/valkey-io/valkey-go"

	"tidegate/internal/apikey"
	"tidegate/internal/enforce"
	"tidegate/internal/limits"
	"tidegate/internal/policy"
	"tidegate/internal/route"
	"tidegate/internal/store/acl"
	"tidegate/internal/testing/registrytest"
	"tidegate/internal/testing/storetest"
	"tidegate/internal/testing/valkeytest"
)

func TestMain(m *testing.M) { os.Exit(valkeytest.Run(m)) }

var (
	testPepper = apikey.Pepper(strings.Repeat("pepper!!", 4))
	byTest     = registrytest.Edit
)

// world is a Store, with a checker like that of a check function.
type world struct {
	*registry.Store
	checker *enforce.Checker
	checks  valkey.Client // with the rights of the check function
	client  valkey.Client // with all rights
	folder  string        // of the log
}

// open returns a world in which the store has the rights of the admin function, the
// checker those of the check function, and client all.
func open(t testing.TB, url string) *world {
	t.Helper()
	admin := storetest.Connect(t, valkeytest.As(t, url, "admin", acl.Rules(acl.Admin())))
	check := storetest.Connect(t, valkeytest.As(t, url, "check", acl.Rules(acl.Check())))
	w := &world{
		checker: enforce.NewChecker(check, testPepper),
		checks:  check, client: storetest.Connect(t, url), folder: t.TempDir(),
	}
	w.Store = registrytest.Open(t, admin, w.folder, testPepper)
	return w
}

// onSingleServers runs a test on a real Valkey and on the embedded server.
func onSingleServers(t *testing.T, test func(*testing.T, *world)) {
	t.Helper()
	storetest.OnSingleServers(t, func(t *testing.T, url string) { test(t, open(t, url)) })
}

// onEveryServer runs a test on a cluster too.
func onEveryServer(t *testing.T, test func(*testing.T, *world)) {
	t.Helper()
	storetest.OnEveryServer(t, func(t *testing.T, url string) { test(t, open(t, url)) })
}

func perMinute(requests int64) []limits.Limit {
	return []limits.Limit{{Requests: requests, Window: time.Minute}}
}

// save changes the policy set and saves it.
func (w *world) save(t testing.TB, change func(*policy.Set)) *policy.Set {
	t.Helper()
	return registrytest.Save(t, w.Store, byTest, change)
}

// plan saves a plan with this name and these limits.
func (w *world) plan(t testing.TB, name string, list ...limits.Limit) {
	t.Helper()
	w.save(t, registrytest.Plan(name, list...))
}

func (w *world) create(t testing.TB, name, plan string) (policy.Key, apikey.Secret) {
	t.Helper()
	k, secret := registrytest.Create(t, w.Store, byTest, policy.NewKey{Name: name, Env: "test", Plan: plan})
	return k, secret
}

// keys returns the first page of a query.
func (w *world) keys(t testing.TB, q registry.Query) []policy.Key {
	t.Helper()
	return must(w.List(t.Context(), must(w.Set(t.Context())), q)).Keys
}

func call(secret apikey.Secret) enforce.Call {
	return enforce.Call{
		Kind:    policy.APIKey,
		Subject: secret.ID(),
		Secret:  secret,
		Route:   route.Call{API: "api", Stage: "prod", Method: "GET", Path: "/orders"},
	}
}

// check makes a check and fails the test if it returns an error.
func (w *world) check(t testing.TB, c enforce.Call) enforce.Result {
	t.Helper()
	result, err := w.checker.Check(t.Context(), c)
	if err != nil {
		t.Fatal(err)
	}
	return result
}

// expect makes a check for each letter of want: y for allowed, n for denied. It returns
// the last.
func (w *world) expect(t testing.TB, c enforce.Call, want string) enforce.Result {
	t.Helper()
	var last enforce.Result
	got := ""
	for range want {
		last = w.check(t, c)
		got += map[bool]string{true: "y", false: "n"}[last.Allowed]
	}
	if got != want {
		t.Fatalf("got checks %s, want %s; last %s", got, want, describe(last))
	}
	return last
}

func describe(c enforce.Result) string {
	return fmt.Sprintf("%+v", c)
}

// used returns what the key's limits count.
func (w *world) used(t testing.TB, k policy.Key) (used []int64) {
	t.Helper()
	set := must(w.Set(t.Context()))
	for _, l := range must(w.checker.Usage(t.Context(), set, []policy.Key{k}))[0] {
		used = append(used, l.Used())
	}
	return used
}

// route returns a route of all calls of a path.
func routeOf(name, path string, cost int64) limits.Route {
	return limits.Route{Name: name, Match: []route.Pattern{{Path: path}},
		Cost: limits.Costs{Units: map[string]int64{limits.Cost: cost}}}
}

func must[T any](v T, err error) T {
	if err != nil {
		panic(err)
	}
	return v
}

func wantInvalid(t *testing.T, err error, field string) {
	t.Helper()
	var invalid *policy.InvalidError
	if !errors.As(err, &invalid) || len(invalid.Fields) != 1 || invalid.Fields[0].Field != field {
		t.Errorf("%s: got %v, want an InvalidError with only this field", field, err)
	}
}
