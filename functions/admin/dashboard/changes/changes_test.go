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
	"time"

	"tidegate/functions/admin/dashboard/changes"
	"tidegate/functions/admin/dashboard/page"
	"tidegate/functions/admin/server/sitetest"
	"tidegate/internal/apikey"
	"tidegate/internal/audit"
	"tidegate/internal/limiter"
	"tidegate/internal/policy"
	"tidegate/internal/policyset"
	"tidegate/internal/registry"
	routing "tidegate/internal/route"
	"tidegate/internal/store"
	"tidegate/internal/testing/valkeytest"
)

// manyRoutes is a registry on a Valkey whose policy has many routes and was saved often.
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
			s.Routes = append(s.Routes, policy.Route{
				Name: fmt.Sprint("route-", i), Pattern: routing.Pattern{Method: "GET",
					Path: fmt.Sprintf("/some/longer/path-%d/{id}", i)},
				Cost: 1, PerKey: []limiter.Limit{sitetest.Per(50, time.Minute)},
			})
		}
	})
	for i := range saves {
		r.Plan("free", sitetest.Per(int64(11+i%7), time.Minute))
	}
	return r
}

// sent is how many bytes Valkey sent so far.
func bytesSent(r *sitetest.Registry) (n int64) {
	r.T.Helper()
	info, err := r.Client.Do(r.T.Context(), r.Client.B().Info().Section("stats").Build()).ToString()
	r.Must(err)
	_, after, _ := strings.Cut(info, "total_net_output_bytes:")
	_, err = fmt.Sscan(after, &n)
	r.Must(err)
	return n
}

// A page reads of a policy's history what it shows, packed.
func TestPagesReadLittleOfTheAudit(t *testing.T) {
	keys := manyRoutes(t, 100, 60)
	set, err := keys.Set(t.Context())
	keys.Must(err)
	text, err := json.Marshal(set)
	keys.Must(err)
	s := sitetest.New(t, sitetest.WithKeys(keys)).Login()
	state := int64(len(text))
	for path, most := range map[string]int64{
		"/": 10 * state, // 50 marks, which are 100 states
		// none
		"/?from=" + page.Stamp(time.Now().Add(-3*time.Hour)) + "&to=" +
			page.Stamp(time.Now().Add(-2*time.Hour)): state,
		"/audit?subject=policy": 10 * state,
	} {
		before := bytesSent(keys)
		s.Refresh(path).Wants(t, http.StatusOK)
		if got := bytesSent(keys) - before; got > most {
			t.Errorf("%s: %d bytes, want %d at most, the policy having %d", path, got, most, state)
		}
	}
	now := "/?from=" + page.Stamp(time.Now().Add(-time.Hour)) + "&to=" + page.Stamp(time.Now().Add(time.Hour))
	if marks := strings.Count(s.Get(now).Body, "plan free: limits"); marks < 50 {
		t.Errorf("%d marks of the plan's limits, want %d", marks, 50)
	}
}

// What is remembered of an entry is what the entry has, in whatever order entries come,
// and is found out once.
func TestCachedChanges(t *testing.T) {
	keys := sitetest.NewRegistry(t)
	for i := range 12 {
		keys.Plan(fmt.Sprint("plan-", i%5), sitetest.Per(int64(1+i), time.Minute))
	}
	list := func(heads bool) []audit.Entry {
		page, err := keys.Audit().List(t.Context(),
			audit.Query{Subject: policyset.SetID, Count: 100, KeepPacked: heads})
		keys.Must(err)
		return page.Entries
	}
	full, heads := list(false), list(true)
	for name, order := range map[string]func([]audit.Entry){"newest first": func([]audit.Entry) {
	}, "oldest first": slices.Reverse[[]audit.Entry]} {
		full, heads := slices.Clone(full), slices.Clone(heads)
		order(full)
		order(heads)
		cache := &changes.Cache{}
		for i, e := range heads {
			if got, want := cache.Of(e), changes.OfEntry(full[i]); !reflect.DeepEqual(got, want) ||
				len(want) == 0 {
				t.Errorf("%s, entry %d: %v, want %v", name, i, got, want)
			}
		}
		again := full[3]
		again.Before = nil
		if !reflect.DeepEqual(cache.Of(again), changes.OfEntry(full[3])) {
			t.Errorf("%s: found out once more", name)
		}
		again.Hash = "another"
		if reflect.DeepEqual(cache.Of(again), changes.OfEntry(full[3])) {
			t.Errorf("%s: an entry passes for another", name)
		}
	}
	cache := &changes.Cache{}
	for i := range 3 * changes.MaxCached {
		cache.Of(audit.Entry{ID: fmt.Sprint(i), Subject: policyset.SetID, After: json.RawMessage(`{`)})
	}
	if cache.Len() > changes.MaxCached {
		t.Errorf("%d entries are remembered", cache.Len())
	}
}

// What is stored packed is undone, reverted, exported and verified as the rest.
func TestLargePolicyIsUndoneRevertedExported(t *testing.T) {
	keys := manyRoutes(t, 100, 1)
	s := sitetest.New(t, sitetest.WithKeys(keys)).Login()
	requests := func() int64 {
		set, err := keys.Set(t.Context())
		keys.Must(err)
		if len(set.Routes) != 100 {
			t.Fatalf("%d routes", len(set.Routes))
		}
		return set.Plans[0].Limits[0].Requests
	}
	newest := func() audit.Entry {
		page, err := keys.Audit().List(t.Context(), audit.Query{Subject: policyset.SetID, Count: 1})
		keys.Must(err)
		return page.Entries[0]
	}
	first := newest()
	s.Post("/audit/"+first.ID+"/undo", nil).Wants(t, http.StatusSeeOther)
	if got := requests(); got != 10 {
		t.Errorf("%d requests after the undo, want 10", got)
	}
	s.Get("/policies").Wants(t, http.StatusOK, "/audit/"+newest().ID+"/undo")
	version := fmt.Sprint(newest().Version)
	s.Get("/audit/"+newest().ID+"/revert").Wants(t, http.StatusOK, "plan free: limits")
	s.Post("/audit/"+newest().ID+"/revert", url.Values{
		"version": {version}, "reason": {"once more"},
	}).Wants(t, http.StatusSeeOther)
	if got := requests(); got != 11 {
		t.Errorf("%d requests after the revert, want 11", got)
	}
	rows, err := csv.NewReader(
		strings.NewReader(s.Get("/audit.csv?subject=policy").Wants(t, http.StatusOK).Body),
	).ReadAll()
	keys.Must(err)
	if e := newest(); rows[1][9] != string(e.Before) || rows[1][10] != string(e.After) ||
		len(e.After) < 10_000 {
		t.Errorf("exported with %d and %d bytes, recorded with %d and %d", len(rows[1][9]), len(rows[1][10]),
			len(e.Before), len(e.After))
	}
	s.Get("/audit/verify?subject=policy").Wants(
		t, http.StatusOK, "are intact and in order", "plan free: limits",
	)
}
