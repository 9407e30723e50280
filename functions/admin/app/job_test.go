package app_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"tidegate/functions/admin/app"
	"tidegate/internal/audit"
	"tidegate/internal/enforce"
	"tidegate/internal/policy"
	"tidegate/internal/records"
	"tidegate/internal/registry"
	"tidegate/internal/store/keyspace"
	"tidegate/internal/testing/sitetest"
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
	return jobs{app.NewRegistry(keys.Store, records.NewReader(keys.Client, time.Now),
		enforce.NewChecker(keys.Client, sitetest.Pepper)), keys, t}
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
	started, err := j.StartJob(j.t.Context(), j.set(), job, nil, edit)
	if err != nil {
		j.t.Fatal(err)
	}
	return started
}

// run continues a job to its end.
func (j jobs) run(job app.Job) app.Job {
	j.t.Helper()
	for range 100 {
		var err error
		if job, err = j.StepJob(j.t.Context(), job.ID); err != nil {
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
	undo, err := j.UndoingJob(j.t.Context(), job)
	if err != nil {
		j.t.Fatal(err)
	}
	return j.run(j.start(undo))
}

// entries returns the audit entries of the keys that a job changed.
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
		t.Errorf("%s: got %d done, %d skipped, %d failed, want %d, %d, %d: %+v", what, job.Done, job.Skipped,
			job.Failed, done, skipped, failed, job.Failures)
	}
}

// everyKey is a job that changes the plan of up to count keys.
func everyKey(count int64) app.Job {
	return app.Job{KeyChange: app.KeyChange{Do: app.Plan},
		Plan: "pro", Filter: &app.KeyFilter{}, Total: count}
}

// A job changes each selected key once, skips keys that need no change, and its id is in
// the audit entry of each. Its undo reverts keys that were not changed since, and names
// the others. The undo can be undone.
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
		t.Errorf("got %d entries, the newest %+v, want %d with the reason", len(entries), entries[0], count-2)
	}
	since := map[string]string{"k0003": "The key was changed since.", "k0004": "The key was deleted since."}
	j.keys.UpdateKey("k0003", func(k *policy.Key) { k.Tags = []string{"vip"} })
	j.keys.Must(j.keys.Delete(t.Context(), j.keys.IDs["k0004"], sitetest.ByTest))
	j.keys.UpdateKey("k0005", func(k *policy.Key) { k.Plan = "free" }) // another user reverted it
	preview, err := j.PreviewUndo(t.Context(), j.set(), job)
	if want := (app.UndoPreview{Back: count - 5, Same: 1, Changed: 2, Whole: true}); err != nil ||
		preview != want {
		t.Errorf("preview: got %+v, %v, want %+v", preview, err, want)
	}
	undone := j.undo(job)
	wantCounts(t, "undo", undone, count-5, 1, 2)
	for _, f := range undone.Failures {
		if since[f.Name] != f.Why {
			t.Errorf("%s: got reason %q, want %q", f.Name, f.Why, since[f.Name])
		}
	}
	for name, want := range before {
		if name == "k0003" || name == "k0004" {
			continue
		}
		if got := j.keys.Key(name); got.Plan != want.Plan || got.Status != want.Status {
			t.Errorf("%s after the undo: got plan %s, %s, want %s, %s", name, got.Plan, got.Status,
				want.Plan, want.Status)
		}
	}
	wantCounts(t, "undo of the undo", j.undo(undone), count-5, 0, 0)
	if k := j.keys.Key("k0100"); k.Plan != "pro" || k.Version != 4 {
		t.Errorf("after the undo of the undo: got %+v, want plan pro in version 4", k)
	}
}

// A bulk revocation can be undone after its end, and a reset cannot.
func TestUndoOfRevocation(t *testing.T) {
	j := newJobs(t, 3)
	all := app.Job{KeyChange: app.KeyChange{Do: app.Revoke}, Filter: &app.KeyFilter{}, Total: 3}
	job := j.start(all)
	if _, err := j.UndoingJob(t.Context(), job); !errors.Is(err, app.ErrRunning) {
		t.Errorf("undo of a running job: got %v, want ErrRunning", err)
	}
	job = j.run(job)
	wantCounts(t, "revoke", job, 3, 0, 0)
	wantCounts(t, "undo", j.undo(job), 3, 0, 0)
	if k := j.keys.Key("k0001"); k.Status != policy.Active {
		t.Errorf("after the undo: got status %s, want active", k.Status)
	}
	all.Do = app.Reset
	if _, err := j.UndoingJob(t.Context(), j.run(j.start(all))); !errors.Is(err, app.ErrNoUndo) {
		t.Errorf("undo of a reset: got %v, want ErrNoUndo", err)
	}
}

// Four concurrent requests that continue a job change each key once, and its counts are
// exact.
func TestConcurrentSteps(t *testing.T) {
	const count = 2*app.Chunk + 100
	j := newJobs(t, count)
	job := j.start(everyKey(count))
	var wait sync.WaitGroup
	for range 4 {
		wait.Go(func() {
			for range 50 {
				if now, err := j.StepJob(t.Context(), job.ID); err != nil || now.Over() {
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
		t.Fatalf("got %+v, %v, want an ended job", job, err)
	}
	wantCounts(t, "job", job, count, 0, 0)
	if n := len(j.entries(job)); n != count {
		t.Errorf("got %d entries, want %d", n, count)
	}
}

// While an interrupted step has the lease, other steps wait and change nothing. They
// continue when the lease ends.
func TestInterruptedJob(t *testing.T) {
	j := newJobs(t, 3)
	job := j.start(everyKey(3))
	leased, err := j.keys.LeaseJob(t.Context(), job.ID, "dead", time.Minute)
	if err != nil || !leased {
		t.Fatalf("LeaseJob: got %t, %v, want a lease", leased, err)
	}
	job, err = j.StepJob(t.Context(), job.ID)
	if err != nil || job.Over() || j.keys.Key("k0001").Version != 1 {
		t.Fatalf("during another step: got %+v, %v, want no change", job, err)
	}
	open, err := j.OpenJobs(t.Context())
	if err != nil || len(open) != 1 || open[0].ID != job.ID {
		t.Errorf("open jobs: got %+v, %v, want the job", open, err)
	}
	j.keys.Server.FastForward(time.Minute)
	wantCounts(t, "after the lease", j.run(job), 3, 0, 0)
	dead := registry.JobSave{Holder: "dead", Text: "{}", Release: true}
	if saved, _, err := j.keys.SaveJob(t.Context(), job.ID, dead); saved || err != nil {
		t.Errorf("SaveJob of the interrupted step: got %t, %v, want false", saved, err)
	}
	if open, err = j.OpenJobs(t.Context()); err != nil || len(open) != 0 {
		t.Errorf("open jobs after the end: got %+v, %v, want none", open, err)
	}
}

// A stopped job continues only with resume.
func TestStoppedJob(t *testing.T) {
	j := newJobs(t, 3)
	job, err := j.StopJob(t.Context(), j.start(everyKey(3)).ID, sitetest.ByTest.By)
	if err != nil || !job.Stopped {
		t.Fatalf("StopJob: got %+v, %v, want a stopped job", job, err)
	}
	if job, err = j.StepJob(t.Context(), job.ID); err != nil || job.Processed() != 0 {
		t.Errorf("without resume: got %+v, %v, want no change", job, err)
	}
	if job, err = j.ResumeJob(t.Context(), job.ID, sitetest.ByTest.By); err != nil || !job.Over() {
		t.Errorf("with resume: got %+v, %v, want an ended job", job, err)
	}
	wantCounts(t, "continued", job, 3, 0, 0)
}

// The audit says who stopped and who continued a job, and the later changes are by the
// user who continued it.
func TestJobBelongsToWhoResumed(t *testing.T) {
	j := newJobs(t, 3)
	ada, eve := audit.Actor{Kind: "user", Name: "ada"}, audit.Actor{Kind: "user", Name: "eve"}
	job, err := j.StartJob(t.Context(), j.set(), everyKey(3), nil, app.Edit{By: ada, Reason: "a test"})
	j.keys.Must(err)
	if _, err = j.StopJob(t.Context(), job.ID, eve); err != nil {
		t.Fatal(err)
	}
	if job, err = j.ResumeJob(t.Context(), job.ID, eve); err != nil || !job.Over() {
		t.Fatalf("ResumeJob: got %+v, %v, want an ended job", job, err)
	}
	page, err := j.Audit().List(t.Context(), audit.Query{Subject: job.ID, Count: 10})
	j.keys.Must(err)
	var got []string
	for _, e := range page.Entries {
		got = append(got, e.Action+" "+e.By.Name)
	}
	want := []string{"job.end eve", "job.resume eve", "job.stop eve", "job.start ada"}
	if !slices.Equal(got, want) {
		t.Errorf("entries of the job: got %q, want %q", got, want)
	}
	for _, e := range j.entries(job) {
		if e.By != eve {
			t.Errorf("entry of %s: got by %+v, want eve", e.Name, e.By)
		}
	}
}

// A job moves keys to the plan that it was started with, whatever its name is by now, and
// leaves them if the plan is gone.
func TestJobFollowsThePlan(t *testing.T) {
	j := newJobs(t, 2)
	job := j.start(everyKey(2))
	var number int
	j.keys.Save(func(s *policy.Set) {
		number = s.Plans[1].Number
		s.Plans[1].Name = "old pro"
	})
	j.keys.Plan("pro", sitetest.Per(1_000_000, time.Minute))
	wantCounts(t, "after a rename", j.run(job), 2, 0, 0)
	if k := j.keys.Key("k0001"); k.PlanNumber != number {
		t.Errorf("got plan %d %s, want %d", k.PlanNumber, k.Plan, number)
	}
	job = j.start(app.Job{KeyChange: app.KeyChange{Do: app.Plan},
		Plan: "free", Filter: &app.KeyFilter{}, Total: 2})
	j.keys.Save(func(s *policy.Set) { s.Plans = s.Plans[1:] })
	if job = j.run(job); job.Failed != 2 || job.Failures[0].Why != "plan was deleted since: choose another" {
		t.Errorf("after a deletion: got %+v, want both keys named", job)
	}
}

// A job changes no more keys than the user confirmed, even if more match.
func TestJobIsBounded(t *testing.T) {
	j := newJobs(t, 12)
	job := j.run(j.start(everyKey(10)))
	wantCounts(t, "job", job, 10, 0, 0)
	if !job.More || j.keys.Key("k0010").Plan != "free" {
		t.Errorf("got %+v, want More and k0010 unchanged", job)
	}
}

// A job whose state Valkey lost is read from the audit log. It is stopped until somebody
// continues it, because it may have been stopped or undone before.
func TestJobLostByValkey(t *testing.T) {
	j := newJobs(t, 5)
	job := j.start(everyKey(5))
	forget := func() {
		j.keys.Server.Del(keyspace.Of(job.ID, "j"))
	}
	forget()
	for range 2 {
		now, err := j.StepJob(t.Context(), job.ID)
		if err != nil || !now.Stopped || now.Paused == "" || len(j.entries(job)) != 0 {
			t.Fatalf("lost at its start: got %+v, %v, want it stopped", now, err)
		}
	}
	resumed, err := j.ResumeJob(t.Context(), job.ID, sitetest.ByTest.By)
	if err != nil || !resumed.Over() || resumed.Paused != "" {
		t.Fatalf("continued: got %+v, %v, want an ended job", resumed, err)
	}
	wantCounts(t, "lost at its start", resumed, 5, 0, 0)
	forget()
	again, err := j.Job(t.Context(), job.ID)
	if err != nil || !again.Over() {
		t.Fatalf("lost after its end: got %+v, %v, want an ended job", again, err)
	}
	wantCounts(t, "undo of a lost job", j.undo(again), 5, 0, 0)
	for _, id := range []string{"", "nobody", "../x", j.keys.IDs["k0001"]} {
		if _, err := j.ResumeJob(t.Context(), id, sitetest.ByTest.By); !errors.Is(err, policy.ErrNotFound) {
			t.Errorf("job %q: got %v, want ErrNotFound", id, err)
		}
	}
}

// unavailable is a journal that accepts left entries and then does not answer.
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

// While the journal is unavailable, a job pauses with the reason, and a revocation is
// made.
func TestJobWithoutJournal(t *testing.T) {
	const count = 60
	j := newJobs(t, count)
	journal := &unavailable{left: 30}
	j.keys.Audit().UseJournal(journal)
	job, err := j.StepJob(t.Context(), j.start(everyKey(count)).ID)
	if err != nil || job.Over() || job.Paused == "" {
		t.Fatalf("without the journal: got %+v, %v, want a paused job", job, err)
	}
	revoked := j.run(j.start(app.Job{KeyChange: app.KeyChange{Do: app.Revoke},
		IDs: []string{j.keys.IDs["k0007"]}, Total: 1}))
	wantCounts(t, "revocation without a journal", revoked, 1, 0, 0)
	journal.left = 1 << 30
	if job = j.run(job); job.Paused != "" || job.Processed() != count || len(j.entries(job)) < count-1 {
		t.Errorf("with the journal again: got %+v, %d entries, want %d keys", job, len(j.entries(job)), count)
	}
}

// StartJob refuses a change that is invalid for every key, and stores no job.
func TestStartInvalidJob(t *testing.T) {
	j := newJobs(t, 2)
	var invalid *policy.InvalidError
	for name, job := range map[string]app.Job{
		"no reason": {KeyChange: app.KeyChange{Do: app.Override, Override: &policy.Override{}}},
		"plan":      {KeyChange: app.KeyChange{Do: app.Plan}, Plan: "none"},
		"ban":       {KeyChange: app.KeyChange{Do: app.Ban, Until: time.Now().Add(-time.Second)}},
		"expiry": {KeyChange: app.KeyChange{Do: app.SetExpiry,
			Until: time.Now().Add(-time.Second)}},
		"no tags":  {KeyChange: app.KeyChange{Do: app.AddTags}},
		"long tag": {KeyChange: app.KeyChange{Do: app.RemoveTags, Tags: []string{strings.Repeat("x", 51)}}},
		"many tags": {KeyChange: app.KeyChange{Do: app.AddTags,
			Tags: strings.Split("a b c d e f g h i j k", " ")}},
		"group": {KeyChange: app.KeyChange{Do: app.SetGroup, Group: "two words"}},
	} {
		job.Filter, job.Total = &app.KeyFilter{}, 2
		if _, err := j.StartJob(t.Context(), j.set(), job, nil, sitetest.ByTest); !errors.As(err, &invalid) {
			t.Errorf("%s: got %v, want an InvalidError", name, err)
		}
	}
	if open, err := j.OpenJobs(t.Context()); err != nil || len(open) != 0 || j.keys.Written() != 0 {
		t.Errorf("got open jobs %+v, %v and %d changes, want none", open, err, j.keys.Written())
	}
}
