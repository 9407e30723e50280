package sitetest

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"time"

	"tidegate/internal/apikey"
	"tidegate/internal/changes"
	"tidegate/internal/policy"
	"tidegate/internal/policyset"
)

// CreateKeys creates keys k0000, k0001 and so on of a plan in one change.
func (r *Registry) CreateKeys(count int, plan string) {
	r.T.Helper()
	names := make([]string, count)
	for i := range names {
		names[i] = fmt.Sprintf("k%04d", i)
	}
	r.CreateNamed(plan, names...)
}

// CreateNamed creates keys with these names in one change.
func (r *Registry) CreateNamed(plan string, names ...string) {
	r.T.Helper()
	set, err := r.Set(context.Background())
	r.Must(err)
	p, known := set.Plan(plan)
	if !known {
		r.T.Fatalf("no plan %s", plan)
	}
	now := time.Now().UTC().Truncate(time.Second)
	items := map[string][]byte{}
	for _, name := range names {
		secret, err := apikey.Generate("demo")
		r.Must(err)
		k := policy.Key{ID: secret.ID(), Kind: policy.APIKey, Env: "demo",
			Name: name, Plan: plan, PlanNumber: p.Number, Status: policy.Active,
			Created: now, Updated: now}
		record, err := policyset.EncodeRecord(k, policyset.Secrets{Current: Pepper.Hash(secret)})
		r.Must(err)
		items[k.ID] = record
		r.IDs[k.Name], r.Names[k.ID], r.Secrets[k.Name] = k.ID, k.Name, secret
	}
	r.write("key.create", items)
}

// CopyToken makes this many copies of the only machine token, in one change.
func (r *Registry) CopyToken(copies int) {
	r.T.Helper()
	tokens, err := r.ListTokens(context.Background())
	r.Must(err)
	records, err := r.Log().Records(context.Background(), "token:"+tokens[0].ID)
	r.Must(err)
	items := map[string][]byte{}
	for i := range copies {
		items[fmt.Sprintf("token:copy%04d", i)] = records[0].Content
	}
	r.write("token.create", items)
}

// write makes records in one change.
func (r *Registry) write(action string, items map[string][]byte) {
	r.T.Helper()
	judge := func(ctx context.Context, reader *changes.Reader) ([]changes.Item, error) {
		found, err := reader.Get(ctx, slices.Collect(maps.Keys(items))...)
		all := make([]changes.Item, len(found))
		for i, record := range found {
			all[i] = changes.Item{Record: record.Name, After: items[record.Name]}
		}
		return all, err
	}
	_, err := r.Log().Edit(context.Background(), changes.Edit{Action: action, By: "system:test"}, judge)
	r.Must(err)
}

// UpdateKeys changes keys in one change.
func (r *Registry) UpdateKeys(change func(*policy.Key), names ...string) {
	r.T.Helper()
	ids := make([]string, len(names))
	for i, name := range names {
		ids[i] = r.IDs[name]
	}
	done, err := r.UpdateMany(context.Background(), ids, "key.test", ByTest, func(k *policy.Key) error {
		change(k)
		return nil
	})
	r.Must(err)
	if len(done.Changed) != len(names) {
		r.T.Fatalf("changed %d of %d keys: %+v", len(done.Changed), len(names), done.Failed)
	}
}
