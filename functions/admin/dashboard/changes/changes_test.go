package changes_test

import (
	"encoding/csv"
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"reflect"
	"slices"
	"strings"
	"testing"
	"tidegate/functions/admin/app"
	"time"

	"tidegate/functions/admin/dashboard/changes"
	"tidegate/internal/apikey"
	"tidegate/internal/audit"
	"tidegate/internal/limits"
	"tidegate/internal/policy"
	"tidegate/internal/registry"
	"tidegate/internal/store"
	"tidegate/internal/testing/sitetest"
	"tidegate/internal/testing/valkeytest"
)

// An override has its reason in parentheses. Previews have none, and no parentheses.
func TestOverrideReason(t *testing.T) {
	for reason, want := range map[string]string{"": "10 per minute", "launch": "10 per minute (launch)"} {
		after := policy.Key{Override: &policy.Override{
			Limits: []limits.Limit{sitetest.Per(10, time.Minute)}, Reason: reason,
		}}
		got := changes.OfKey(nil, policy.Key{}, after)
		if len(got) != 1 || got[0].After != want {
			t.Errorf("reason %q: got %+v, want %q", reason, got, want)
		}
	}
}

// manyRoutes returns a registry on a Valkey whose policy has many routes and many
// versions.
func manyRoutes(t *testing.T, routes, saves int) *sitetest.Registry {
	t.Helper()
	client, err := store.Open(t.Context(), valkeytest.Start(t),
		store.Options{Dial: 5 * time.Second, Write: 5 * time.Second, Pooled: true})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(client.Close)
	r := &sitetest.Registry{
		Store: registry.NewStore(client, sitetest.Pepper), T: t, Client: client,
		IDs: map[string]string{}, Names: map[string]string{}, Secrets: map[string]apikey.Secret{},
	}
	r.Plan("free", sitetest.Per(10, time.Minute))
	r.Save(func(s *policy.Set) {
		for i := range routes {
			s.Routes = append(s.Routes, sitetest.Route(fmt.Sprint("route-", i), "2",
				fmt.Sprintf("GET /some/longer/path-%d/{id}", i)))
		}
	})
	for i := range saves {
		r.Plan("free", sitetest.Per(int64(11+i%7), time.Minute))
	}
	return r
}

// The cache returns the changes of an entry in any order of entries, and compares the
// states of an entry once.
func TestCachedChanges(t *testing.T) {
	keys := sitetest.NewRegistry(t)
	for i := range 12 {
		keys.Plan(fmt.Sprint("plan-", i%5), sitetest.Per(int64(1+i), time.Minute))
	}
	list := func(packed bool) []audit.Entry {
		page, err := keys.Audit().List(t.Context(),
			audit.Query{Subject: app.PolicyRecord, Count: 100, KeepPacked: packed})
		keys.Must(err)
		return page.Entries
	}
	full, packed := list(false), list(true)
	for name, order := range map[string]func([]audit.Entry){
		"newest first": func([]audit.Entry) {}, "oldest first": slices.Reverse[[]audit.Entry],
	} {
		full, packed := slices.Clone(full), slices.Clone(packed)
		order(full)
		order(packed)
		cache := &changes.Cache{}
		for i, e := range packed {
			if got, want := cache.Of(e), changes.OfEntry(full[i]); !reflect.DeepEqual(got, want) ||
				len(want) == 0 {
				t.Errorf("%s: entry %d has changes %v, want %v", name, i, got, want)
			}
		}
		altered := full[3]
		altered.Before = nil
		if !reflect.DeepEqual(cache.Of(altered), changes.OfEntry(full[3])) {
			t.Errorf("%s: a cached entry is compared again", name)
		}
		altered.Hash = "another"
		if reflect.DeepEqual(cache.Of(altered), changes.OfEntry(full[3])) {
			t.Errorf("%s: an entry with another hash gets the cached changes", name)
		}
	}
	cache := &changes.Cache{}
	for i := range 3 * changes.MaxCached {
		cache.Of(audit.Entry{ID: fmt.Sprint(i), Subject: app.PolicyRecord, After: json.RawMessage(`{`)})
	}
	if cache.Len() > changes.MaxCached {
		t.Errorf("got %d cached entries, want at most %d", cache.Len(), changes.MaxCached)
	}
}

// A policy that the audit log stores packed is undone, reverted, exported and verified
// like any other.
func TestLargePolicyIsUndoneRevertedExported(t *testing.T) {
	keys := manyRoutes(t, 100, 1)
	s := sitetest.New(t, sitetest.WithKeys(keys)).Login()
	requests := func() int64 {
		set, err := keys.Set(t.Context())
		keys.Must(err)
		if len(set.Routes) != 100 {
			t.Fatalf("got %d routes, want 100", len(set.Routes))
		}
		return set.Plans[0].Limits[0].Requests
	}
	newest := func() audit.Entry {
		page, err := keys.Audit().List(t.Context(), audit.Query{Subject: app.PolicyRecord, Count: 1})
		keys.Must(err)
		return page.Entries[0]
	}
	first := newest()
	s.Post("/audit/"+first.ID+"/undo", nil).Wants(t, http.StatusSeeOther)
	if got := requests(); got != 10 {
		t.Errorf("the undo left a limit of %d requests, want 10", got)
	}
	s.Get("/policies").Wants(t, http.StatusOK, "/audit/"+newest().ID+"/undo")
	version := fmt.Sprint(newest().Version)
	s.Get("/audit/"+newest().ID+"/revert").Wants(t, http.StatusOK, "plan free: limits")
	s.Post("/audit/"+newest().ID+"/revert", url.Values{
		"version": {version}, "reason": {"once more"},
	}).Wants(t, http.StatusSeeOther)
	if got := requests(); got != 11 {
		t.Errorf("the revert left a limit of %d requests, want 11", got)
	}
	rows, err := csv.NewReader(
		strings.NewReader(s.Get("/audit.csv?subject=policy").Wants(t, http.StatusOK).Body),
	).ReadAll()
	keys.Must(err)
	if e := newest(); rows[1][9] != string(e.Before) || rows[1][10] != string(e.After) ||
		len(e.After) < 10_000 {
		t.Errorf("the export has states of %d and %d bytes, the audit log of %d and %d", len(rows[1][9]),
			len(rows[1][10]), len(e.Before), len(e.After))
	}
	s.Get("/audit/verify?subject=policy").Wants(
		t, http.StatusOK, "are intact and in order", "plan free: limits",
	)
}
