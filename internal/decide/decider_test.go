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

// connected is a Source whose Checker is always connected.
type connected struct{ *enforce.Checker }

func (a connected) Check(ctx context.Context, call enforce.Call) (enforce.Result, error) {
	return a.Checker.Check(ctx, call, nil)
}

func (a connected) Loaded() *enforce.Checker { return a.Checker }

func (a connected) MustCheck() bool { return false }

var (
	pepper = apikey.Pepper(strings.Repeat("pepper!!", 4))
	byTest = registry.Edit{By: audit.Actor{Kind: "user", Name: "tester"}, Reason: "a test"}
)

// valkeyFixture is a Checker on a server with the plan free and one key of it.
type valkeyFixture struct {
	*enforce.Checker
	client valkey.Client
	store  *registry.Store
	key    policy.Key
	secret apikey.Secret
}

// open saves plan under the name free, with 100 calls per minute, and creates a key of
// it.
func open(t *testing.T, url string, plan policy.Plan) *valkeyFixture {
	t.Helper()
	client := storetest.Connect(t, url)
	v := &valkeyFixture{Checker: enforce.NewChecker(client, pepper), client: client,
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

// One of 256 buckets lost its copy of the plans. Calls with made-up keys of that bucket
// do not open the circuit for callers of other buckets.
func TestUnknownKeysOfALostBucket(t *testing.T) {
	for _, sectors := range []int{1, 16} {
		t.Run(fmt.Sprint(sectors, " sectors"), func(t *testing.T) {
			v := open(t, valkeytest.Start(t), policy.Plan{Degraded: policy.Closed})
			d := NewDecider(connected{v.Checker}, Settings{Pepper: pepper, CallerCache: time.Minute,
				DenyCache: time.Second, Sectors: sectors}, time.Now)
			decide := func(secret apikey.Secret) (enforce.Result, error) {
				result, _, err := d.Decide(t.Context(), callWith(secret))
				return result, err
			}
			if r, err := decide(v.secret); err != nil || !r.Allowed {
				t.Fatalf("before: got %+v, %v, want an allowed call", r, err)
			}
			lost := keyspace.BucketOf(v.secret.ID()) ^ 1
			copyKey := policyset.CopyKey(lost)
			if err := v.client.Do(t.Context(), v.client.B().Del().Key(copyKey).Build()).Error(); err != nil {
				t.Fatal(err)
			}
			for sent := 0; sent < 8; {
				unknown, err := apikey.Generate("test")
				if err != nil {
					t.Fatal(err)
				}
				if keyspace.BucketOf(unknown.ID()) == lost {
					sent++
					_, _ = decide(unknown)
				}
			}
			if r, err := decide(v.secret); err != nil || !r.Allowed || r.Degraded {
				t.Errorf("after: got %+v, %v, want a call allowed by Valkey", r, err)
			}
		})
	}
}

// Without Valkey, the access lists of the key and its plan that were known last apply.
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
		result, err := v.Check(t.Context(), c, nil)
		if err != nil || !result.Allowed {
			t.Fatalf("with Valkey: got %+v, %v, want an allowed call", result, err)
		}
		callers := newCallers(time.Hour, time.Now)
		callers.remember(c, secret, time.Now(), result)
		for path, open := range map[string]bool{"/orders": true, "/health": false, "/admin": false,
			"/else": false} {
			c.Route.Path = path
			match, err := v.RouteMatch(c)
			if err != nil {
				t.Fatal(err)
			}
			result, err := callers.decide(c, secret, v.Set(), match, nil, v.ClosedPlans(c.Route))
			var refusal *policy.RefusedError
			if open && (err != nil || !result.Allowed) ||
				!open && (!errors.As(err, &refusal) || refusal.Cause != cause.Access || !refusal.Verified) {
				t.Errorf("%s: got %+v, %v, want allowed %t or refused for the route", path, result, err, open)
			}
		}
	})
}
