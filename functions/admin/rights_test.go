package main

import (
	"log/slog"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"time"

	"tidegate/internal/apikey"
	"tidegate/internal/cause"
	"tidegate/internal/enforce"
	"tidegate/internal/limits"
	"tidegate/internal/policy"
	"tidegate/internal/records"
	"tidegate/internal/registry"
	"tidegate/internal/route"
	"tidegate/internal/store/acl"
	"tidegate/internal/testing/registrytest"
	"tidegate/internal/testing/storetest"
	"tidegate/internal/testing/valkeytest"
)

// The ACL of the function's Valkey user is sufficient for every page and form of the
// dashboard.
func TestRights(t *testing.T) {
	t.Run("single node", func(t *testing.T) { checkRights(t, valkeytest.Start(t)) })
	t.Run("cluster", func(t *testing.T) {
		checkRights(t, valkeytest.StartCluster(t, 3, 0)[0]+"?cluster=true")
	})
	t.Run("serverless", func(t *testing.T) {
		cache := valkeytest.StartServerless(t)
		checkRights(t, cache.URL())
		// it has no replicas to wait for
		lacks := slices.DeleteFunc(cache.Refused(), func(c string) bool { return c == "WAIT 0" })
		if len(lacks) > 0 {
			t.Errorf("a serverless cache lacks %q", lacks)
		}
	})
}

func checkRights(t *testing.T, root string) {
	t.Helper()
	admin := valkeytest.As(t, root, "admin", acl.Rules(acl.Admin()))
	folder := t.TempDir()
	keys := seed(t, admin, valkeytest.As(t, root, "check", acl.Rules(acl.Check())), folder)
	const password = "only for this test"
	c, err := readConfig(environment("VALKEY_URL="+admin, "CHANGES_LOG="+folder, "ADMIN_PASSWORD_HASH=",
		"ADMIN_PASSWORD="+strings.Repeat(password, 2)))
	if err != nil {
		t.Fatal(err)
	}
	handler, err := newConnector(c, slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	visitor := newCrawler(t, handler, map[string]string{
		"user": "ada", "password": strings.Repeat(password, 2), "reason": "a test", "name": "made-#",
		"plan": "pro", "limits": "7 per minute", "tags": "crawled",
		"group": "big", "lasts": "1h",
	})
	visitor.login()
	starts := []string{"/"}
	for _, do := range []string{"plan", "override", "end", "reset", "tag", "untag", "group", "expiry", "ban",
		"unban", "revoke"} {
		starts = append(starts, "/keys/bulk?of=all&do="+do)
	}
	visitor.crawl(starts...)
	if refused := valkeytest.Refused(t, root); len(refused) > 0 {
		t.Errorf("Valkey refused:\n%s", strings.Join(refused, "\n"))
	}
	done := map[string]bool{}
	for query := (registry.AuditQuery{Count: 500}); ; {
		page, err := keys.Audit(t.Context(), query)
		if err != nil {
			t.Fatal(err)
		}
		for _, e := range page.Entries {
			done[e.Action] = true
		}
		if query.Before = page.Next; page.Next == 0 {
			break
		}
	}
	for _, action := range []string{"create", "edit", "override", "override.end", "ban", "unban", "rotate",
		"reset", "revoke", "delete"} {
		if !done["key."+action] {
			t.Errorf("the crawler did not make key.%s, so its rights are not tested: %v", action, done)
		}
	}
}

// seed creates keys and a policy with every kind of limit, and makes calls.
func seed(t *testing.T, adminURL, checkURL, folder string) *registry.Store {
	t.Helper()
	pepper, err := apikey.NewPepper(strings.Repeat("p", 32))
	if err != nil {
		t.Fatal(err)
	}
	edit := registry.Edit{By: registry.Actor{Kind: "user", Name: "tester"}, Reason: "a test"}
	keys := registrytest.Open(t, storetest.Connect(t, adminURL), folder, pepper)
	registrytest.Save(t, keys, edit, func(set *policy.Set) {
		next := everything()
		set.Plans, set.Limits, set.Routes = next.Plans, next.Limits, next.Routes
	})
	client := storetest.Connect(t, checkURL)
	check, recorder := enforce.NewChecker(client, pepper), records.NewRecorder(time.Now)
	for _, name := range []string{"acme", "bolt", "core"} {
		key, secret := registrytest.Create(t, keys, edit,
			policy.NewKey{Name: name, Env: "test", Plan: "free"})
		call := enforce.Call{
			Kind: policy.APIKey, Subject: secret.ID(), Secret: secret,
			Address: netip.MustParseAddr("192.0.2.1"),
			Route:   route.Call{API: "api", Stage: "prod", Method: "GET", Path: "/orders"},
		}
		for range 4 {
			if _, err := check.Check(t.Context(), call); err != nil {
				t.Fatal(err)
			}
			recorder.Record(records.Call{Caller: key.ID, Registered: true, Cost: 1,
				Routes: []string{"orders"}, Time: time.Now()})
			recorder.Record(records.Call{Caller: key.ID, Registered: true, Time: time.Now(),
				Cause: cause.Limit, Limit: "10 per hour", RetryAfter: time.Hour, NearFor: time.Hour})
		}
	}
	if report := recorder.Flush(t.Context(), client); report.Err != nil {
		t.Fatal(report.Err)
	}
	return keys
}

func everything() policy.Set {
	list := func(texts ...string) (all []limits.Limit) {
		for _, text := range texts {
			l, err := limits.Parse(text)
			if err != nil {
				panic(err)
			}
			all = append(all, l)
		}
		return all
	}
	return policy.Set{
		Plans: []policy.Plan{{Name: "free", Limits: list("10 per hour")},
			{Name: "pro", Limits: list("100 per hour", "50 per minute, counter")}},
		Limits: list("50 per hour, on orders, each caller", "60 per hour, on orders, each address",
			"70 per hour, on orders, together", "80 per hour, each address", "90 per hour, together"),
		Routes: []limits.Route{{Name: "orders", Match: []route.Pattern{{Path: "/orders"}}}},
	}
}
