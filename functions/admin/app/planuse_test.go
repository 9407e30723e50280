package app_test

import (
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

// The keys of a plan come in the order of a plain list of every limit. Of a plan with more
// keys than are read, those denied or near a limit are among them.
func TestPlanUse(t *testing.T) {
	j, shares := crowd(t)
	for _, most := range []int{500, 5} {
		app.SetMaxPlanKeys(t, most)
		for name, count := range map[string]int{"pro": 20, "free": 40} {
			plan, _ := j.set().Plan(name)
			use, err := j.PlanUse(t.Context(), j.set(), plan, time.Now().Add(-time.Hour))
			if err != nil || use.All != (most == 500) || use.All && len(use.Keys) != count {
				t.Fatalf("%d keys read: got %d keys of %s, all %v, %v", most, len(use.Keys), name,
					use.All, err)
			}
			var read []string
			for i, k := range use.Keys {
				if read = append(read, k.ID); k.Plan != name || app.Share(k.Fullest()) != shares[k.ID] {
					t.Errorf("%s of plan %s has share %.2f, want %.2f of %s", k.Name, k.Plan,
						app.Share(k.Fullest()), shares[k.ID], name)
				}
				if i > 0 && shares[k.ID] > shares[read[i-1]] {
					t.Errorf("%s comes behind a key with a smaller share", k.Name)
				}
			}
			for name, id := range j.keys.IDs {
				k, err := j.Get(t.Context(), id)
				if err != nil || k.PlanNumber != plan.Number {
					continue
				}
				if shares[id] >= 0.8 && !slices.Contains(read, id) {
					t.Errorf("%d keys read: %s has a share of %.2f and is missing", most, name, shares[id])
				}
			}
		}
	}
}
