package sitetest

import (
	"context"
	"encoding/json"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/alicebob/miniredis/v2"
	"github.com/valkey-io/valkey-go"

	"tidegate/internal/apikey"
	"tidegate/internal/limits"
	"tidegate/internal/policy"
	"tidegate/internal/records"
	"tidegate/internal/registry"
	"tidegate/internal/route"
	"tidegate/internal/store"
	"tidegate/internal/testing/registrytest"
	"tidegate/internal/testing/waiting"
)

// The values of every test's registry.
var (
	Pepper = apikey.Pepper(strings.Repeat("p", apikey.MinPepperLen))
	ByTest = registry.Edit{By: registry.Actor{Kind: "system", Name: "test"}}
	// Now is the time of the registry's server.
	Now = time.Date(2026, 11, 21, 10, 30, 0, 0, time.UTC)
)

// Registry is the real registry of keys on its own server, whose clock is fixed at Now.
type Registry struct {
	*registry.Store
	T       testing.TB
	Server  *miniredis.Miniredis
	Client  valkey.Client
	LogAt   string            // folder of the log of changes
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
	r.LogAt = t.TempDir()
	copied := r.restore(names)
	r.Store = registrytest.Open(t, r.Client, r.LogAt, Pepper)
	if copied {
		return r
	}
	r.Plan("free", Per(10, 10*time.Second))
	for _, name := range names {
		r.CreateKey(name, "free")
	}
	r.keep(names)
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
func (r *Registry) Plan(name string, list ...limits.Limit) {
	r.T.Helper()
	r.Save(registrytest.Plan(name, list...))
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
func (r *Registry) Add(name string, list ...limits.Limit) policy.Key {
	r.T.Helper()
	r.Plan(name, list...)
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
func (r *Registry) OverrideKey(name string, list ...limits.Limit) policy.Key {
	r.T.Helper()
	return r.UpdateKey(name, func(k *policy.Key) {
		k.Override = &policy.Override{Limits: list, Reason: "test"}
	})
}

// Fail makes every command return an error; an empty text ends that.
func (r *Registry) Fail(text string) { r.Server.SetError(text) }

// Written returns the number of changes, except those by ByTest.
func (r *Registry) Written() int {
	r.T.Helper()
	n := 0
	for q := (registry.AuditQuery{Count: 500}); ; {
		page, err := r.Audit(context.Background(), q)
		r.Must(err)
		for _, e := range page.Entries {
			if e.By != ByTest.By && e.Number > 1 {
				n++
			}
		}
		if q.Before = page.Next; q.Before == 0 {
			return n
		}
	}
}

var versionOf = regexp.MustCompile(`\{[a-z0-9-]+#\}`)

var nameInPath = regexp.MustCompile(`\{([a-z0-9-]+)\}`)

// Named replaces names by ids: /keys/{acme}. {acme#} stands for the version of the key, and
// {policy#} for that of the policies.
func (r *Registry) Named(text string) string {
	text = versionOf.ReplaceAllStringFunc(text, func(m string) string {
		name := strings.Trim(m, "{#}")
		if name == "policy" {
			set, err := r.Set(context.Background())
			r.Must(err)
			return strconv.FormatInt(set.Version, 10)
		}
		return strconv.FormatInt(r.Key(name).Version, 10)
	})
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
func Per(requests int64, window time.Duration) limits.Limit {
	return limits.Limit{Requests: requests, Window: window}
}

// Limit returns the limit with these words.
func Limit(words string) limits.Limit {
	l, err := limits.Parse(words)
	if err != nil {
		panic(err)
	}
	return l
}

// Route returns a route. cost is as in JSON; empty for none.
func Route(name, cost string, match ...string) limits.Route {
	r := limits.Route{Name: name}
	if cost != "" {
		if err := json.Unmarshal([]byte(cost), &r.Cost); err != nil {
			panic(err)
		}
	}
	for _, text := range match {
		p, err := route.Parse(text)
		if err != nil {
			panic(err)
		}
		r.Match = append(r.Match, p)
	}
	return r
}

// UnregisteredCalls records calls of a caller without a record.
func (r *Registry) UnregisteredCalls(id string, at time.Time, allowed, denied int) {
	r.T.Helper()
	r.Record(callsOf(records.Call{Caller: id, Cost: 1, Time: at}, allowed, denied)...)
}

// SampleKeys returns a registry with a key of each kind.
func SampleKeys(t testing.TB) *Registry {
	abroad := Monthly
	abroad.Zone = "America/Argentina/ComodRivadavia"
	keys := NewRegistry(t, "acme", "bolt", "chandlery", "dinghy")
	keys.OverrideKey("chandlery", Per(100, 10*time.Second), Limit("44 per 366 days, counter"))
	keys.UpdateKey("dinghy", func(k *policy.Key) { k.Status = policy.Revoked })
	keys.IDs["endless"] = keys.CreateKey(strings.Repeat("endless-", 12), "free").ID
	keys.Add("ferry", abroad, Hammered, Notified, Limit("9 per minute, denied calls count"))
	keys.Use("acme", 10)
	keys.Use("chandlery", 37, 37)
	keys.Called("acme", time.Now().Add(-5*time.Minute), 30, 4)
	return keys
}

// Monthly, Hammered and Notified are limits that use the form's rarer fields.
var (
	Monthly  = Limit("1,000 per calendar month (Europe/Berlin)")
	Hammered = Limit("100 per 10 seconds, denied calls count")
	Notified = Limit("5,000 per hour, notify at 80/100 %")
)
