package app_test

import (
	"cmp"
	"fmt"
	"slices"
	"testing"
	"time"

	"tidegate/functions/admin/app"
	"tidegate/internal/enforce"
	"tidegate/internal/limits"
	"tidegate/internal/policy"
	"tidegate/internal/records"
	routing "tidegate/internal/route"
	"tidegate/internal/testing/sitetest"
)

// crowd makes 60 keys of two plans, of which some have an override, a group or calls on a
// route with a limit. It returns the registry and, for each key, its fullest share by the
// survey of its page.
func crowd(t *testing.T) (j fixture, shares map[string]float64) {
	t.Helper()
	j = newFixture(t, 60)
	j.keys.Save(func(set *policy.Set) {
		set.Plans[1].Limits = append(set.Plans[1].Limits, sitetest.Limit("40 per hour, each group"))
		set.Limits = []limits.Limit{sitetest.Limit("8 per hour, on orders, each caller")}
		set.Routes = []limits.Route{{Name: "orders", Match: []routing.Pattern{{Path: "/orders"}}}}
	})
	checker := enforce.NewChecker(j.keys.Client, sitetest.Pepper)
	recorder := records.NewRecorder(time.Now)
	for i := range 60 {
		name := fmt.Sprintf("k%04d", i)
		j.keys.UpdateKey(name, func(k *policy.Key) {
			if i%3 == 0 {
				k.Plan = "pro"
			}
			if i%6 == 0 {
				k.Group = fmt.Sprintf("g%d", i%4)
			}
		})
		if i%7 == 0 {
			j.keys.OverrideKey(name, sitetest.Per(int64(20+i), time.Hour))
		}
		call := enforce.Call{Kind: policy.APIKey, Subject: j.keys.IDs[name], Secret: j.keys.Secrets[name]}
		for n := range (i * 7) % 11 {
			if call.Route.Path = "/"; i%5 == 0 && n%2 == 0 {
				call.Route.Path = "/orders"
			}
			checked, err := checker.Check(t.Context(), call)
			if err != nil {
				t.Fatal(err)
			}
			c := records.Call{Caller: call.Subject, Registered: true, Cost: 1, Time: time.Now()}
			for _, l := range checked.Limits {
				if !l.Unread && l.NearlyUsedUp() {
					c.NearFor = l.Span()
				}
			}
			recorder.Record(c)
		}
	}
	recorder.Flush(t.Context(), j.keys.Client)
	shares = map[string]float64{}
	for _, id := range j.keys.IDs {
		k, err := j.Get(t.Context(), id)
		if err != nil {
			t.Fatal(err)
		}
		_, survey, err := j.Survey(t.Context(), j.set(), k)
		if err != nil {
			t.Fatal(err)
		}
		for _, l := range survey.Result.Limits {
			if !l.Unread && l.Enforced() {
				shares[id] = max(shares[id], app.Share(l))
			}
		}
	}
	return j, shares
}

// The order by the fullest limit equals that of a plain list of every limit, when all keys
// are read and when only listed and busy ones are.
func TestClosest(t *testing.T) {
	j, shares := crowd(t)
	byShare := func(a, b string) int {
		return cmp.Or(cmp.Compare(shares[b], shares[a]), cmp.Compare(a, b))
	}
	var plain []string
	for id := range shares {
		plain = append(plain, id)
	}
	slices.SortFunc(plain, byShare)
	near := slices.IndexFunc(plain, func(id string) bool { return shares[id] < 0.8 })
	if near < 5 || near > 50 {
		t.Fatalf("%d of 60 keys are near a limit, want some", near)
	}
	for _, c := range []struct {
		read  int
		reach app.Reach
		count int // of the list that must equal the plain one
	}{{500, app.ReadAll, 60}, {59, app.ReadNear, near}, {near, app.ReadNear, near}, {3, app.ReadSome, 0}} {
		app.SetMaxRead(t, c.read)
		found, err := app.FindOrdered(t.Context(), j.Registry, j.set(), app.KeyFilter{}, app.Closest, "", 60)
		if err != nil {
			t.Fatal(err)
		}
		if found.Reach != c.reach || found.Next != "" {
			t.Errorf("%d keys read: got reach %s, want %s", c.read, found.Reach, c.reach)
		}
		var got []string
		for _, s := range found.Subjects {
			got = append(got, s.ID)
			if share := app.Share(s.Fullest); share != shares[s.ID] {
				t.Errorf("%d keys read: share %.2f of a limit %s of %s, want %.2f", c.read, share,
					s.Fullest.Limit, s.Fullest.For(), shares[s.ID])
			}
		}
		if len(got) < c.count || !slices.Equal(got[:c.count], plain[:c.count]) {
			t.Errorf("%d keys read: got %v, want %v first", c.read, got, plain[:c.count])
		}
	}
}

// The list of a filter and of a plan's page have that plan's keys only, in the same order.
func TestClosestOfPlan(t *testing.T) {
	j, shares := crowd(t)
	pro, _ := j.set().Plan("pro")
	found, err := app.FindOrdered(t.Context(), j.Registry, j.set(), app.KeyFilter{Plan: pro.Number},
		app.Closest, "", 5)
	if err != nil || len(found.Subjects) != 5 || found.Reach != app.ReadAll {
		t.Fatalf("got %d keys and %v, want 5 of all", len(found.Subjects), err)
	}
	use, err := j.PlanUse(t.Context(), j.set(), pro.Number, time.Now().Add(-time.Hour))
	if err != nil || len(use.Keys) != 20 {
		t.Fatalf("got %d keys and %v, want the 20 of the plan", len(use.Keys), err)
	}
	for i, k := range use.Keys {
		if i < 5 && k.ID != found.Subjects[i].ID {
			t.Errorf("place %d: got %s and %s", i, k.Name, found.Subjects[i].Name)
		}
		if k.Plan != "pro" || app.Share(k.Fullest) != shares[k.ID] {
			t.Errorf("got %s of plan %s with share %.2f, want %.2f", k.Name, k.Plan,
				app.Share(k.Fullest), shares[k.ID])
		}
	}
}
