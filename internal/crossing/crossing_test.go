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
	"tidegate/internal/limits"
	"tidegate/internal/policy"
	"tidegate/internal/route"
	"tidegate/internal/store/keyspace"
	"tidegate/internal/telemetry"
)

// Each threshold that admitted calls reach is reported once, also under concurrency. The
// oracle adds up the admitted costs. If a shared limit denies a call, the costs taken
// from other limits count until they are given back. Thresholds may then be reported that
// the admitted calls did not reach, but none twice. With -short it has one algorithm.
func TestOneEventForEachCrossing(t *testing.T) {
	for _, algorithm := range limiter.Algorithms() {
		if testing.Short() && algorithm != limiter.Log {
			continue
		}
		t.Run(algorithm.String(), func(t *testing.T) { crossConcurrently(t, algorithm, 80_000, 1) })
		t.Run(algorithm.String()+", denied by the global limit", func(t *testing.T) {
			crossConcurrently(t, algorithm, 800, 50, 80, 100)
		})
	}
}

func crossConcurrently(t *testing.T, algorithm limiter.Algorithm, global int64, percents ...int) {
	const environments, callers = 8, 64
	third := notifying(900, algorithm, 10)
	third.Window -= 24 * time.Hour // a plan has one token bucket of a window
	w := newWorld(t, func(s *policy.Set) {
		s.Plans = []policy.Plan{{Name: "free", Limits: []limits.Limit{
			notifying(400, algorithm, 50, 80, 100), {Requests: 1000, Window: time.Hour},
			third}}}
		s.Limits = []limits.Limit{of(notifying(global, algorithm, percents...), limits.Together, ""),
			of(notifying(350, algorithm, 80), limits.EachCaller, "expensive"),
			of(notifying(5000, algorithm, 1), limits.Together, "expensive")}
		s.Routes = []limits.Route{chat("expensive", "/expensive", 7)}
	})
	keys := [3]enforce.Call{w.key(t, "free"), w.key(t, "free"), w.key(t, "free")}
	var own, routed [3]atomic.Int64
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
					call.Route.Path = "/expensive"
				}
				result := envs[i%environments].call(t, call, false)
				if result.Allowed && result.Route == "expensive" {
					routed[which].Add(7)
				}
				if result.Allowed {
					own[which].Add(result.Cost)
				}
			}
		})
	}
	running.Wait()
	want := map[string]int{}
	expect := func(who string, used, limit int64, percents ...int) {
		for _, p := range percents {
			if 100*used >= limit*int64(p) {
				want[fmt.Sprint(who, " ", p)]++
			}
		}
	}
	var all, onRoute int64
	for i := range keys {
		k := &keys[i]
		n := own[i].Load()
		expect("each caller "+k.Subject, n, 400, 50, 80, 100)
		expect("each caller "+k.Subject, n, 900, 10)
		expect("each caller on expensive "+k.Subject, routed[i].Load(), 350, 80)
		all, onRoute = all+n, onRoute+routed[i].Load()
	}
	expect("together", all, global, percents...)
	expect("together on expensive", onRoute, 5000, 1)
	got := w.lines.events(t)
	if len(want) < 8 {
		t.Fatalf("got %d reached thresholds, want at least 8 for a useful test", len(want))
	}
	for threshold, n := range want {
		if got[threshold] != n {
			t.Errorf("%s: got %d reports, want %d; own costs %v, all %d", threshold, got[threshold], n,
				&own, all)
		}
	}
	for threshold, n := range got {
		if n > 1 || want[threshold] == 0 && global > 800 {
			t.Errorf("%s: got %d reports, want %d; all costs %d", threshold, n, want[threshold], all)
		}
	}
	listed, err := w.store().List(t.Context(), Query{Count: MaxPage})
	if err != nil || len(listed.Events) != len(got) {
		t.Errorf("got %d listed reports, %v; want %d", len(listed.Events), err, len(got))
	}
}

// An environment that dies before it reports loses only the events of its last call.
func TestDyingEnvironments(t *testing.T) {
	w := newWorld(t, func(s *policy.Set) {
		s.Plans = []policy.Plan{{Name: "free", Limits: []limits.Limit{
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
			n := w.lines.events(t)[fmt.Sprint("each caller ", call.Subject, " ", p)]
			if n > 1 {
				t.Errorf("%d %%: got %d reports, want at most 1", p, n)
			}
			reported += n
		}
		if lost > deaths || reported != 5-lost {
			t.Errorf("%d deaths: got %d reports and %d lost events, want 5 in all", deaths, reported, lost)
		}
	}
}

// A use that hovers around a threshold is reported once until the limit resets, by all
// environments together. After an edit of the limit it is reported again.
func TestHoveringIsReportedOnce(t *testing.T) {
	w := newWorld(t, func(*policy.Set) {})
	limit := limits.Limit{Requests: 100, Window: time.Hour, Notify: []int{80}}
	noon := time.Now().UTC()
	x := enforce.Crossing{Limit: limit, Used: 80, Reset: time.Hour, Subject: "acme", Percent: 80}
	report := func(e *environment, at time.Time) {
		x.At = at
		e.log.Note(Call{KeyID: "acme", Kind: policy.APIKey}, []enforce.Crossing{x})
		e.log.Send(t.Context(), e.client)
	}
	envs := []*environment{w.environment(t), w.environment(t)}
	for minute := range 59 {
		report(envs[minute%2], noon.Add(time.Duration(minute)*time.Minute))
	}
	if got := w.lines.events(t)["each caller acme 80"]; got != 1 {
		t.Errorf("got %d reports within the window, want 1", got)
	}
	x.Limit.Requests = 200 // an edit of the limit
	x.Used = 160
	report(envs[0], noon)
	if got := w.lines.events(t)["each caller acme 80"]; got != 2 {
		t.Errorf("got %d reports after an edit, want 2", got)
	}
}

// Without Valkey, each environment writes the line of an event once.
func TestWithoutValkey(t *testing.T) {
	w := newWorld(t, func(*policy.Set) {})
	e := w.environment(t)
	x := enforce.Crossing{Limit: notifying(10, limiter.Log, 100), Used: 10, Reset: time.Hour, Subject: "acme",
		Percent: 100, At: time.Now()}
	for range 3 {
		e.log.Note(Call{KeyID: "acme", Kind: policy.APIKey}, []enforce.Crossing{x})
		e.log.Send(t.Context(), nil)
	}
	if got := w.lines.events(t)["each caller acme 100"]; got != 1 {
		t.Errorf("got %d reports, want 1", got)
	}
}

// Calls, and settlements that raise a cost, cross thresholds: a settlement those of the
// caller and, up to ten times the estimate, of its group. One that gives back crosses none.
func TestSettlementsCross(t *testing.T) {
	w := newWorld(t, func(s *policy.Set) {
		s.Plans = []policy.Plan{{Name: "free", Limits: []limits.Limit{
			{Requests: 5000, Window: time.Hour}, notifying(1000, limiter.Log, 10, 50, 80),
			of(notifying(1000, limiter.Log, 45), limits.EachGroup, ""),
			of(notifying(900, limiter.Counter, 50), limits.EachCaller, "chat")}}}
		s.Limits = []limits.Limit{of(notifying(2000, limiter.FixedWindow, 4, 10), limits.Together, "")}
		s.Routes = []limits.Route{chat("chat", "/chat", 40)}
	})
	call := w.key(t, "free")
	call.Route.Path = "/chat"
	e := w.environment(t)
	store := NewStore(w.client, slog.New(telemetry.NewHandler(&w.lines, slog.LevelError)))
	want := map[string]int{}
	step := func(actual int64, thresholds ...string) {
		t.Helper()
		result := e.call(t, call, false)
		cost := limits.Costs{Units: map[string]int64{limits.Cost: actual}}
		s, err := e.checker.Settle(t.Context(), result.Settlement, cost)
		if err != nil || s.Name != "Acme" || s.Plan != "free" || s.Route != "chat" {
			t.Fatalf("settle %d: got %+v, %v; want Acme, free, chat", actual, s, err)
		}
		store.Report(t.Context(), SettlementOf(&s), s.Crossings)
		for _, threshold := range thresholds {
			want[threshold]++
		}
		if got := w.lines.events(t); !maps.Equal(got, want) {
			t.Errorf("%d: got %v, want %v", actual, got, want)
		}
	}
	own, group := "each caller "+call.Subject, "each group "+policy.GroupID("acme")
	step(10)
	step(500, own+" 10", own+" 50", "each caller on chat "+call.Subject+" 50", "together 4")
	step(10, group+" 45")
	step(300, own+" 80")
}

// After a reset of a key its thresholds are reported again, also by an environment that
// remembers the reports before.
func TestResetsReportAgain(t *testing.T) {
	w := newWorld(t, func(s *policy.Set) {
		s.Plans = []policy.Plan{{Name: "free",
			Limits: []limits.Limit{notifying(10, limiter.FixedWindow, 50),
				of(notifying(10, limiter.FixedWindow, 50), limits.EachCaller, "orders")}}}
		s.Routes = []limits.Route{{Name: "orders", Match: []route.Pattern{{Path: "/orders"}}}}
	})
	call, e := w.key(t, "free"), w.environment(t)
	for want := 1; want <= 2; want++ {
		for range 10 {
			e.call(t, call, false)
		}
		for _, who := range []string{"each caller ", "each caller on orders "} {
			if got := w.lines.events(t)[who+call.Subject+" 50"]; got != want {
				t.Errorf("after %d resets: got %d reports of %s, want %d", want-1, got, who, want)
			}
		}
		if _, err := w.Reset(t.Context(), call.Subject, byTest); err != nil {
			t.Fatal(err)
		}
	}
}

// A flood of unregistered callers leaves room for registered callers, in the list and in
// the log.
func TestFloodOfUnregisteredCallers(t *testing.T) {
	w := newWorld(t, func(*policy.Set) {})
	e := w.environment(t)
	x := enforce.Crossing{Limit: notifying(10, limiter.Log, 100), Used: 10, Reset: time.Hour,
		Percent: 100, At: time.Now()}
	b, sent := keyspace.BucketOf("acme"), 0
	report := func(subject string, kind policy.Kind) {
		x.Subject = subject
		e.log.Note(Call{KeyID: subject, Kind: kind}, []enforce.Crossing{x})
		e.log.Send(t.Context(), e.client)
	}
	report("acme", policy.APIKey)
	for i := 0; sent < 200; i++ {
		if id := fmt.Sprint("made-up", i); keyspace.BucketOf(id) == b {
			report(id, policy.Address)
			sent++
		}
	}
	report("made-up", policy.APIKey)
	token := ""
	for i := 0; token == ""; i++ {
		if id := fmt.Sprint("token", i); keyspace.BucketOf(id) == b {
			token = id
		}
	}
	report(token, policy.Token)
	got := w.lines.events(t)
	if len(got) != 1+32+1+1 || got["each caller acme 100"] != 1 || got["each caller made-up 100"] != 1 {
		t.Errorf("got %d events, want 32 of addresses, 1 of a token and 2 of API keys", len(got))
	}
	for _, id := range []string{"acme", "made-up", token} {
		list, err := w.store().List(t.Context(), Query{Subject: id})
		if err != nil || len(list.Events) != 1 || list.Events[0].Subject != id {
			t.Errorf("%s: got %+v, %v; want one report", id, list, err)
		}
		if list.Dropped != 200-32 && id == token {
			t.Errorf("got %d dropped reports, want %d", list.Dropped, 200-32)
		}
	}
	for i := range 200 {
		x.Limit.Requests, x.Used = int64(1000+i), int64(1000+i)
		report("acme", policy.APIKey)
	}
	list, err := w.store().List(t.Context(), Query{Count: MaxPage})
	if err != nil || len(list.Events) != 128+1 { // made-up is in another bucket
		t.Errorf("got %d reports, %v; want 129", len(list.Events), err)
	}
}

// A settlement reports an address as a check does: within the bounds of such callers.
func TestSettlementOfAnAddress(t *testing.T) {
	w := newWorld(t, func(s *policy.Set) {
		s.AddressPlan = "free"
		s.Plans = []policy.Plan{{Name: "free", Limits: []limits.Limit{notifying(1000, limiter.Log, 50)}}}
		s.Routes = []limits.Route{chat("chat", "/chat", 1)}
	})
	call := enforce.Call{Kind: policy.Address, Subject: "BAAAAAAAAAAAAAAAAAAAAA",
		Route: route.Call{Method: "POST", Path: "/chat"}}
	e := w.environment(t)
	result := e.call(t, call, false)
	cost := limits.Costs{Units: map[string]int64{limits.Cost: 600}}
	s, err := e.checker.Settle(t.Context(), result.Settlement, cost)
	if err != nil || len(s.Crossings) != 1 {
		t.Fatalf("got %+v, %v; want one threshold crossed", s, err)
	}
	if got := SettlementOf(&s).class(limits.EachCaller); got != "u" {
		t.Errorf("got class %s, want u", got)
	}
}

// A full bucket removes reports of the caller with the most, never those of others.
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
		e.log.Note(Call{KeyID: subject, Kind: policy.APIKey}, []enforce.Crossing{{
			Limit: notifying(requests, limiter.Log, 100), Used: requests, Reset: time.Hour, Subject: subject,
			Percent: 100, At: began.Add(time.Duration(requests) * time.Second)}})
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
			t.Errorf("%s: got %d reports, %v; want %d", subject, len(list.Events), err, want.reports)
			continue
		}
		if oldest := list.Events[want.reports-1]; oldest.Max != want.oldest {
			t.Errorf("%s: got limit %d in the oldest report, want %d", subject, oldest.Max, want.oldest)
		}
	}
}

// Pages of any length add up to the whole list, newest first, for all subjects and for
// one.
func TestPages(t *testing.T) {
	w := newWorld(t, func(*policy.Set) {})
	e := w.environment(t)
	now := time.Now().Truncate(time.Millisecond)
	for i := range 60 {
		x := enforce.Crossing{Limit: notifying(int64(100+i), limiter.Log, 100), Used: int64(100 + i),
			Reset: time.Hour, Subject: fmt.Sprint("caller", i%7), Percent: 100,
			At: now.Add(-time.Duration(i/9) * time.Millisecond)}
		e.log.Note(Call{KeyID: x.Subject, Kind: policy.APIKey}, []enforce.Crossing{x})
	}
	e.log.Send(t.Context(), e.client)
	junk := e.client.B().Zadd().Key(listName(keyspace.BucketOf("caller3"))).ScoreMember().
		ScoreMember(float64(now.UnixMilli()), "junk").Build()
	if err := e.client.Do(t.Context(), junk).Error(); err != nil {
		t.Fatal(err)
	}
	for _, subject := range []string{"", "caller3"} {
		whole, err := w.store().List(t.Context(), Query{Subject: subject, Count: MaxPage})
		if whole.Unreadable != 1 {
			t.Errorf("%q: got %d unreadable reports, want the one", subject, whole.Unreadable)
		}
		if err != nil || len(whole.Events) != 60 && subject == "" || whole.Next != "" {
			t.Fatalf("%q: got %d reports, next %q, %v", subject, len(whole.Events), whole.Next, err)
		}
		for _, count := range []int{1, 4, 9, 25} {
			var all []Event
			q := Query{Subject: subject, Count: count}
			for turn := 0; turn == 0 || q.After != ""; turn++ {
				page, err := w.store().List(t.Context(), q)
				if err != nil || len(page.Events) > count || turn > 60 {
					t.Fatalf("page %d: got %d reports of at most %d, %v", turn, len(page.Events), count, err)
				}
				all, q.After = append(all, page.Events...), page.Next
			}
			if !slices.Equal(all, whole.Events) || !slices.IsSortedFunc(all, func(a, b Event) int {
				return b.Time.Compare(a.Time)
			}) {
				t.Errorf("%q: pages of %d: got %d reports, want all %d", subject, count, len(all),
					len(whole.Events))
			}
		}
	}
	for _, cursor := range []string{"x", "MQ", "LTEuMQ", "MS45OTk5OTk5"} {
		if _, err := w.store().List(t.Context(), Query{After: cursor}); !errors.Is(err, ErrCursor) {
			t.Errorf("cursor %q: got %v, want ErrCursor", cursor, err)
		}
	}
}
