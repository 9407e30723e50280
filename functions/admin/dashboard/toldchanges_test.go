package dashboard

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

	"tidegate/functions/admin/dashboard/page"
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
func manyRoutes(t *testing.T, routes, saves int) *testRegistry {
	t.Helper()
	client, err := store.Open(t.Context(), valkeytest.Start(t), store.Options{Dial: 5 * time.Second, Write: 5 * time.Second, Pooled: true})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(client.Close)
	r := &testRegistry{
		Store: registry.NewStore(client, testPepper), t: t, client: client,
		ids: map[string]string{}, names: map[string]string{}, secrets: map[string]apikey.Secret{},
	}
	r.plan("free", per(10, time.Minute))
	r.save(func(s *policy.Set) {
		for i := range routes {
			s.Routes = append(s.Routes, policy.Route{
				Name: fmt.Sprint("route-", i), Pattern: routing.Pattern{Method: "GET", Path: fmt.Sprintf("/some/longer/path-%d/{id}", i)},
				Cost: 1, PerKey: []limiter.Limit{per(50, time.Minute)},
			})
		}
	})
	for i := range saves {
		r.plan("free", per(int64(11+i%7), time.Minute))
	}
	return r
}

// sent is how many bytes Valkey sent so far.
func (r *testRegistry) sent() (n int64) {
	r.t.Helper()
	info, err := r.client.Do(r.t.Context(), r.client.B().Info().Section("stats").Build()).ToString()
	r.must(err)
	_, after, _ := strings.Cut(info, "total_net_output_bytes:")
	_, err = fmt.Sscan(after, &n)
	r.must(err)
	return n
}

// A page reads of a policy's history what it shows, packed.
func TestPagesReadLittleOfTheAudit(t *testing.T) {
	keys := manyRoutes(t, 100, 60)
	set, err := keys.Set(t.Context())
	keys.must(err)
	text, err := json.Marshal(set)
	keys.must(err)
	s := newSite(t, withKeys(keys)).login()
	state := int64(len(text))
	for path, most := range map[string]int64{
		"/": 10 * state, // 50 marks, which are 100 states
		// none
		"/?from=" + page.Stamp(time.Now().Add(-3*time.Hour)) + "&to=" + page.Stamp(time.Now().Add(-2*time.Hour)): state,
		"/audit?subject=policy": 10 * state,
	} {
		before := keys.sent()
		s.refresh(path).wants(t, http.StatusOK)
		if got := keys.sent() - before; got > most {
			t.Errorf("%s: %d bytes, want %d at most, the policy having %d", path, got, most, state)
		}
	}
	now := "/?from=" + page.Stamp(time.Now().Add(-time.Hour)) + "&to=" + page.Stamp(time.Now().Add(time.Hour))
	if marks := strings.Count(s.get(now).body, "plan free: limits"); marks < maxMarks {
		t.Errorf("%d marks of the plan's limits, want %d", marks, maxMarks)
	}
}

// What is remembered of an entry is what the entry tells, in whatever order entries come,
// and is found out once.
func TestToldChanges(t *testing.T) {
	keys := newRegistry(t)
	for i := range 12 {
		keys.plan(fmt.Sprint("plan-", i%5), per(int64(1+i), time.Minute))
	}
	list := func(heads bool) []audit.Entry {
		page, err := keys.Audit().List(t.Context(), audit.Query{Subject: policyset.SetID, Count: 100, Heads: heads})
		keys.must(err)
		return page.Entries
	}
	full, heads := list(false), list(true)
	for name, order := range map[string]func([]audit.Entry){"newest first": func([]audit.Entry) {}, "oldest first": slices.Reverse[[]audit.Entry]} {
		full, heads := slices.Clone(full), slices.Clone(heads)
		order(full)
		order(heads)
		told := &toldChanges{}
		for i, e := range heads {
			if got, want := told.of(e), entryChanges(full[i]); !reflect.DeepEqual(got, want) || len(want) == 0 {
				t.Errorf("%s, entry %d: %v, want %v", name, i, got, want)
			}
		}
		again := full[3]
		again.Before = nil
		if !reflect.DeepEqual(told.of(again), entryChanges(full[3])) {
			t.Errorf("%s: found out once more", name)
		}
		again.Hash = "another"
		if reflect.DeepEqual(told.of(again), entryChanges(full[3])) {
			t.Errorf("%s: an entry passes for another", name)
		}
	}
	told := &toldChanges{}
	for i := range 3 * maxTold {
		told.of(audit.Entry{ID: fmt.Sprint(i), Subject: policyset.SetID, After: json.RawMessage(`{`)})
	}
	if len(told.known) > maxTold {
		t.Errorf("%d entries are remembered", len(told.known))
	}
}

// What is stored packed is undone, reverted, exported and verified as the rest.
func TestLargePolicyIsUndoneRevertedExported(t *testing.T) {
	keys := manyRoutes(t, 100, 1)
	s := newSite(t, withKeys(keys)).login()
	requests := func() int64 {
		set, err := keys.Set(t.Context())
		keys.must(err)
		if len(set.Routes) != 100 {
			t.Fatalf("%d routes", len(set.Routes))
		}
		return set.Plans[0].Limits[0].Requests
	}
	newest := func() audit.Entry {
		page, err := keys.Audit().List(t.Context(), audit.Query{Subject: policyset.SetID, Count: 1})
		keys.must(err)
		return page.Entries[0]
	}
	first := newest()
	s.post("/audit/"+first.ID+"/undo", nil).wants(t, http.StatusSeeOther)
	if got := requests(); got != 10 {
		t.Errorf("%d requests after the undo, want 10", got)
	}
	s.get("/policies").wants(t, http.StatusOK, "/audit/"+newest().ID+"/undo")
	version := fmt.Sprint(newest().Version)
	s.get("/audit/"+newest().ID+"/revert").wants(t, http.StatusOK, "plan free: limits")
	s.post("/audit/"+newest().ID+"/revert", url.Values{"version": {version}, "reason": {"once more"}}).wants(t, http.StatusSeeOther)
	if got := requests(); got != 11 {
		t.Errorf("%d requests after the revert, want 11", got)
	}
	rows, err := csv.NewReader(strings.NewReader(s.get("/audit.csv?subject=policy").wants(t, http.StatusOK).body)).ReadAll()
	keys.must(err)
	if e := newest(); rows[1][9] != string(e.Before) || rows[1][10] != string(e.After) || len(e.After) < 10_000 {
		t.Errorf("exported with %d and %d bytes, told with %d and %d", len(rows[1][9]), len(rows[1][10]), len(e.Before), len(e.After))
	}
	s.get("/audit/verify?subject=policy").wants(t, http.StatusOK, "are as they were written", "plan free: limits")
}
