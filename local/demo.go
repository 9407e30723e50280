//go:build unix

package main

import (
	"context"
	"fmt"
	"strings"
	"time"

	"tidegate/internal/limits"
	"tidegate/internal/policy"
	"tidegate/internal/registry"
)

// demoEnv is the environment of the demo keys. No other keys have it.
const demoEnv = "demo"

const demoPrefix = "demo "

// plans are the demo plans, with one key each.
var plans = []policy.Plan{
	{Name: "free", Limits: []limits.Limit{{Requests: 10, Window: 10 * time.Second}}},
	{Name: "pro", Limits: []limits.Limit{{Requests: 100, Window: 10 * time.Second},
		{Requests: 1000, Window: 10 * time.Minute}}},
}

// demoEdit is the author of this program's changes in the audit.
var demoEdit = registry.Edit{By: registry.Actor{Kind: "system", Name: "local"}, Reason: "demo"}

func describe(p policy.Plan) string {
	var words []string
	for _, limit := range p.Limits {
		words = append(words, limit.String())
	}
	return strings.Join(words, " and ")
}

// seed creates one key for each plan and returns their secrets by plan. It first deletes
// the demo keys of earlier runs, whose secrets Valkey does not store.
func seed(ctx context.Context, keys *registry.Store) (map[string]string, error) {
	ctx, cancel := context.WithTimeout(ctx, seedTimeout)
	defer cancel()
	set, err := savePlans(ctx, keys)
	if err != nil {
		return nil, fmt.Errorf("save the demo plans: %w", err)
	}
	if err := deleteDemoKeys(ctx, keys, set); err != nil {
		return nil, fmt.Errorf("delete demo keys of earlier runs: %w", err)
	}
	secrets := map[string]string{}
	for _, plan := range plans {
		_, secret, err := keys.Create(ctx,
			policy.NewKey{Name: demoPrefix + plan.Name, Env: demoEnv, Plan: plan.Name}, demoEdit)
		if err != nil {
			return nil, fmt.Errorf("create the demo key of plan %s: %w", plan.Name, err)
		}
		secrets[plan.Name] = secret.Reveal()
	}
	return secrets, nil
}

// savePlans adds the missing demo plans and does not change others.
func savePlans(ctx context.Context, keys *registry.Store) (*policy.Set, error) {
	set, err := keys.Set(ctx)
	if err != nil {
		return nil, err
	}
	known := len(set.Plans)
	for _, p := range plans {
		if _, found := set.Plan(p.Name); !found {
			set.Plans = append(set.Plans, p)
		}
	}
	if len(set.Plans) == known {
		return set, nil
	}
	return keys.SaveSet(ctx, *set, demoEdit)
}

func deleteDemoKeys(ctx context.Context, keys *registry.Store, set *policy.Set) error {
	query := registry.Query{Prefix: demoPrefix}
	for {
		page, err := keys.List(ctx, set, query)
		if err != nil {
			return err
		}
		for _, key := range page.Keys {
			if !isDemo(key) {
				continue
			}
			if err := keys.Delete(ctx, key.ID, demoEdit); err != nil {
				return err
			}
		}
		if page.Next == "" {
			return nil
		}
		query.After = page.Next
	}
}

func isDemo(key policy.Key) bool {
	return key.Env == demoEnv && strings.TrimPrefix(key.Name, demoPrefix) == key.Plan
}
