//go:build unix

package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	neturl "net/url"
	"os"
	"path/filepath"
	"strings"
	"time"

	"tidegate/internal/cluster"
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

const setupTimeout = time.Minute

// setUp creates the cluster and the demo keys unless they exist.
func setUp(ctx context.Context, args []string, io stdio) error {
	var folder, servers string
	var primaries int
	f := partFlags("setup", io)
	f.StringVar(&folder, "secrets", "/secrets", "`folder` of the secrets")
	f.StringVar(&servers, "servers", "", "`host:port,…` of the Valkey servers themselves, primaries first")
	f.IntVar(&primaries, "primaries", 3, "`number` of primaries in a new cluster")
	if err := f.Parse(args); err != nil {
		return err
	}
	env, err := readEnv(filepath.Join(folder, setupFile))
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, setupTimeout)
	defer cancel()
	user, err := userOf(env["VALKEY_URL"])
	if err != nil {
		return err
	}
	if err := cluster.Join(ctx, user, primaries, strings.Split(servers, ",")...); err != nil {
		return fmt.Errorf("join the cluster: %w", err)
	}
	_, _ = fmt.Fprintln(io.out, "the cluster is ok")
	path := filepath.Join(folder, readyFile)
	if _, err := os.Stat(path); !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return seedComposition(ctx, path, env)
}

func userOf(rawURL string) (cluster.User, error) {
	head, _, _ := strings.Cut(rawURL, ",") // url.Parse refuses several hosts
	u, err := neturl.Parse(head)
	if err != nil {
		return cluster.User{}, errors.New("VALKEY_URL is not a URL")
	}
	password, _ := u.User.Password()
	return cluster.User{Name: u.User.Username(), Password: password}, nil
}

// seedComposition creates the demo keys and stores their secrets in a file, since Valkey
// has only hashes.
func seedComposition(ctx context.Context, path string, env map[string]string) error {
	r := &registrar{url: env["VALKEY_URL"], pepper: env["KEY_PEPPER"], changes: env["CHANGES_LOG"],
		close: func() {}}
	defer func() { r.close() }()
	if err := r.connect(ctx); err != nil {
		return err
	}
	if err := r.catchUp(ctx); err != nil {
		return err
	}
	keys, err := seed(ctx, r.keys)
	if err != nil {
		return err
	}
	all := &ready{Valkey: env["VALKEY_URL"], AdminUser: env["ADMIN_USER"],
		AdminPassword: env["ADMIN_PASSWORD"], Keys: keys}
	return all.write(path)
}
