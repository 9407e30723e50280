package usage

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/valkey-io/valkey-go"

	"tidegate/internal/cause"
	"tidegate/internal/lua"
	"tidegate/internal/testing/valkeytest"
	"tidegate/internal/usage/denylog"
	"tidegate/internal/usage/routecount"
)

// routesOf reads the routes of a plan in the hour before noon.
func routesOf(t *testing.T, client valkey.Client, plan string) map[routecount.Route]int64 {
	t.Helper()
	routes, err := NewReader(client).Routes(t.Context(), plan, noon.Add(-time.Hour), noon)
	if err != nil {
		t.Fatal(err)
	}
	return routes
}

// callOf returns an allowed call of a route by a registered subject.
func callOf(r routecount.Route, at time.Time) Outcome {
	return Outcome{Subject: "s", Registered: true, Route: r, Time: at}
}

// The calls of a plan by route, from several environments, are those that a map counted.
func TestRoutes(t *testing.T) {
	onEveryServer(t, func(t *testing.T, client valkey.Client) {
		random := rand.New(rand.NewPCG(1, 2))
		plans := []string{"free", "pro", strings.Repeat("é", 100)}
		environments := []*Recorder{recorderAt(noon), recorderAt(noon), recorderAt(noon)}
		want := map[string]map[routecount.Route]int64{"free": {}, "pro": {}, plans[2]: {}}
		for range 3000 {
			r := routecount.Route{Plan: plans[random.IntN(3)], API: "api", Stage: "prod",
				Method: []string{"GET", "PUT"}[random.IntN(2)],
				Path:   fmt.Sprintf("/r/%d/{id}", random.IntN(2))}
			at := noon.Add(-time.Duration(random.Int64N(int64(70 * time.Minute))))
			o := callOf(r, at)
			o.Verdict = Verdict(random.IntN(2)) // allowed or denied
			environments[random.IntN(3)].Record(o)
			if !at.Before(noon.Add(-time.Hour)) {
				want[r.Plan][r]++
			}
			if random.IntN(300) == 0 {
				flush(t, environments[random.IntN(3)], client)
			}
		}
		for _, r := range environments {
			flush(t, r, client)
		}
		for plan, routes := range want {
			if got := routesOf(t, client, plan); !maps.Equal(got, routes) {
				t.Errorf("plan %.9s: got %v, want %v", plan, slices.Collect(maps.Values(got)),
					slices.Collect(maps.Values(routes)))
			}
		}
	})
}

// Calls of refused callers, and calls without a plan, do not count by route.
func TestRoutesOfRefusedCallers(t *testing.T) {
	r := recorderAt(noon)
	for i := range 2 * MaxRoutes {
		o := callOf(routecount.Route{Plan: "free", Path: fmt.Sprint("/", i)}, noon)
		o.Denial = &denylog.Denial{Cause: cause.Unknown}
		r.Record(o)
		r.Record(callOf(routecount.Route{Path: fmt.Sprint("/", i)}, noon))
		r.Record(callOf(routecount.Route{Plan: strings.Repeat("p", routecount.MaxPlan+1)}, noon))
	}
	if n := len(r.pending.routes); n > 0 {
		t.Errorf("got %d pending routes, want none", n)
	}
}

// Calls of routes beyond the bounds of a Recorder, and of Valkey, count under their plan.
func TestRoutesAreBounded(t *testing.T) {
	onEveryServer(t, func(t *testing.T, client valkey.Client) {
		last, calls := noon.Add(-time.Second), int64(0)
		for from := 0; from < routecount.MaxStored+500; from += MaxRoutes - 1 {
			r := recorderAt(noon)
			for i := range MaxRoutes + 10 { // all environments have the first route
				path := fmt.Sprintf("/r/%d", from+i)
				if i == 0 {
					path = "/r/0"
				}
				r.Record(callOf(routecount.Route{Plan: "free", API: "a", Path: path}, last))
				calls++
			}
			for i := range 500 {
				r.Record(callOf(routecount.Route{Plan: fmt.Sprint("plan", i), API: "a"}, last))
			}
			if n := len(r.pending.routes); n != MaxRoutes+maxOtherPlans {
				t.Fatalf("got %d pending routes, want %d", n, MaxRoutes+maxOtherPlans)
			}
			flush(t, r, client)
		}
		got, sum, other := routesOf(t, client, "free"), int64(0), routecount.Route{Plan: "free"}
		for _, n := range got {
			sum += n
		}
		const most = routecount.MaxStored
		if sum != calls || got[other] == 0 || len(got) > most+1 || len(got) < most-100 {
			t.Errorf("got %d calls of %d routes, %d under the plan; want %d calls of about %d routes", sum,
				len(got), got[other], calls, most)
		}
		name := routecount.Name(last.Unix() / 300)
		if ttl, err := client.Do(t.Context(), client.B().Ttl().Key(name).Build()).AsInt64(); err != nil ||
			ttl < 3600+300 || ttl > 5400 {
			t.Errorf("got a time to live of %d s, %v; want 3900 to 5400", ttl, err)
		}
	})
}

// Routes are one command of the first Batches after a pause, and of one Batch every 10 s
// in the long run. They cause no Batch. An environment that is called once a minute
// reports every call.
func TestRoutesAreSentRarely(t *testing.T) {
	client := connect(t, valkeytest.Embedded(t))
	at := clock{now: noon}
	r := NewRecorder(Options{}, at.Now)
	sendsRoutes := func(early bool) bool {
		r.Record(callOf(routecount.Route{Plan: "free", Path: "/"}, at.Now()))
		take := r.Batch
		if early {
			take = r.early
		}
		b := take(at.Now())
		if b == nil {
			t.Fatal("got no batch")
		}
		for _, err := range client.DoMulti(t.Context(), b.Commands(client)...) {
			if err.Error() != nil && !lua.Unknown(err.Error()) {
				t.Fatal(err.Error())
			}
		}
		return len(b.parcels) > 2 // those of the subject and the total, and one more
	}
	sent := 0
	for range 600 {
		at.set(at.Now().Add(time.Second))
		if sendsRoutes(false) {
			sent++
		}
	}
	if sent < 600/10 || sent > 600/10+maxEarly {
		t.Errorf("got routes in %d of 600 batches, want 60 to %d", sent, 60+maxEarly)
	}
	at.set(at.Now().Add(time.Hour))
	for i := range maxEarly {
		if !sendsRoutes(true) {
			t.Errorf("batch %d after a pause has no routes", i)
		}
	}
	at.set(at.Now().Add(time.Hour))
	for minute := range 30 {
		at.set(at.Now().Add(time.Minute))
		if !sendsRoutes(true) || r.pending.routes != nil {
			t.Errorf("minute %d: the batch has no routes", minute)
		}
	}
	r.pending = newPending(0)
	r.pending.countRoute(callOf(routecount.Route{Plan: "free"}, at.Now()))
	if r.Due(at.Now().Add(time.Hour)) || r.early(at.Now().Add(time.Hour)) != nil {
		t.Error("routes alone cause a batch")
	}
}

// Routes that the server surely did not store are sent again, after an unknown script
// too.
func TestRefusedRoutesAreSentAgain(t *testing.T) {
	client := connect(t, valkeytest.Embedded(t))
	r := recorderAt(noon)
	route := routecount.Route{Plan: "free", API: "a", Stage: "prod", Method: "GET", Path: "/orders/{id}"}
	for range 3 {
		r.Record(callOf(route, noon.Add(-time.Minute)))
		b := r.Drain(noon)
		b.Acknowledge(client.DoMulti(t.Context(), b.Commands(client)...)) // the script is unknown
		flush(t, r, client)
		if err := client.Do(t.Context(), client.B().ScriptFlush().Build()).Error(); err != nil {
			t.Fatal(err)
		}
	}
	if got := routesOf(t, client, "free"); !maps.Equal(got, map[routecount.Route]int64{route: 3}) {
		t.Errorf("got %v, want 3 calls of %v", got, route)
	}
}
