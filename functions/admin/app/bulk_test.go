package app_test

import (
	"errors"
	"testing"
	"time"

	"tidegate/functions/admin/app"
	"tidegate/internal/enforce"
	"tidegate/internal/policy"
	"tidegate/internal/records"
	"tidegate/internal/registry"
	"tidegate/internal/testing/sitetest"
)

// fixture is a registry with keys of the plan free, and a plan pro.
type fixture struct {
	*app.Registry
	keys *sitetest.Registry
	t    *testing.T
}

func newFixture(t *testing.T, count int) fixture {
	t.Helper()
	keys := sitetest.NewRegistry(t)
	keys.Plan("pro", sitetest.Per(100, time.Minute))
	keys.CreateKeys(count, "free")
	return fixture{app.NewRegistry(keys.Store, records.NewReader(keys.Client, time.Now),
		enforce.NewChecker(keys.Client, sitetest.Pepper)), keys, t}
}

func (f fixture) set() *policy.Set {
	f.t.Helper()
	set, err := f.Set(f.t.Context())
	f.keys.Must(err)
	return set
}

var byTester = registry.Edit{By: sitetest.ByTest.By, Reason: "a test"}

// run makes all steps of a change, and returns their sum and the last change of the log.
func (f fixture) run(b app.Bulk) (sum app.Step, steps int) {
	f.t.Helper()
	f.keys.Must(f.CheckBulk(f.t.Context(), f.set(), b))
	for steps = 1; ; steps++ {
		s, err := f.StepBulk(f.t.Context(), f.set(), b, sum.Next, byTester)
		f.keys.Must(err)
		sum = app.Step{Change: s.Change, Done: sum.Done + s.Done, Skipped: sum.Skipped + s.Skipped,
			Failures: append(sum.Failures, s.Failures...), Next: s.Next, More: s.More}
		if s.Next == "" {
			return sum, steps
		}
		if steps > 100 {
			f.t.Fatal("the change does not end")
		}
	}
}

// everyKey is a change of all keys to the plan pro.
func (f fixture) everyKey(total int64) app.Bulk {
	f.t.Helper()
	pro, _ := f.set().Plan("pro")
	return app.Bulk{Filter: &app.KeyFilter{}, Total: total,
		Change: app.KeyChange{
			Action: registry.KeyPlan,
			Alter:  func(k *policy.Key) { k.PlanNumber = pro.Number },
		}}
}

func wantCounts(t *testing.T, s app.Step, done, skipped int64, failed int) {
	t.Helper()
	if s.Done != done || s.Skipped != skipped || len(s.Failures) != failed {
		t.Errorf("got %+v, want %d changed, %d skipped and %d failed", s, done, skipped, failed)
	}
}

// A change of many keys is one change of the log a step. A step that is repeated changes no
// key, and stores no change.
func TestBulkSteps(t *testing.T) {
	app.SetMaxStep(t, 20)
	f := newFixture(t, 50)
	f.keys.UpdateKey("k0003", func(k *policy.Key) { k.Status = policy.Revoked })
	f.keys.UpdateKey("k0030", func(k *policy.Key) { k.Plan = "pro" })
	before, err := f.Audit(t.Context(), registry.AuditQuery{Count: 1})
	f.keys.Must(err)
	sum, steps := f.run(f.everyKey(50))
	wantCounts(t, sum, 48, 2, 0)
	after, err := f.Audit(t.Context(), registry.AuditQuery{Count: 10})
	f.keys.Must(err)
	if made := after.Entries[0].Number - before.Entries[0].Number; steps != 3 || made != 3 {
		t.Errorf("got %d steps and %d changes, want 3", steps, made)
	}
	if e := after.Entries[0]; e.Items != 10 || e.Action != registry.KeyPlan || e.By != byTester.By ||
		e.Reason != "a test" {
		t.Errorf("got %+v, want a change of 10 plans", e)
	}
	again, err := f.StepBulk(t.Context(), f.set(), f.everyKey(50), "", byTester)
	if err != nil || again.Done != 0 || again.Change != 0 || again.Skipped != 20 {
		t.Errorf("repeated: got %+v, %v, want no change", again, err)
	}
	for _, position := range []string{"x", "7", "-1 a", "7 "} {
		_, err := f.StepBulk(t.Context(), f.set(), f.everyKey(50), position, byTester)
		if _, ok := errors.AsType[*policy.InvalidError](err); !ok {
			t.Errorf("position %q: got %v, want an InvalidError", position, err)
		}
	}
}

// No more keys are changed than the author confirmed.
func TestBulkIsBounded(t *testing.T) {
	app.SetMaxStep(t, 20)
	f := newFixture(t, 30)
	sum, _ := f.run(f.everyKey(25))
	wantCounts(t, sum, 25, 0, 0)
	if !sum.More {
		t.Error("the last step does not say that more keys match")
	}
}

// The plan is the one that had the name at the start, whatever its name becomes.
func TestBulkFollowsThePlan(t *testing.T) {
	app.SetMaxStep(t, 20)
	f := newFixture(t, 30)
	b := f.everyKey(30)
	s, err := f.StepBulk(t.Context(), f.set(), b, "", byTester)
	f.keys.Must(err)
	f.keys.Save(func(set *policy.Set) { set.Plans[1].Name = "gold" })
	s, err = f.StepBulk(t.Context(), f.set(), b, s.Next, byTester)
	if err != nil || s.Done != 10 || f.keys.Key("k0029").Plan != "gold" {
		t.Errorf("got %+v, %v, want 10 keys of the renamed plan", s, err)
	}
}

// An override without a reason, which fails for every key, is refused before its first step.
func TestCheckBulk(t *testing.T) {
	f := newFixture(t, 1)
	err := f.CheckBulk(t.Context(), f.set(), app.Bulk{Change: app.KeyChange{
		Action: registry.KeyOverride, Alter: func(k *policy.Key) { k.Override = &policy.Override{} }},
		Filter: &app.KeyFilter{}})
	if _, ok := errors.AsType[*policy.InvalidError](err); !ok {
		t.Errorf("got %v, want an InvalidError", err)
	}
}
