//go:build unix

package main

import (
	"context"
	"fmt"
	"strings"
	"time"

	"tidegate/internal/limiter"
	"tidegate/internal/policy"
)

// demoEnv marks the keys of this program: it is in their text and nobody else's.
const demoEnv = "demo"

const demoPrefix = "demo "

type plan struct {
	name   string
	limits []limiter.Limit
}

// plans are the demo plans; each gets one key.
var plans = []plan{
	{"free", []limiter.Limit{{Requests: 10, Window: 10 * time.Second}}},
	{"pro", []limiter.Limit{{Requests: 100, Window: 10 * time.Second}, {Requests: 1000, Window: 10 * time.Minute}}},
}

func (p plan) describe() string {
	var words []string
	for _, limit := range p.limits {
		words = append(words, limit.String())
	}
	return strings.Join(words, " and ")
}

// seed creates one key for each plan and returns their secrets by plan. A store keeps no secrets, so the demo keys of earlier runs are of no use to
// anybody: they are deleted first.
func seed(ctx context.Context, keys *policy.Store) (map[string]string, error) {
	ctx, cancel := context.WithTimeout(ctx, seedTimeout)
	defer cancel()
	if err := deleteDemoKeys(ctx, keys); err != nil {
		return nil, fmt.Errorf("delete demo keys of earlier runs: %w", err)
	}
	secrets := map[string]string{}
	for _, plan := range plans {
		_, secret, err := keys.Create(ctx, policy.NewKey{Name: demoPrefix + plan.name, Env: demoEnv, Plan: plan.name, Limits: plan.limits})
		if err != nil {
			return nil, fmt.Errorf("create the demo key of plan %s: %w", plan.name, err)
		}
		secrets[plan.name] = secret.Reveal()
	}
	return secrets, nil
}

func deleteDemoKeys(ctx context.Context, keys *policy.Store) error {
	query := policy.Query{Prefix: demoPrefix}
	for {
		page, err := keys.List(ctx, query)
		if err != nil {
			return err
		}
		for _, key := range page.Keys {
			if !isDemo(key) {
				continue
			}
			if err := keys.Delete(ctx, key.ID); err != nil {
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
