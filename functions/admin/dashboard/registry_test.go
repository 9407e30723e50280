package dashboard

import (
	"cmp"
	"context"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/alicebob/miniredis/v2"
	"github.com/valkey-io/valkey-go"

	"tidegate/internal/apikey"
	"tidegate/internal/audit"
	"tidegate/internal/limiter"
	"tidegate/internal/policy"
	"tidegate/internal/registry"
	"tidegate/internal/store"
	"tidegate/internal/store/keyspace"
	"tidegate/internal/testing/waiting"
	"tidegate/internal/usage"
)

var (
	testPepper = apikey.Pepper(strings.Repeat("p", apikey.MinPepperLen))
	byTest     = registry.Edit{By: audit.Actor{Kind: "system", Name: "test"}}
	// testNow is what the registry's server has for the time of day.
	testNow = time.Date(2026, 11, 21, 10, 30, 0, 0, time.UTC)
)

// registry is the real registry of keys on a server of its own, whose clock stands at
// testNow.
type testRegistry struct {
	*registry.Store
	t       testing.TB
	server  *miniredis.Miniredis
	client  valkey.Client
	ids     map[string]string // by name
	names   map[string]string // by id
	secrets map[string]apikey.Secret
}

// newRegistry has one key of the plan free for each name.
func newRegistry(t testing.TB, names ...string) *testRegistry {
	t.Helper()
	r := &testRegistry{t: t, server: miniredis.RunT(t), ids: map[string]string{}, names: map[string]string{}, secrets: map[string]apikey.Secret{}}
	r.server.SetTime(testNow)
	var err error
	r.client, err = store.Open(t.Context(), "valkey://"+r.server.Addr(), store.Options{Dial: waiting.Patience, Write: waiting.Patience, Pooled: true})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(r.client.Close)
	r.Store = registry.NewStore(r.client, testPepper)
	r.plan("free", per(10, 10*time.Second))
	for _, name := range names {
		r.create(name, "free")
	}
	return r
}

func (r *testRegistry) must(err error) {
	r.t.Helper()
	if err != nil {
		r.t.Fatal(err)
	}
}

// save changes the Set.
func (r *testRegistry) save(change func(*policy.Set)) *policy.Set {
	r.t.Helper()
	set, err := r.Set(context.Background())
	r.must(err)
	change(set)
	saved, err := r.SaveSet(context.Background(), *set, byTest)
	r.must(err)
	return saved
}

// plan saves a plan with these limits.
func (r *testRegistry) plan(name string, limits ...limiter.Limit) {
	r.t.Helper()
	r.save(func(s *policy.Set) {
		for i := range s.Plans {
			if s.Plans[i].Name == name {
				s.Plans[i].Limits = limits
				return
			}
		}
		s.Plans = append(s.Plans, policy.Plan{Name: name, Limits: limits})
	})
}

func (r *testRegistry) create(name, plan string) policy.Key {
	r.t.Helper()
	k, secret, err := r.Create(context.Background(), policy.NewKey{Name: name, Env: "demo", Plan: plan}, byTest)
	r.must(err)
	r.ids[name], r.names[k.ID], r.secrets[name] = k.ID, name, secret
	return k
}

// add creates a key with limits of its own: those of a plan that has its name.
func (r *testRegistry) add(name string, limits ...limiter.Limit) policy.Key {
	r.t.Helper()
	r.plan(name, limits...)
	return r.create(name, name)
}

// key returns the key with this name.
func (r *testRegistry) key(name string) policy.Key {
	r.t.Helper()
	k, err := r.Get(context.Background(), r.ids[name])
	r.must(err)
	return k
}

// update changes the key with this name as somebody else would.
func (r *testRegistry) update(name string, change func(*policy.Key)) policy.Key {
	r.t.Helper()
	old := r.key(name)
	k, err := r.Update(context.Background(), old.ID, old.Version, "key.test", byTest, change)
	r.must(err)
	return k
}

// override gives the key with this name limits of its own as somebody else would.
func (r *testRegistry) override(name string, limits ...limiter.Limit) policy.Key {
	r.t.Helper()
	return r.update(name, func(k *policy.Key) { k.Override = &policy.Override{Limits: limits, Reason: "test"} })
}

// use makes calls, all of them within the shortest of the key's windows that has as many.
func (r *testRegistry) use(name string, used ...int64) {
	r.t.Helper()
	set, err := r.Set(context.Background())
	r.must(err)
	e, _ := set.Effective(r.key(name), time.Now())
	order := make([]int, len(e.Limits))
	for i := range order {
		order[i] = i
	}
	slices.SortFunc(order, func(a, b int) int { return cmp.Compare(e.Limits[b].Span(), e.Limits[a].Span()) })
	r.must(r.client.Do(context.Background(), r.client.B().Del().Key(keyspace.State(r.ids[name])).Build()).Error())
	for at, i := range order {
		n, when := used[i], testNow
		if at+1 < len(order) {
			n, when = n-used[order[at+1]], testNow.Add(-e.Limits[i].Span()/2)
		}
		var limits []limiter.Limit // a shorter one does not admit what was called before its window
		for _, l := range e.Limits {
			if l.Span() >= e.Limits[i].Span() {
				limits = append(limits, l)
			}
		}
		r.take(name, limits, n, when)
	}
	r.server.SetTime(testNow)
}

func (r *testRegistry) take(name string, limits []limiter.Limit, cost int64, when time.Time) {
	r.t.Helper()
	if cost == 0 {
		return
	}
	program, err := limiter.Compile(limits, when)
	r.must(err)
	r.server.SetTime(when)
	r.must(r.client.Do(context.Background(), r.client.B().Eval().Script(limiter.TakeScript()).Numkeys(1).Key(keyspace.State(r.ids[name])).
		Arg(string(program), strconv.FormatInt(cost, 10), "0").Build()).Error())
}

// called records calls of the last hour.
func (r *testRegistry) called(name string, at time.Time, allowed, denied int) {
	r.t.Helper()
	recorder := usage.NewRecorder(usage.Options{}, func() time.Time { return at })
	for i := range allowed + denied {
		o := usage.Outcome{Subject: r.ids[name], Registered: true, Cost: 1, Time: at}
		if i >= allowed {
			o.Verdict = usage.Denied
		}
		recorder.Record(o)
	}
	if report := recorder.Flush(context.Background(), r.client); report.Err != nil {
		r.t.Fatal(report.Err)
	}
}

// fail makes every command answer with an error; an empty one ends that.
func (r *testRegistry) fail(text string) { r.server.SetError(text) }

// written counts the changes that were made.
func (r *testRegistry) written() int {
	r.t.Helper()
	page, err := r.Audit().List(context.Background(), audit.Query{Count: 500})
	r.must(err)
	n := 0
	for _, e := range page.Entries {
		if e.By != byTest.By && e.Subject != loginSubject {
			n++
		}
	}
	return n
}

var nameInPath = regexp.MustCompile(`\{([a-z0-9-]+)\}`)

// named puts ids in the place of names: /keys/{acme}.
func (r *testRegistry) named(text string) string {
	return nameInPath.ReplaceAllStringFunc(text, func(m string) string {
		if id := r.ids[strings.Trim(m, "{}")]; id != "" {
			return id
		}
		return m
	})
}

// naming is the inverse of named.
func (r *testRegistry) naming(text string) string {
	for id, name := range r.names {
		text = strings.ReplaceAll(text, id, "{"+name+"}")
	}
	return text
}

func per(requests int64, window time.Duration) limiter.Limit {
	return limiter.Limit{Requests: requests, Window: window}
}
