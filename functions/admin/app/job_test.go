package app_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	"tidegate/functions/admin/app"
	"tidegate/functions/admin/server/sitetest"
	"tidegate/internal/audit"
	"tidegate/internal/policy"
	"tidegate/internal/registry"
	"tidegate/internal/store/keyspace"
	"tidegate/internal/usage"
)

// jobs is a registry with keys of the plan free, and a plan pro.
type jobs struct {
	*app.Registry
	keys *sitetest.Registry
	t    *testing.T
}

func newJobs(t *testing.T, count int) jobs {
	t.Helper()
	keys := sitetest.NewRegistry(t)
	keys.Plan("pro", sitetest.Per(100, time.Minute))
	for i := range count {
		keys.CreateKey(fmt.Sprintf("k%04d", i), "free")
	}
	return jobs{app.NewRegistry(keys.Store, usage.NewReader(keys.Client)), keys, t}
}

func (j jobs) set() *policy.Set {
	j.t.Helper()
	set, err := j.Set(j.t.Context())
	if err != nil {
		j.t.Fatal(err)
	}
	return set
}

func (j jobs) start(job app.Job) app.Job {
	j.t.Helper()
	edit := sitetest.ByTest
	edit.Reason = "a test"
	started, err := j.StartJob(j.t.Context(), j.set(), job, edit)
	if err != nil {
		j.t.Fatal(err)
	}
	return started
}

// run goes on with a job to its end.
func (j jobs) run(job app.Job) app.Job {
	j.t.Helper()
	for range 100 {
		var err error
		if job, err = j.StepJob(j.t.Context(), job.ID, false); err != nil {
			j.t.Fatal(err)
		}
		if job.Over() {
			return job
		}
	}
	j.t.Fatal("the job does not end")
	return job
}

func (j jobs) undo(job app.Job) app.Job {
	j.t.Helper()
	undo, err := j.UndoOf(j.t.Context(), job)
	if err != nil {
		j.t.Fatal(err)
	}
	return j.run(j.start(undo))
}

// entries are the changes of keys that the audit has of a job.
func (j jobs) entries(job app.Job) []audit.Entry {
	j.t.Helper()
	var all []audit.Entry
	q := audit.Query{Job: job.ID, Count: 500}
	for {
		page, err := j.Audit().List(j.t.Context(), q)
		if err != nil {
			j.t.Fatal(err)
		}
		all = append(all, page.Entries...)
		if q.After = page.Next; q.After == "" {
			return all
		}
	}
}

func wantCounts(t *testing.T, what string, job app.Job, done, skipped, failed int64) {
	t.Helper()
	if job.Done != done || job.Skipped != skipped || job.Failed != failed {
		t.Errorf("%s: %d changed, %d skipped, %d failed, want %d, %d, %d: %+v", what, job.Done, job.Skipped,
			job.Failed, done, skipped, failed, job.Failures)
	}
}

func everyKey(count int64) app.Job {
	return app.Job{Do: app.Plan, Plan: "pro", Filter: &app.KeyFilter{}, Total: count}
}

// A job changes the keys that it is to change, once, leaves the others, and the audit has
// its id in the entry of each. Its undo puts each back that was not changed since, and
// says which were. So does the undo of the undo.
func TestJobAndUndo(t *testing.T) {
	const count = app.Chunk + 40
	j := newJobs(t, count)
	j.keys.UpdateKey("k0001", func(k *policy.Key) { k.Plan = "pro" })
	j.keys.UpdateKey("k0002", func(k *policy.Key) { k.Status = policy.Revoked })
	before := map[string]policy.Key{}
	for name := range j.keys.IDs {
		before[name] = j.keys.Key(name)
	}
	job := j.run(j.start(everyKey(count)))
	wantCounts(t, "job", job, count-2, 2, 0)
	if entries := j.entries(job); len(entries) != count-2 || entries[0].Reason != "a test" {
		t.Errorf("%d entries, the newest %+v", len(entries), entries[0])
	}
	since := map[string]string{"k0003": "changed since", "k0004": "deleted since"}
	j.keys.UpdateKey("k0003", func(k *policy.Key) { k.Tags = []string{"vip"} })
	j.keys.Must(j.keys.Delete(t.Context(), j.keys.IDs["k0004"], sitetest.ByTest))
	j.keys.UpdateKey("k0005", func(k *policy.Key) { k.Plan = "free" }) // somebody put it back
	ended, end := context.WithCancel(t.Context())
	end() // a preview may take longer than a request's time for Valkey
	preview, err := j.PreviewUndo(ended, j.set(), job)
	if want := (app.UndoPreview{Back: count - 5, Same: 1, Changed: 2, Whole: true}); err != nil ||
		preview != want {
		t.Errorf("preview %+v, %v, want %+v", preview, err, want)
	}
	undone := j.undo(job)
	wantCounts(t, "undo", undone, count-5, 1, 2)
	for _, f := range undone.Failures {
		if since[f.Name] != f.Why {
			t.Errorf("%s was left: %s", f.Name, f.Why)
		}
	}
	for name, was := range before {
		if name == "k0003" || name == "k0004" {
			continue
		}
		if is := j.keys.Key(name); is.Plan != was.Plan || is.Status != was.Status {
			t.Errorf("%s has %s, %s after the undo, had %s, %s", name, is.Plan, is.Status, was.Plan,
				was.Status)
		}
	}
	wantCounts(t, "undo of the undo", j.undo(undone), count-5, 0, 0)
	if k := j.keys.Key("k0100"); k.Plan != "pro" || k.Version != 4 {
		t.Errorf("after the undo of the undo: %+v", k)
	}
}

// What is revoked in bulk can be taken back, what is reset cannot.
func TestUndoOfRevocation(t *testing.T) {
	j := newJobs(t, 3)
	all := app.Job{Do: app.Revoke, Filter: &app.KeyFilter{}, Total: 3}
	job := j.start(all)
	if _, err := j.UndoOf(t.Context(), job); !errors.Is(err, app.ErrRunning) {
		t.Errorf("undo of a job that goes on: %v", err)
	}
	job = j.run(job)
	wantCounts(t, "revoke", job, 3, 0, 0)
	wantCounts(t, "undo", j.undo(job), 3, 0, 0)
	if k := j.keys.Key("k0001"); k.Status != policy.Active {
		t.Errorf("after the undo: %s", k.Status)
	}
	all.Do = app.Reset
	if _, err := j.UndoOf(t.Context(), j.run(j.start(all))); !errors.Is(err, app.ErrNoUndo) {
		t.Errorf("undo of a reset: %v", err)
	}
}

// Four who go on with a job at once change each key once, and lose no count.
func TestJobContinuedByMany(t *testing.T) {
	const count = 2*app.Chunk + 100
	j := newJobs(t, count)
	job := j.start(everyKey(count))
	var wait sync.WaitGroup
	for range 4 {
		wait.Go(func() {
			for range 50 {
				if now, err := j.StepJob(t.Context(), job.ID, false); err != nil || now.Over() {
					if err != nil {
						t.Error(err)
					}
					return
				}
			}
		})
	}
	wait.Wait()
	job, err := j.Job(t.Context(), job.ID)
	if err != nil || !job.Over() {
		t.Fatalf("%+v, %v", job, err)
	}
	wantCounts(t, "job", job, count, 0, 0)
	if n := len(j.entries(job)); n != count {
		t.Errorf("%d entries for %d keys", n, count)
	}
}

// A step that died leaves a lease: others wait, change nothing, and go on when it ends.
func TestInterruptedJob(t *testing.T) {
	j := newJobs(t, 3)
	job := j.start(everyKey(3))
	leased, err := j.keys.LeaseJob(t.Context(), job.ID, "dead", time.Minute)
	if err != nil || !leased {
		t.Fatal(leased, err)
	}
	job, err = j.StepJob(t.Context(), job.ID, false)
	if err != nil || job.Over() || j.keys.Key("k0001").Version != 1 {
		t.Fatalf("during another step: %+v, %v", job, err)
	}
	open, err := j.OpenJobs(t.Context())
	if err != nil || len(open) != 1 || open[0].ID != job.ID {
		t.Errorf("open jobs %+v, %v", open, err)
	}
	j.keys.Server.FastForward(time.Minute)
	wantCounts(t, "after the lease", j.run(job), 3, 0, 0)
	dead := registry.JobSave{Holder: "dead", Text: "{}", Release: true}
	if saved, _, err := j.keys.SaveJob(t.Context(), job.ID, dead); saved || err != nil {
		t.Errorf("the step that died saves: %t, %v", saved, err)
	}
	if open, err = j.OpenJobs(t.Context()); err != nil || len(open) != 0 {
		t.Errorf("open jobs after the end %+v, %v", open, err)
	}
}

// A job that was stopped waits for somebody who continues it.
func TestStoppedJob(t *testing.T) {
	j := newJobs(t, 3)
	job, err := j.StopJob(t.Context(), j.start(everyKey(3)).ID)
	if err != nil || !job.Stopped {
		t.Fatalf("%+v, %v", job, err)
	}
	if job, err = j.StepJob(t.Context(), job.ID, false); err != nil || job.Processed() != 0 {
		t.Errorf("a stopped job went on: %+v, %v", job, err)
	}
	if job, err = j.StepJob(t.Context(), job.ID, true); err != nil || !job.Over() {
		t.Errorf("continued: %+v, %v", job, err)
	}
	wantCounts(t, "continued", job, 3, 0, 0)
}

// No more keys are changed than were confirmed, whatever matches by then.
func TestJobIsBounded(t *testing.T) {
	j := newJobs(t, 12)
	job := j.run(j.start(everyKey(10)))
	wantCounts(t, "job", job, 10, 0, 0)
	if !job.More || j.keys.Key("k0010").Plan != "free" {
		t.Errorf("%+v", job)
	}
}

// A job whose state Valkey lost goes on from what the audit has of it, when somebody
// continues it: it may have been stopped or undone before.
func TestJobLostByValkey(t *testing.T) {
	j := newJobs(t, 5)
	job := j.start(everyKey(5))
	forget := func() {
		j.keys.Server.Del(keyspace.Of(job.ID, "j"))
	}
	forget()
	for range 2 {
		now, err := j.StepJob(t.Context(), job.ID, false)
		if err != nil || !now.Stopped || now.Paused == "" || len(j.entries(job)) != 0 {
			t.Fatalf("lost at its start, it goes on by itself: %+v, %v", now, err)
		}
	}
	resumed, err := j.StepJob(t.Context(), job.ID, true)
	if err != nil || !resumed.Over() || resumed.Paused != "" {
		t.Fatalf("continued: %+v, %v", resumed, err)
	}
	wantCounts(t, "lost at its start", resumed, 5, 0, 0)
	forget()
	again, err := j.Job(t.Context(), job.ID)
	if err != nil || !again.Over() {
		t.Fatalf("lost after its end: %+v, %v", again, err)
	}
	wantCounts(t, "undo of a lost job", j.undo(again), 5, 0, 0)
	for _, id := range []string{"", "nobody", "../x", j.keys.IDs["k0001"]} {
		if _, err := j.StepJob(t.Context(), id, true); !errors.Is(err, policy.ErrNotFound) {
			t.Errorf("job %q: %v", id, err)
		}
	}
}

// unavailable is a journal that takes so many entries and then does not answer.
type unavailable struct {
	audit.Journal
	mu   sync.Mutex
	left int
}

func (a *unavailable) Ready(context.Context, keyspace.Bucket, []byte) error {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.left--; a.left < 0 {
		return audit.ErrJournalUnavailable
	}
	return nil
}

func (*unavailable) Ship(context.Context, keyspace.Bucket) error { return nil }

func (*unavailable) Queues() bool { return false }

// While the journal is unavailable a job pauses, and says so; a revocation acts all the
// same.
func TestJobWithoutJournal(t *testing.T) {
	const count = 60
	j := newJobs(t, count)
	journal := &unavailable{left: 30}
	j.keys.Audit().UseJournal(journal)
	job, err := j.StepJob(t.Context(), j.start(everyKey(count)).ID, false)
	if err != nil || job.Over() || job.Paused == "" {
		t.Fatalf("without a journal: %+v, %v", job, err)
	}
	revoked := j.run(j.start(app.Job{Do: app.Revoke, IDs: []string{j.keys.IDs["k0007"]}, Total: 1}))
	wantCounts(t, "revocation without a journal", revoked, 1, 0, 0)
	journal.left = 1 << 30
	if job = j.run(job); job.Paused != "" || job.Processed() != count || len(j.entries(job)) < count-1 {
		t.Errorf("with the journal again: %+v, %d entries", job, len(j.entries(job)))
	}
}

// What would be refused for every key is refused before there is a job.
func TestJobThatNobodyCanDo(t *testing.T) {
	j := newJobs(t, 2)
	var invalid *policy.InvalidError
	for name, job := range map[string]app.Job{
		"limit": {Do: app.Override, Filter: &app.KeyFilter{}, Total: 2, Override: &policy.Override{
			Reason: "x",
		}},
		"plan": {Do: app.Plan, Plan: "none", Filter: &app.KeyFilter{}, Total: 2},
	} {
		if _, err := j.StartJob(t.Context(), j.set(), job, sitetest.ByTest); !errors.As(err, &invalid) {
			t.Errorf("%s: %v", name, err)
		}
	}
	if open, err := j.OpenJobs(t.Context()); err != nil || len(open) != 0 || j.keys.Written() != 0 {
		t.Errorf("%+v, %v, %d changes", open, err, j.keys.Written())
	}
}
