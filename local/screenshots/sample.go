//go:build unix

package main

import (
	"context"
	"fmt"
	"math"
	"math/rand/v2"
	"net/netip"
	"time"

	"github.com/valkey-io/valkey-go"

	"tidegate/internal/apikey"
	"tidegate/internal/cause"
	"tidegate/internal/enforce"
	"tidegate/internal/limits"
	"tidegate/internal/policy"
	"tidegate/internal/records"
	"tidegate/internal/registry"
	"tidegate/internal/route"
)

const pepper = "a pepper that only these screenshots use"

// sample is a registry of a small company's customers.
type sample struct {
	client valkey.Client
	keys   *registry.Store
	random *rand.Rand
	ids    map[string]string
	secret map[string]apikey.Secret
}

func by(name, reason string) registry.Edit {
	return registry.Edit{By: registry.Actor{Kind: "user", Name: name}, Reason: reason}
}

func per(n int64, window time.Duration) limits.Limit {
	return limits.Limit{Requests: n, Window: window}
}

// customers are keys with their calls per minute.
var customers = []struct {
	name, plan string
	tags       []string
	rate       float64
}{
	{"Alder Freight", "pro", []string{"emea"}, 42}, {"Birch Analytics", "enterprise", []string{"apac"}, 130},
	{"Cedar Maps", "pro", nil, 31},
	{"Dune Weather", "free", []string{"beta"}, 9},
	{"Elm Payments", "enterprise", []string{"emea", "pci"}, 88}, {"Fjord Travel", "pro", nil, 55},
	{"Grove Health", "pro", []string{"emea"}, 17}, {"Harbor Scraper", "free", nil, 64},
	{"Iris Research", "free", []string{"beta"}, 3},
	{"Juniper Games", "pro", nil, 24},
}

func newSample(ctx context.Context, client valkey.Client, keys *registry.Store) (*sample, error) {
	s := &sample{
		client: client, keys: keys, ids: map[string]string{},
		secret: map[string]apikey.Secret{},
		random: rand.New(rand.NewPCG(7, 7)), //nolint:gosec // the same data each time
	}
	for _, step := range []func(context.Context) error{s.policies, s.customers, s.edits, s.calls, s.checks} {
		if err := step(ctx); err != nil {
			return nil, fmt.Errorf("sample: %w", err)
		}
	}
	return s, nil
}

func (s *sample) policies(ctx context.Context) error {
	set, err := s.keys.Set(ctx)
	if err != nil {
		return err
	}
	shadow := per(40, 10*time.Second)
	shadow.Shadow = true
	set.Plans = []policy.Plan{
		{Name: "free", Limits: []limits.Limit{per(10, 10*time.Second), per(500, time.Hour)}},
		{Name: "pro", Limits: []limits.Limit{per(100, 10*time.Second), per(5000, time.Hour), shadow}},
		{Name: "enterprise", Limits: []limits.Limit{per(1000, 10*time.Second)},
			Degraded: policy.Local, Share: 20},
	}
	set.Routes = []limits.Route{
		{Name: "search", Match: []route.Pattern{{Method: "GET", Path: "/search"}},
			Cost: limits.Costs{Units: map[string]int64{limits.Cost: 5}}},
		{Name: "orders", Match: []route.Pattern{{Path: "/orders"}, {Path: "/orders/{proxy+}"}}},
	}
	orders, address := per(200, time.Minute), per(600, time.Minute)
	orders.On, orders.Who, address.Who = "orders", limits.EachCaller, limits.EachAddress
	set.TokenPlan, set.Limits = "free", []limits.Limit{orders, address}
	set.Deny = []netip.Prefix{netip.MustParsePrefix("198.51.100.0/24")}
	_, err = s.keys.SaveSet(ctx, *set, by("ada", "first plans"))
	return err
}

func (s *sample) customers(ctx context.Context) error {
	for _, c := range customers {
		k, secret, err := s.keys.Create(ctx,
			policy.NewKey{Name: c.name, Env: "live", Plan: c.plan, Tags: c.tags}, by("ada", "signed up"))
		if err != nil {
			return err
		}
		s.ids[c.name], s.secret[c.name] = k.ID, secret
	}
	return nil
}

func (s *sample) edits(ctx context.Context) error {
	until := time.Now().Add(50 * time.Hour)
	for _, e := range []struct {
		name, action, who, reason string
		change                    func(*policy.Key)
	}{
		{"Fjord Travel", "key.override", "grace", "summer sale until the weekend", func(k *policy.Key) {
			k.Override = &policy.Override{Limits: []limits.Limit{per(250, 10*time.Second)}, Until: until,
				Reason: "summer sale until the weekend"}
		}},
		{"Grove Health", "key.override", "ada", "measuring before we enforce", func(k *policy.Key) {
			k.Override = &policy.Override{Limits: []limits.Limit{per(20, 10*time.Second)},
				Reason: "measuring before we enforce"}
			k.Override.Limits[0].Shadow = true
		}},
		{"Iris Research", "key.edit", "ada", "trial", func(k *policy.Key) {
			k.Expires = time.Now().Add(9 * 24 * time.Hour)
		}},
		{"Juniper Games", "key.ban", "grace", "asked for by their security team", func(k *policy.Key) {
			k.Banned = time.Now().Add(4 * time.Hour)
		}},
	} {
		k, err := s.keys.Get(ctx, s.ids[e.name])
		if err != nil {
			return err
		}
		if _, err := s.keys.Update(ctx, k.ID, k.Version, e.action, by(e.who, e.reason),
			e.change); err != nil {
			return err
		}
	}
	return nil
}

// calls records an hour of usage whose rate varies like a sine.
func (s *sample) calls(ctx context.Context) error {
	now := time.Now()
	r := records.NewRecorder(time.Now)
	for since := range 60 {
		minute := 59 - since
		at := now.Add(-time.Duration(minute) * time.Minute)
		wave := 1 + 0.5*math.Sin(float64(minute)/7)
		for _, c := range customers {
			n := int(c.rate * wave * (0.7 + 0.6*s.random.Float64()))
			for i := range n {
				call := s.call(c.name, c.plan, at)
				switch {
				case c.plan == "free" && i >= 10+s.random.IntN(20):
					s.deny(&call)
				case c.plan == "pro" && i > 45:
					call.Shadow = "40 per minute"
				}
				r.Record(call)
			}
		}
		for range 6 {
			r.Record(records.Call{Caller: s.keys.TokenCaller("https://login.example/", "ada"), Cost: 1,
				Time: at})
		}
		if minute%20 == 0 {
			r.Record(records.Call{Cause: cause.Missing, Time: at})
		}
		if report := r.Flush(ctx, s.client); report.Err != nil {
			return report.Err
		}
	}
	return nil
}

// call returns an allowed call of a customer.
func (s *sample) call(name, plan string, at time.Time) records.Call {
	return records.Call{
		Caller: s.ids[name], Registered: true, Cost: 1, Plan: plan, Time: at, Method: "GET",
		Path: "/orders/{id}", API: "a1b2c3d4e5", Stage: "prod",
		Network: netip.PrefixFrom(netip.AddrFrom4([4]byte{203, 0, 113}), 24),
		Request: fmt.Sprintf("c6af9ac6-7b61-11e6-9a41-%012x", s.random.Int64N(1<<47)),
	}
}

// deny makes a call one that a limit denied.
func (s *sample) deny(c *records.Call) {
	c.Cause, c.Limit = cause.Limit, "10 per 10 seconds"
	c.RetryAfter = time.Duration(1+s.random.IntN(9)) * time.Second
	if s.random.IntN(3) == 0 {
		c.Limit, c.Routes, c.Path = "200 per minute on orders", []string{"orders"}, "/orders"
	}
}

// checks makes calls, so that limits are partly used.
func (s *sample) checks(ctx context.Context) error {
	checker := enforce.NewChecker(s.client, apikey.Pepper(pepper))
	for _, c := range customers {
		n := int(c.rate * 0.9)
		for range min(n, 95) {
			call := enforce.Call{Kind: policy.APIKey, Subject: s.ids[c.name], Secret: s.secret[c.name],
				Address: netip.MustParseAddr("192.0.2.77"), Route: route.Call{Method: "GET", Path: "/"}}
			if _, err := checker.Check(ctx, call); err != nil {
				return err
			}
		}
	}
	return nil
}
