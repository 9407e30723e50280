package crossing

import (
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"math/rand/v2"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"tidegate/internal/enforce"
	"tidegate/internal/limiter"
	"tidegate/internal/policy"
	"tidegate/internal/route"
	"tidegate/internal/store/keyspace"
	"tidegate/internal/telemetry"
)

// Each threshold that the admitted calls reach is reported once, whatever calls at the
// same time. The oracle adds up what was admitted. Where a shared limit denies, what was
// taken elsewhere counts until it is given back, so more may be reported; nothing twice.
func TestOneEventForEachCrossing(t *testing.T) {
	for _, algorithm := range limiter.Algorithms() {
		t.Run(algorithm.String(), func(t *testing.T) { crossTogether(t, algorithm, 80_000, 1) })
		t.Run(algorithm.String()+", denied by all callers' limit", func(t *testing.T) {
			crossTogether(t, algorithm, 800, 50, 80, 100)
		})
	}
}

func crossTogether(t *testing.T, algorithm limiter.Algorithm, global int64, percents ...int) {
	const environments, callers = 8, 64
	w := newWorld(t, func(s *policy.Set) {
		s.Plans = []policy.Plan{{Name: "free", Limits: []limiter.Limit{
			notifying(400, algorithm, 50, 80, 100), {Requests: 1000, Window: time.Hour},
			notifying(900, algorithm, 10)}}}
		s.Global.Limits = []limiter.Limit{notifying(global, algorithm, percents...)}
		s.Routes = []policy.Route{{Name: "dear", Cost: 7, Pattern: route.Pattern{Path: "/dear"},
			PerKey: []limiter.Limit{notifying(350, algorithm, 80)},
			Shared: []limiter.Limit{notifying(5000, algorithm, 1)}}}
	})
	keys := [3]enforce.Call{w.key(t, "free"), w.key(t, "free"), w.key(t, "free")}
	var own, dear [3]atomic.Int64
	var running sync.WaitGroup
	envs := make([]*environment, environments)
	for i := range envs {
		envs[i] = w.environment(t)
	}
	for i := range callers {
		running.Go(func() {
			random := rand.New(rand.NewPCG(uint64(i), 1))
			for range 20 {
				which := random.IntN(len(keys))
				call := keys[which]
				if random.IntN(3) == 0 {
					call.Route.Path = "/dear"
				}
				result := envs[i%environments].call(t, call, false)
				if result.Allowed && result.Rule == "dear" {
					dear[which].Add(7)
				}
				if result.Allowed {
					own[which].Add(result.Cost)
				}
			}
		})
	}
	running.Wait()
	want := map[string]int{}
	expect := func(scope, subject string, used, limit int64, percents ...int) {
		for _, p := range percents {
			if 100*used >= limit*int64(p) {
				want[fmt.Sprint(scope, " ", subject, " ", p)]++
			}
		}
	}
	var all, routed int64
	for i := range keys {
		k := &keys[i]
		n := own[i].Load()
		expect("key", k.Subject, n, 400, 50, 80, 100)
		expect("key", k.Subject, n, 900, 10)
		expect("route", k.Subject, dear[i].Load(), 350, 80)
		all, routed = all+n, routed+dear[i].Load()
	}
	expect("global", policy.GlobalID, all, global, percents...)
	expect("route-all", policy.RouteID("dear"), routed, 5000, 1)
	got := w.lines.events(t)
	if len(want) < 8 {
		t.Fatalf("only %d thresholds were reached", len(want))
	}
	for what, n := range want {
		if got[what] != n {
			t.Errorf("%s: reported %d times, want %d; own %v, all %d", what, got[what], n, &own, all)
		}
	}
	for what, n := range got {
		if n > 1 || want[what] == 0 && global > 800 {
			t.Errorf("%s was reported %d times and reached %d times; all %d", what, n, want[what], all)
		}
	}
	listed, err := w.store().List(t.Context(), Query{Count: MaxPage})
	if err != nil || len(listed.Events) != len(got) {
		t.Errorf("%d listed, %v; want %d", len(listed.Events), err, len(got))
	}
}

// An environment that dies before it reports loses the events of its last call alone.
func TestDyingEnvironments(t *testing.T) {
	w := newWorld(t, func(s *policy.Set) {
		s.Plans = []policy.Plan{{Name: "free", Limits: []limiter.Limit{
			notifying(100, limiter.FixedWindow, 20, 40, 60, 80, 100)}}}
	})
	for range 8 {
		call := w.key(t, "free")
		deaths, lost := 0, 0
		e := w.environment(t)
		for range 110 {
			dies := rand.IntN(20) == 0
			result := e.call(t, call, dies)
			if dies {
				deaths++
				lost += len(result.Crossings)
				e = w.environment(t)
			}
		}
		reported := 0
		for _, p := range []int{20, 40, 60, 80, 100} {
			n := w.lines.events(t)[fmt.Sprint("key ", call.Subject, " ", p)]
			if n > 1 {
				t.Errorf("%d %% reported %d times", p, n)
			}
			reported += n
		}
		if lost > deaths || reported != 5-lost {
			t.Errorf("%d deaths: %d reported, %d lost", deaths, reported, lost)
		}
	}
}

// A use that hovers around a threshold is reported once until the limit resets, in all
// environments together, and again after it.
func TestHoveringIsReportedOnce(t *testing.T) {
	w := newWorld(t, func(*policy.Set) {})
	limit := limiter.Limit{Requests: 100, Window: time.Hour, Notify: limiter.NewThresholds([]int{80})}
	noon := time.Now().UTC()
	x := enforce.Crossing{Usage: limiter.Usage{Limit: limit, Remaining: 20, Reset: time.Hour}, Scope: "key",
		Subject: "acme", Percent: 80}
	report := func(e *environment, at time.Time) {
		x.At = at
		e.log.Note(Call{KeyID: "acme", Registered: true}, []enforce.Crossing{x})
		e.log.Send(t.Context(), e.client)
	}
	envs := []*environment{w.environment(t), w.environment(t)}
	for minute := range 59 {
		report(envs[minute%2], noon.Add(time.Duration(minute)*time.Minute))
	}
	if got := w.lines.events(t)["key acme 80"]; got != 1 {
		t.Errorf("reported %d times within the window", got)
	}
	x.Limit.Requests = 200 // an edit of the limit
	x.Remaining = 40
	report(envs[0], noon)
	if got := w.lines.events(t)["key acme 80"]; got != 2 {
		t.Errorf("reported %d times after an edit", got)
	}
}

// Without Valkey an event is written all the same, once by an environment.
func TestWithoutValkey(t *testing.T) {
	w := newWorld(t, func(*policy.Set) {})
	e := w.environment(t)
	x := enforce.Crossing{Usage: limiter.Usage{Limit: notifying(10, limiter.Log, 100),
		Reset: time.Hour},
		Scope: "key", Subject: "acme", Percent: 100, At: time.Now()}
	for range 3 {
		e.log.Note(Call{KeyID: "acme", Registered: true}, []enforce.Crossing{x})
		e.log.Send(t.Context(), nil)
	}
	if got := w.lines.events(t)["key acme 100"]; got != 1 {
		t.Errorf("reported %d times", got)
	}
}

// A settlement that raises a cost crosses what it takes the use beyond, and so does a
// reservation; one that gives back crosses nothing.
func TestReservationsCross(t *testing.T) {
	w := newWorld(t, func(s *policy.Set) {
		s.Plans = []policy.Plan{{Name: "free", Limits: []limiter.Limit{
			{Requests: 5000, Window: time.Hour}, notifying(1000, limiter.Log, 10, 50, 80)},
			PerGroup: []limiter.Limit{notifying(1000, limiter.Log, 45)}}}
		s.Global.Limits = []limiter.Limit{notifying(2000, limiter.FixedWindow, 4, 10)}
		s.Routes = []policy.Route{{Name: "chat", Cost: 1, Settle: true, SettleMax: 400,
			Pattern: route.Pattern{Path: "/chat"},
			PerKey:  []limiter.Limit{notifying(900, limiter.Counter, 50)}}}
	})
	call := w.key(t, "free")
	e := w.environment(t)
	store := NewStore(w.client, slog.New(telemetry.NewHandler(&w.lines, slog.LevelError)))
	want := map[string]int{}
	crossed := func(step string, what ...string) {
		t.Helper()
		for _, one := range what {
			want[one]++
		}
		if got := w.lines.events(t); !maps.Equal(got, want) {
			t.Errorf("%s: %v, want %v", step, got, want)
		}
	}
	reserve := func(cost int64) string {
		t.Helper()
		result, err := e.checker.Reserve(t.Context(), call.Subject, "chat", cost)
		if err != nil || !result.Allowed {
			t.Fatalf("%+v, %v", result, err)
		}
		store.Report(t.Context(), ResultOf(&result, policy.APIKey), result.Crossings)
		return result.Reservation
	}
	settle := func(reservation string, actual int64) {
		t.Helper()
		s, err := e.checker.Settle(t.Context(), reservation, actual)
		if err != nil || s.Name != "Acme" || s.Plan != "free" || s.Rule != "chat" {
			t.Fatalf("%+v, %v", s, err)
		}
		store.Report(t.Context(), SettlementOf(&s), s.Crossings)
	}
	own := "key " + call.Subject
	first := reserve(99)
	crossed("99 reserved", "global global 4")
	settle(first, 10)
	crossed("10 used")
	second := reserve(99)
	crossed("109 reserved", own+" 10")
	settle(second, 500) // 400 at most on shared limits
	crossed("510 used", own+" 50", "route "+call.Subject+" 50", "global global 10")
	settle(reserve(390), 0)
	crossed("900 reserved and given back", own+" 80", "group "+policy.GroupID("acme")+" 45")
}

// A flood of made-up callers leaves room for registered ones, in the list and in the log.
func TestFloodOfUnregisteredCallers(t *testing.T) {
	w := newWorld(t, func(*policy.Set) {})
	e := w.environment(t)
	x := enforce.Crossing{Usage: limiter.Usage{Limit: notifying(10, limiter.Log, 100), Reset: time.Hour},
		Scope: "key", Percent: 100, At: time.Now()}
	b, sent := keyspace.BucketOf("acme"), 0
	report := func(subject string, registered bool) {
		x.Subject = subject
		e.log.Note(Call{KeyID: subject, Registered: registered}, []enforce.Crossing{x})
		e.log.Send(t.Context(), e.client)
	}
	report("acme", true)
	for i := 0; sent < 200; i++ {
		if id := fmt.Sprint("made-up", i); keyspace.BucketOf(id) == b {
			report(id, false)
			sent++
		}
	}
	report("made-up", true)
	got := w.lines.events(t)
	if len(got) != 1+64+1 || got["key acme 100"] != 1 || got["key made-up 100"] != 1 {
		t.Errorf("%d events", len(got))
	}
	for _, id := range []string{"acme", "made-up"} {
		list, err := w.store().List(t.Context(), Query{Subject: id})
		if err != nil || len(list.Events) != 1 || list.Events[0].Subject != id {
			t.Errorf("%s: %+v, %v", id, list, err)
		}
	}
	for i := range 200 {
		x.Limit.Requests = int64(1000 + i)
		report("acme", true)
	}
	list, err := w.store().List(t.Context(), Query{Count: MaxPage})
	if err != nil || len(list.Events) != 128+1 { // made-up lies elsewhere
		t.Errorf("%d listed, %v", len(list.Events), err)
	}
}

// A caller that crosses thresholds all the time takes no report of another caller
// unavailable.
func TestReportsOfManyCallers(t *testing.T) {
	w := newWorld(t, func(*policy.Set) {})
	e := w.environment(t)
	quiet, loud := "quiet", ""
	for i := 0; loud == ""; i++ {
		if id := fmt.Sprint("loud", i); keyspace.BucketOf(id) == keyspace.BucketOf(quiet) {
			loud = id
		}
	}
	began := time.Now().Add(-time.Hour).Truncate(time.Millisecond)
	report := func(subject string, requests int64) {
		e.log.Note(Call{KeyID: subject, Registered: true}, []enforce.Crossing{{Usage: limiter.Usage{
			Limit: notifying(requests, limiter.Log, 100), Reset: time.Hour}, Scope: policy.ScopeKey,
			Subject: subject, Percent: 100, At: began.Add(time.Duration(requests) * time.Second)}})
		e.log.Send(t.Context(), e.client)
	}
	report(quiet, 1)
	report(quiet, 2)
	for i := range int64(300) {
		report(loud, 3+i)
	}
	for subject, want := range map[string]struct{ reports, oldest int64 }{quiet: {2, 1},
		loud: {126, 3 + 300 - 126}} {
		list, err := w.store().List(t.Context(), Query{Subject: subject, Count: MaxPage})
		if err != nil || int64(len(list.Events)) != want.reports {
			t.Errorf("%d of %s, %v", len(list.Events), subject, err)
			continue
		}
		if oldest := list.Events[want.reports-1]; oldest.Max != want.oldest {
			t.Errorf("the oldest of %s is of %d, want %d", subject, oldest.Max, want.oldest)
		}
	}
}

// Pages of any length together are the whole list, newest first, for all and for one.
func TestPages(t *testing.T) {
	w := newWorld(t, func(*policy.Set) {})
	e := w.environment(t)
	now := time.Now().Truncate(time.Millisecond)
	for i := range 60 {
		x := enforce.Crossing{Usage: limiter.Usage{Limit: notifying(int64(100+i), limiter.Log, 100),
			Reset: time.Hour}, Scope: "key", Subject: fmt.Sprint("caller", i%7), Percent: 100,
			At: now.Add(-time.Duration(i/9) * time.Millisecond)}
		e.log.Note(Call{KeyID: x.Subject, Registered: true}, []enforce.Crossing{x})
	}
	e.log.Send(t.Context(), e.client)
	for _, subject := range []string{"", "caller3"} {
		whole, err := w.store().List(t.Context(), Query{Subject: subject, Count: MaxPage})
		if err != nil || len(whole.Events) != 60 && subject == "" || whole.Next != "" {
			t.Fatalf("%d, %v", len(whole.Events), err)
		}
		for _, count := range []int{1, 4, 9, 25} {
			var all []Event
			q := Query{Subject: subject, Count: count}
			for turn := 0; turn == 0 || q.After != ""; turn++ {
				page, err := w.store().List(t.Context(), q)
				if err != nil || len(page.Events) > count || turn > 60 {
					t.Fatalf("%d of %d, %v", len(page.Events), count, err)
				}
				all, q.After = append(all, page.Events...), page.Next
			}
			if !slices.Equal(all, whole.Events) || !slices.IsSortedFunc(all, func(a, b Event) int {
				return b.Time.Compare(a.Time)
			}) {
				t.Errorf("%q: pages of %d have %d reports, want %d", subject, count, len(all),
					len(whole.Events))
			}
		}
	}
	for _, cursor := range []string{"x", "MQ", "LTEuMQ", "MS45OTk5OTk5"} {
		if _, err := w.store().List(t.Context(), Query{After: cursor}); !errors.Is(err, ErrCursor) {
			t.Errorf("cursor %q: %v", cursor, err)
		}
	}
}
