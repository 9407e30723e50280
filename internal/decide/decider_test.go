package decide

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/valkey-io/valkey-go"

	"tidegate/internal/apikey"
	"tidegate/internal/audit"
	"tidegate/internal/cause"
	"tidegate/internal/enforce"
	"tidegate/internal/limiter"
	"tidegate/internal/policy"
	"tidegate/internal/policyset"
	"tidegate/internal/registry"
	"tidegate/internal/route"
	"tidegate/internal/store/keyspace"
	"tidegate/internal/testing/storetest"
	"tidegate/internal/testing/valkeytest"
)

// asked is a Source whose checker is always connected.
type asked struct{ *enforce.Checker }

func (a asked) Check(ctx context.Context, call enforce.Call) (enforce.Result, error) {
	return a.Checker.Check(ctx, call, nil)
}

func (a asked) Loaded() *enforce.Checker { return a.Checker }

func (a asked) MustAsk() bool { return false }

var (
	pepper = apikey.Pepper(strings.Repeat("pepper!!", 4))
	byTest = registry.Edit{By: audit.Actor{Kind: "user", Name: "tester"}, Reason: "a test"}
)

// onValkey is a Checker on a server whose policy has one plan, free, and a key on it.
type onValkey struct {
	*enforce.Checker
	client valkey.Client
	store  *registry.Store
	key    policy.Key
	secret apikey.Secret
}

func open(t *testing.T, url string, plan policy.Plan) *onValkey {
	t.Helper()
	client := storetest.Connect(t, url)
	v := &onValkey{Checker: enforce.NewChecker(client, pepper), client: client,
		store: registry.NewStore(client, pepper)}
	plan.Name, plan.Limits = "free", []limiter.Limit{perMinute(100)}
	if _, err := v.store.SaveSet(t.Context(), policy.Set{Plans: []policy.Plan{plan}}, byTest); err != nil {
		t.Fatal(err)
	}
	var err error
	v.key, v.secret, err = v.store.Create(t.Context(),
		policy.NewKey{Name: "good", Env: "test", Plan: "free"}, byTest)
	if err != nil {
		t.Fatal(err)
	}
	return v
}

func callWith(secret apikey.Secret) enforce.Call {
	return enforce.Call{Kind: policy.APIKey, Subject: secret.ID(), Secret: secret,
		Route: route.Call{API: "api", Stage: "prod", Method: "GET", Path: "/orders"}}
}

// One of 256 buckets waits to be restored. Keys that anybody can make up, of that bucket,
// take Valkey from no caller of another one.
func TestMadeUpKeysOfALostBucket(t *testing.T) {
	for _, sectors := range []int{1, 16} {
		t.Run(fmt.Sprint(sectors, " sectors"), func(t *testing.T) {
			v := open(t, valkeytest.Start(t), policy.Plan{Degraded: policy.Closed})
			d := NewDecider(asked{v.Checker}, Settings{Pepper: pepper, CallerCache: time.Minute,
				DenyCache: time.Second, Sectors: sectors}, time.Now)
			ask := func(secret apikey.Secret) (enforce.Result, error) {
				result, _, err := d.Decide(t.Context(), callWith(secret))
				return result, err
			}
			if r, err := ask(v.secret); err != nil || !r.Allowed {
				t.Fatalf("before: %+v, %v", r, err)
			}
			lost := keyspace.BucketOf(v.secret.ID()) ^ 1
			copyKey := policyset.CopyKey(lost)
			if err := v.client.Do(t.Context(), v.client.B().Del().Key(copyKey).Build()).Error(); err != nil {
				t.Fatal(err)
			}
			for sent := 0; sent < 8; {
				made, err := apikey.Generate("test")
				if err != nil {
					t.Fatal(err)
				}
				if keyspace.BucketOf(made.ID()) == lost {
					sent++
					_, _ = ask(made)
				}
			}
			if r, err := ask(v.secret); err != nil || !r.Allowed || r.Degraded {
				t.Errorf("after: %+v, %v", r, err)
			}
		})
	}
}

// Without Valkey the lists that were known hold.
func TestAccessWithoutValkey(t *testing.T) {
	storetest.OnSingleServers(t, func(t *testing.T, url string) {
		patterns := func(paths ...string) (all []route.Pattern) {
			for _, path := range paths {
				all = append(all, route.Pattern{Path: path})
			}
			return all
		}
		v := open(t, url, policy.Plan{Degraded: policy.Open, Allow: patterns("/orders", "/health")})
		if _, err := v.store.Update(t.Context(), v.key.ID, v.key.Version, "key.edit", byTest,
			func(k *policy.Key) { k.Allow = patterns("/orders", "/admin") }); err != nil {
			t.Fatal(err)
		}
		c := callWith(v.secret)
		checked, err := v.Check(t.Context(), c, nil)
		if err != nil || !checked.Allowed {
			t.Fatalf("with Valkey: %+v, %v", checked, err)
		}
		callers := newCallers(time.Hour, time.Now)
		callers.remember(c, secret, checked)
		for path, open := range map[string]bool{"/orders": true, "/health": false, "/admin": false,
			"/else": false} {
			c.Route.Path = path
			match, err := v.RouteMatch(c)
			if err != nil {
				t.Fatal(err)
			}
			checked, err := callers.decide(c, secret, v.Set(), match, nil, v.ClosedPlans(c.Route))
			var refusal *policy.RefusedError
			if open && (err != nil || !checked.Allowed) ||
				!open && (!errors.As(err, &refusal) || refusal.Cause != cause.Access || !refusal.Verified) {
				t.Errorf("%s: %+v, %v", path, checked, err)
			}
		}
	})
}
