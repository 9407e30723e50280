package app_test

import (
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"tidegate/functions/admin/app"
	"tidegate/internal/policy"
	"tidegate/internal/testing/sitetest"
)

// history plays random changes of plans and keys, and remembers what each key had.
type history struct {
	jobs
	random *rand.Rand
	names  int // plans that were ever created
	log    []string
}

// did is a job of a history, and the plan number and version of each key that it changed.
type did struct {
	app.Job
	had, version map[string]int64
}

func (h *history) note(format string, args ...any) {
	h.log = append(h.log, fmt.Sprintf(format, args...))
}

func (h *history) anyKey() string { return fmt.Sprintf("k%04d", h.random.IntN(len(h.keys.IDs))) }

// moveKeys moves all keys to a random plan in a job.
func (h *history) moveKeys() did {
	h.t.Helper()
	set := h.set()
	p := set.Plans[h.random.IntN(len(set.Plans))]
	h.note("move keys to %d %s", p.Number, p.Name)
	d := did{had: map[string]int64{}, version: map[string]int64{}}
	before := map[string]policy.Key{}
	for name := range h.keys.IDs {
		before[name] = h.keys.Key(name)
	}
	n := int64(len(h.keys.IDs))
	d.Job = h.run(h.start(app.Job{KeyChange: app.KeyChange{Do: app.Plan},
		Plan: p.Name, Filter: &app.KeyFilter{}, Total: n}))
	for name, k := range before {
		if now := h.keys.Key(name); now.Version != k.Version {
			d.had[name], d.version[name] = int64(k.PlanNumber), now.Version
		}
	}
	return d
}

// change makes a random change between two jobs.
func (h *history) change() {
	h.t.Helper()
	set := h.set()
	i, j := h.random.IntN(len(set.Plans)), h.random.IntN(len(set.Plans))
	switch h.random.IntN(5) {
	case 0:
		h.note("rename %s", set.Plans[i].Name)
		h.keys.Save(func(s *policy.Set) { s.Plans[i].Name = h.newName() })
	case 1:
		h.note("swap %s and %s", set.Plans[i].Name, set.Plans[j].Name)
		h.keys.Save(func(s *policy.Set) {
			s.Plans[i].Name, s.Plans[j].Name = s.Plans[j].Name, s.Plans[i].Name
		})
	case 2:
		h.replacePlan(set, i)
	case 3:
		name := h.anyKey()
		h.note("tag %s", name)
		h.keys.UpdateKey(name, func(k *policy.Key) { k.Tags = []string{h.newName()} })
	case 4:
		name := h.anyKey()
		h.note("move %s to %s", name, set.Plans[i].Name)
		h.keys.UpdateKey(name, func(k *policy.Key) { k.Plan = set.Plans[i].Name })
	}
}

// replacePlan deletes a plan without keys, and creates another of its name.
func (h *history) replacePlan(set *policy.Set, i int) {
	counts, err := h.PlanCounts(h.t.Context(), set)
	h.keys.Must(err)
	name := set.Plans[i].Name
	if counts[set.Plans[i].Number] > 0 || len(set.Plans) < 2 {
		return
	}
	h.note("replace %s", name)
	h.keys.Save(func(s *policy.Set) { s.Plans = append(s.Plans[:i:i], s.Plans[i+1:]...) })
	h.keys.Plan(name, sitetest.Per(1_000_000, time.Minute))
}

func (h *history) newName() string {
	h.names++
	return fmt.Sprintf("name%d", h.names)
}

// undoAndCompare undoes a job. A key that nobody changed since must get the plan that it
// had, by number; if that plan is gone, and if somebody changed the key, it must keep its
// plan.
func (h *history) undoAndCompare(d did) {
	h.t.Helper()
	if len(d.had) == 0 {
		return
	}
	h.note("undo")
	set, want := h.set(), map[string]int64{}
	for name := range d.had {
		k := h.keys.Key(name)
		_, exists := set.PlanByNumber(int(d.had[name]))
		if want[name] = int64(k.PlanNumber); exists && k.Version == d.version[name] {
			want[name] = d.had[name]
		}
	}
	undone := h.undo(d.Job)
	if undone.Done+undone.Skipped+undone.Failed != int64(len(d.had)) {
		h.t.Errorf("undo: got %+v, want %d keys", undone, len(d.had))
	}
	for name, number := range want {
		if k := h.keys.Key(name); int64(k.PlanNumber) != number {
			h.t.Errorf("%s: got plan %d %s, want %d after %q", name, k.PlanNumber, k.Plan, number, h.log)
		}
	}
}

// The undo of a job gives each key the plan that it had, whatever was renamed, swapped,
// deleted and created again since.
func TestUndoAfterRandomHistory(t *testing.T) {
	for seed := range uint64(12) {
		h := history{jobs: newJobs(t, 4), random: rand.New(rand.NewPCG(seed, 1))}
		h.keys.Plan("bronze", sitetest.Per(5, time.Minute))
		for range 6 {
			done := h.moveKeys()
			for range h.random.IntN(5) {
				h.change()
			}
			h.undoAndCompare(done)
		}
		if t.Failed() {
			t.Fatalf("seed %d", seed)
		}
	}
}
