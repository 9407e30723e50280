package sitetest

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
	"tidegate/internal/testing/registrytest"
	"tidegate/internal/testing/waiting"
	"tidegate/internal/usage"
	"tidegate/internal/usage/statelist"
)

// The values of every test's registry.
var (
	Pepper = apikey.Pepper(strings.Repeat("p", apikey.MinPepperLen))
	ByTest = registry.Edit{By: audit.Actor{Kind: "system", Name: "test"}}
	// Now is the time of the registry's server.
	Now = time.Date(2026, 11, 21, 10, 30, 0, 0, time.UTC)
)

// Registry is the real registry of keys on its own server, whose clock is fixed at Now.
type Registry struct {
	*registry.Store
	T       testing.TB
	Server  *miniredis.Miniredis
	Client  valkey.Client
	IDs     map[string]string // by name
	Names   map[string]string // by id
	Secrets map[string]apikey.Secret
}

// NewRegistry returns a registry with one key of the plan free for each name.
func NewRegistry(t testing.TB, names ...string) *Registry {
	t.Helper()
	r := &Registry{
		T: t, Server: miniredis.RunT(t), IDs: map[string]string{}, Names: map[string]string{},
		Secrets: map[string]apikey.Secret{},
	}
	r.Server.SetTime(Now)
	var err error
	r.Client, err = store.Open(t.Context(), "valkey://"+r.Server.Addr(), store.Options{
		Dial: waiting.Timeout, Write: waiting.Timeout, Pooled: true,
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(r.Client.Close)
	r.Store = registry.NewStore(r.Client, Pepper)
	r.Plan("free", Per(10, 10*time.Second))
	for _, name := range names {
		r.CreateKey(name, "free")
	}
	return r
}

// Must fails the test for an error.
func (r *Registry) Must(err error) {
	r.T.Helper()
	if err != nil {
		r.T.Fatal(err)
	}
}

// Save changes the policy set.
func (r *Registry) Save(change func(*policy.Set)) *policy.Set {
	r.T.Helper()
	return registrytest.Save(r.T, r, ByTest, change)
}

// Plan saves a plan with these limits.
func (r *Registry) Plan(name string, limits ...limiter.Limit) {
	r.T.Helper()
	r.Save(registrytest.Plan(name, limits...))
}

// CreateKey creates a key with a plan.
func (r *Registry) CreateKey(name, plan string) policy.Key {
	r.T.Helper()
	k, secret, err := r.Create(context.Background(),
		policy.NewKey{Name: name, Env: "demo", Plan: plan}, ByTest)
	r.Must(err)
	r.IDs[name], r.Names[k.ID], r.Secrets[name] = k.ID, name, secret
	return k
}

// Add creates a key with its own limits, in a plan of its name.
func (r *Registry) Add(name string, limits ...limiter.Limit) policy.Key {
	r.T.Helper()
	r.Plan(name, limits...)
	return r.CreateKey(name, name)
}

// Key returns the key with this name.
func (r *Registry) Key(name string) policy.Key {
	r.T.Helper()
	k, err := r.Get(context.Background(), r.IDs[name])
	r.Must(err)
	return k
}

// UpdateKey changes the key with this name as another actor would.
func (r *Registry) UpdateKey(name string, change func(*policy.Key)) policy.Key {
	r.T.Helper()
	old := r.Key(name)
	k, err := r.Update(context.Background(), old.ID, old.Version, "key.test", ByTest, change)
	r.Must(err)
	return k
}

// OverrideKey gives the key with this name its own limits as another actor would.
func (r *Registry) OverrideKey(name string, limits ...limiter.Limit) policy.Key {
	r.T.Helper()
	return r.UpdateKey(name, func(k *policy.Key) {
		k.Override = &policy.Override{Limits: limits, Reason: "test"}
	})
}

// Use makes calls until limit i of the key has used[i] calls, and lists the key as denied
// and near a limit. Calls beyond the count of the next shorter limit are made before its
// window.
func (r *Registry) Use(name string, used ...int64) {
	r.T.Helper()
	set, err := r.Set(context.Background())
	r.Must(err)
	e, _ := set.Effective(r.Key(name), time.Now())
	order := make([]int, len(e.Limits))
	for i := range order {
		order[i] = i
	}
	slices.SortFunc(order, func(a, b int) int { return cmp.Compare(e.Limits[b].Span(), e.Limits[a].Span()) })
	r.Must(
		r.Client.Do(context.Background(),
			r.Client.B().Del().Key(keyspace.State(r.IDs[name])).Build()).Error(),
	)
	for at, i := range order {
		n, when := used[i], Now
		if at+1 < len(order) {
			n, when = n-used[order[at+1]], Now.Add(-e.Limits[i].Span()/2)
		}
		var limits []limiter.Limit // without shorter ones, which do not count these calls
		for _, l := range e.Limits {
			if l.Span() >= e.Limits[i].Span() {
				limits = append(limits, l)
			}
		}
		r.take(name, limits, n, when)
	}
	for _, list := range []statelist.List{statelist.OverLimit, statelist.NearLimit} { // as a check lists it
		listed := statelist.Add(r.Client, list, r.IDs[name], time.Now().Add(time.Hour))
		r.Must(r.Client.DoMulti(context.Background(), listed...)[0].Error())
	}
	r.Server.SetTime(Now)
}

func (r *Registry) take(name string, limits []limiter.Limit, cost int64, when time.Time) {
	r.T.Helper()
	if cost == 0 {
		return
	}
	program, err := limiter.Compile(limits, when)
	r.Must(err)
	r.Server.SetTime(when)
	r.Must(r.Client.Do(context.Background(),
		r.Client.B().Eval().Script(limiter.TakeScript()).Numkeys(1).Key(keyspace.State(r.IDs[name])).
			Arg(string(program), strconv.FormatInt(cost, 10), "0").Build()).Error())
}

// Called records calls of the key with this name at a time.
func (r *Registry) Called(name string, at time.Time, allowed, denied int) {
	r.T.Helper()
	call := usage.Outcome{Subject: r.IDs[name], Registered: true, Cost: 1, Time: at}
	r.Record(outcomes(call, allowed, denied)...)
}

// outcomes repeats a call: first the allowed ones, then the denied ones.
func outcomes(call usage.Outcome, allowed, denied int) []usage.Outcome {
	all := slices.Repeat([]usage.Outcome{call}, allowed+denied)
	for i := range denied {
		all[allowed+i].Verdict = usage.Denied
	}
	return all
}

// Record records calls, all at the time of the first.
func (r *Registry) Record(calls ...usage.Outcome) {
	r.T.Helper()
	recorder := usage.NewRecorder(usage.Options{}, func() time.Time { return calls[0].Time })
	for _, o := range calls {
		recorder.Record(o)
	}
	if report := recorder.Flush(context.Background(), r.Client); report.Err != nil {
		r.T.Fatal(report.Err)
	}
}

// Fail makes every command return an error; an empty text ends that.
func (r *Registry) Fail(text string) { r.Server.SetError(text) }

// Written returns the number of audit entries, except log-ins, stops of
// jobs, and those by ByTest.
func (r *Registry) Written() int {
	r.T.Helper()
	n := 0
	for q := (audit.Query{Count: 500}); ; {
		page, err := r.Audit().List(context.Background(), q)
		r.Must(err)
		for _, e := range page.Entries {
			if e.By != ByTest.By && e.Subject != audit.LoginSubject && e.Action != audit.JobStop {
				n++
			}
		}
		if q.After = page.Next; q.After == "" {
			return n
		}
	}
}

var nameInPath = regexp.MustCompile(`\{([a-z0-9-]+)\}`)

// Named replaces names by ids: /keys/{acme}.
func (r *Registry) Named(text string) string {
	return nameInPath.ReplaceAllStringFunc(text, func(m string) string {
		if id := r.IDs[strings.Trim(m, "{}")]; id != "" {
			return id
		}
		return m
	})
}

// naming replaces ids by names, the inverse of Named.
func (r *Registry) naming(text string) string {
	for id, name := range r.Names {
		text = strings.ReplaceAll(text, id, "{"+name+"}")
	}
	return text
}

// Per returns an exact limit.
func Per(requests int64, window time.Duration) limiter.Limit {
	return limiter.Limit{Requests: requests, Window: window}
}

// UnregisteredCalls records calls of a caller without a record.
func (r *Registry) UnregisteredCalls(id string, at time.Time, allowed, denied int) {
	r.T.Helper()
	r.Record(outcomes(usage.Outcome{Subject: id, Cost: 1, Time: at}, allowed, denied)...)
}

// SampleKeys returns a registry with a key of each kind.
func SampleKeys(t testing.TB) *Registry {
	counter := limiter.Limit{Requests: 44, Window: 366 * 24 * time.Hour, Algorithm: limiter.Counter}
	abroad := Monthly
	abroad.Zone = "America/Argentina/ComodRivadavia"
	keys := NewRegistry(t, "acme", "bolt", "chandlery", "dinghy")
	keys.OverrideKey("chandlery", Per(100, 10*time.Second), counter)
	keys.UpdateKey("dinghy", func(k *policy.Key) { k.Status = policy.Revoked })
	keys.IDs["endless"] = keys.CreateKey(strings.Repeat("endless-", 12), "free").ID
	keys.Add("ferry", abroad, Hammered, Coarse, limiter.Limit{
		Requests: 9, Window: time.Minute, CountDenied: true, Slots: 64,
	})
	keys.Use("acme", 10)
	keys.Use("chandlery", 37, 37)
	keys.Called("acme", time.Now().Add(-5*time.Minute), 30, 4)
	return keys
}

// Monthly, Hammered and Coarse are limits that use the form's rarer fields.
var (
	Monthly = limiter.Limit{
		Requests: 1000, Algorithm: limiter.FixedWindow, Calendar: limiter.Month, Zone: "Europe/Berlin",
	}
	Hammered = limiter.Limit{Requests: 100, Window: 10 * time.Second, CountDenied: true}
	Coarse   = limiter.Limit{Requests: 5000, Window: time.Hour, Slots: 2500,
		Notify: limiter.Thresholds{80, 100}}
)
