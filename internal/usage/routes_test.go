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

func called(r routecount.Route, at time.Time) Outcome {
	return Outcome{Subject: "s", Registered: true, Route: r, Time: at}
}

// The calls of a plan by route, of several environments, are those of a plain list.
func TestRoutes(t *testing.T) {
	each(t, func(t *testing.T, client valkey.Client) {
		random := rand.New(rand.NewPCG(1, 2))
		plans := []string{"free", "pro", strings.Repeat("é", 100)}
		environments := []*Recorder{recorderAt(noon), recorderAt(noon), recorderAt(noon)}
		want := map[string]map[routecount.Route]int64{"free": {}, "pro": {}, plans[2]: {}}
		for range 3000 {
			r := routecount.Route{Plan: plans[random.IntN(3)], API: "api", Stage: "prod",
				Method: []string{"GET", "PUT"}[random.IntN(2)],
				Path:   fmt.Sprintf("/r/%d/{id}", random.IntN(2))}
			at := noon.Add(-time.Duration(random.Int64N(int64(70 * time.Minute))))
			o := called(r, at)
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
				t.Errorf("plan %.9s: %v, want %v", plan, slices.Collect(maps.Values(got)),
					slices.Collect(maps.Values(routes)))
			}
		}
	})
}

// Callers that may not call, and callers without a plan, take no room.
func TestRoutesOfRefusedCallers(t *testing.T) {
	r := recorderAt(noon)
	for i := range 2 * MaxRoutes {
		o := called(routecount.Route{Plan: "free", Path: fmt.Sprint("/", i)}, noon)
		o.Denial = &denylog.Denial{Cause: cause.Unknown}
		r.Record(o)
		r.Record(called(routecount.Route{Path: fmt.Sprint("/", i)}, noon))
		r.Record(called(routecount.Route{Plan: strings.Repeat("p", routecount.MaxPlan+1)}, noon))
	}
	if n := len(r.pending.routes); n > 0 {
		t.Errorf("%d routes wait", n)
	}
}

// Beyond the bounds calls count under their plan: in a Recorder, and in the store.
func TestRoutesAreBounded(t *testing.T) {
	each(t, func(t *testing.T, client valkey.Client) {
		last, calls := noon.Add(-time.Second), int64(0)
		for from := 0; from < routecount.MaxStored+500; from += MaxRoutes - 1 {
			r := recorderAt(noon)
			for i := range MaxRoutes + 10 { // the first route is that of every environment
				path := fmt.Sprintf("/r/%d", from+i)
				if i == 0 {
					path = "/r/0"
				}
				r.Record(called(routecount.Route{Plan: "free", API: "a", Path: path}, last))
				calls++
			}
			for i := range 500 {
				r.Record(called(routecount.Route{Plan: fmt.Sprint("plan", i), API: "a"}, last))
			}
			if n := len(r.pending.routes); n != MaxRoutes+maxOtherPlans {
				t.Fatalf("%d routes wait", n)
			}
			flush(t, r, client)
		}
		got, sum, other := routesOf(t, client, "free"), int64(0), routecount.Route{Plan: "free"}
		for _, n := range got {
			sum += n
		}
		const most = routecount.MaxStored
		if sum != calls || got[other] == 0 || len(got) > most+1 || len(got) < most-100 {
			t.Errorf("%d calls of %d, %d routes, %d calls of others", sum, calls, len(got), got[other])
		}
		name := routecount.Name(last.Unix() / 300)
		if left, err := client.Do(t.Context(), client.B().Ttl().Key(name).Build()).AsInt64(); err != nil ||
			left < 3600+300 || left > 5400 {
			t.Errorf("the period goes in %d s, %v", left, err)
		}
	})
}

// Routes cost one command of a Batch, soon after a pause and every 10 s in the long run.
// They make nothing leave, and an environment that is called once a minute reports every
// call.
func TestRoutesLeaveRarely(t *testing.T) {
	client := connect(t, valkeytest.Embedded(t))
	at := clock{now: noon}
	r := NewRecorder(Options{}, at.Now)
	carried := func(early bool) bool {
		r.Record(called(routecount.Route{Plan: "free", Path: "/"}, at.Now()))
		take := r.Batch
		if early {
			take = r.early
		}
		b := take(at.Now())
		if b == nil {
			t.Fatal("nothing leaves")
		}
		for _, err := range client.DoMulti(t.Context(), b.Commands(client)...) {
			if err.Error() != nil && !lua.Unknown(err.Error()) {
				t.Fatal(err.Error())
			}
		}
		return len(b.parcels) > 2 // the subject's and the total's
	}
	sent := 0
	for range 600 {
		at.set(at.Now().Add(time.Second))
		if carried(false) {
			sent++
		}
	}
	if sent < 600/10 || sent > 600/10+maxEarly {
		t.Errorf("routes left with %d of 600 Batches", sent)
	}
	at.set(at.Now().Add(time.Hour))
	for i := range maxEarly {
		if !carried(true) {
			t.Errorf("after a pause routes did not leave with Batch %d", i)
		}
	}
	at.set(at.Now().Add(time.Hour))
	for minute := range 30 {
		at.set(at.Now().Add(time.Minute))
		if !carried(true) || r.pending.routes != nil {
			t.Errorf("minute %d is not reported", minute)
		}
	}
	r.pending = newPending(0)
	r.pending.countRoute(called(routecount.Route{Plan: "free"}, at.Now()))
	if r.Due(at.Now().Add(time.Hour)) || r.early(at.Now().Add(time.Hour)) != nil {
		t.Error("routes alone make a Batch leave")
	}
}

// Routes that were surely not stored leave again: with the script's text, and after a
// server that refused them.
func TestRoutesComeBack(t *testing.T) {
	client := connect(t, valkeytest.Embedded(t))
	r := recorderAt(noon)
	route := routecount.Route{Plan: "free", API: "a", Stage: "prod", Method: "GET", Path: "/orders/{id}"}
	for range 3 {
		r.Record(called(route, noon.Add(-time.Minute)))
		b := r.Drain(noon)
		b.Acknowledge(client.DoMulti(t.Context(), b.Commands(client)...)) // knows no script
		flush(t, r, client)
		if err := client.Do(t.Context(), client.B().ScriptFlush().Build()).Error(); err != nil {
			t.Fatal(err)
		}
	}
	if got := routesOf(t, client, "free"); !maps.Equal(got, map[routecount.Route]int64{route: 3}) {
		t.Errorf("%v", got)
	}
}
