package app_test

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"tidegate/functions/admin/app"
	"tidegate/functions/admin/server/sitetest"
	"tidegate/internal/audit"
	"tidegate/internal/policy"
	"tidegate/internal/store/keyspace"
)

// gate is a journal whose first entry waits until it is opened.
type gate struct {
	audit.Journal
	first   atomic.Bool
	reached chan struct{}
	open    chan struct{}
}

func (g *gate) Ready(context.Context, keyspace.Bucket, []byte) error {
	if g.first.CompareAndSwap(false, true) {
		close(g.reached)
		<-g.open
	}
	return nil
}

func (*gate) Ship(context.Context, keyspace.Bucket) error { return nil }

func (*gate) Queues() bool { return false }

// stepped is what a step returned.
type stepped struct {
	app.Job
	err error
}

// amid begins a step of a job and returns in the middle of its first chunk. finish lets
// the step go on, and returns what it returned.
func (j jobs) amid(job app.Job, resume bool) (finish func() stepped) {
	j.t.Helper()
	g := &gate{reached: make(chan struct{}), open: make(chan struct{})}
	j.keys.Audit().UseJournal(g)
	done := make(chan stepped, 1)
	go func() {
		now, err := j.StepJob(j.t.Context(), job.ID, resume)
		done <- stepped{now, err}
	}()
	open := sync.OnceFunc(func() { close(g.open) })
	j.t.Cleanup(open)
	wait(j.t, g.reached, "the first key of the step")
	return func() stepped {
		j.t.Helper()
		open()
		return wait(j.t, done, "the end of the step")
	}
}

func wait[T any](t *testing.T, c <-chan T, what string) T {
	t.Helper()
	select {
	case v := <-c:
		return v
	case <-time.After(30 * time.Second):
		t.Fatal("no sign of " + what)
		panic("unreachable")
	}
}

// A stop is recorded while a step is under way: that step ends after its chunk, and no
// step begins, however often a client repeats its request, until somebody continues the
// job. Each stop counts, and an undo waits for the step.
func TestStopDuringStep(t *testing.T) {
	const count = app.Chunk + 40
	j := newJobs(t, count)
	job := j.start(everyKey(count))
	finish := j.amid(job, false)
	stopped, err := j.StopJob(t.Context(), job.ID)
	if err != nil || !stopped.Stopped {
		t.Fatalf("%+v, %v", stopped, err)
	}
	edit := sitetest.ByTest
	edit.Reason = "a test"
	if _, err := j.StartJob(t.Context(), nil, app.Job{Do: app.Undo, Undoes: job.ID}, edit); !errors.Is(err,
		app.ErrRunning) {
		t.Errorf("an undo beside the step: %v", err)
	}
	if now := finish(); now.err != nil || !now.Stopped || now.Processed() != app.Chunk {
		t.Fatalf("the step goes on: %+v", now)
	}
	for range 5 {
		if now, err := j.StepJob(t.Context(), job.ID, false); err != nil || !now.Stopped ||
			now.Processed() != app.Chunk {
			t.Fatalf("a client goes on with it: %+v, %v", now, err)
		}
	}
	if open, err := j.OpenJobs(t.Context()); err != nil || len(open) != 0 {
		t.Errorf("open jobs %+v, %v", open, err)
	}
	if job, err = j.StepJob(t.Context(), job.ID, true); err != nil || !job.Over() || job.Stopped {
		t.Errorf("continued: %+v, %v", job, err)
	}
	wantCounts(t, "continued", job, count, 0, 0)
	if job, err = j.StopJob(t.Context(), job.ID); err != nil || job.Stopped {
		t.Errorf("an ended job is stopped: %+v, %v", job, err)
	}
}

// A job that was continued after a stop can be stopped again, also in the first chunk of
// the step that continues it.
func TestStopAfterResume(t *testing.T) {
	const count = app.Chunk + 40
	j := newJobs(t, count)
	job := j.start(everyKey(count))
	stop := func() {
		t.Helper()
		if now, err := j.StopJob(t.Context(), job.ID); err != nil || !now.Stopped {
			t.Fatalf("%+v, %v", now, err)
		}
	}
	stop()
	finish := j.amid(job, true)
	if now, err := j.Job(t.Context(), job.ID); err != nil || now.Stopped {
		t.Errorf("continued: %+v, %v", now, err)
	}
	stop()
	if now := finish(); now.err != nil || !now.Stopped || now.Processed() != app.Chunk {
		t.Fatalf("the step goes on: %+v", now)
	}
	now, err := j.StepJob(t.Context(), job.ID, false)
	if err != nil || !now.Stopped || now.Processed() != app.Chunk {
		t.Errorf("after the second stop: %+v, %v", now, err)
	}
}

// A step whose lease ran out in the middle of a chunk neither undoes a stop nor stores
// what it did; who continues the job changes no key twice.
func TestStopAfterLease(t *testing.T) {
	const count = app.Chunk + 40
	j := newJobs(t, count)
	job := j.start(everyKey(count))
	finish := j.amid(job, false)
	j.keys.Server.FastForward(time.Minute)
	if now, err := j.StopJob(t.Context(), job.ID); err != nil || !now.Stopped {
		t.Fatalf("%+v, %v", now, err)
	}
	if late := finish(); !errors.Is(late.err, app.ErrTaken) {
		t.Errorf("the late step: %+v", late)
	}
	if now, err := j.StepJob(t.Context(), job.ID, false); err != nil || !now.Stopped || now.Processed() != 0 {
		t.Fatalf("after the late step: %+v, %v", now, err)
	}
	job, err := j.StepJob(t.Context(), job.ID, true)
	if err != nil || !job.Over() || job.Processed() != count || len(j.entries(job)) != count {
		t.Fatalf("continued: %+v, %v, %d entries", job, err, len(j.entries(job)))
	}
	wantCounts(t, "undo", j.undo(job), count, 0, 0)
}

// A stop is recorded after a step that died, and an error when Valkey does not take it.
func TestStopIsRecorded(t *testing.T) {
	j := newJobs(t, 3)
	job := j.start(everyKey(3))
	if leased, err := j.keys.LeaseJob(t.Context(), job.ID, "dead", time.Minute); err != nil || !leased {
		t.Fatal(leased, err)
	}
	j.keys.Server.SetError("OOM command not allowed when used memory > 'maxmemory'.")
	if now, err := j.StopJob(t.Context(), job.ID); err == nil {
		t.Errorf("nothing was recorded: %+v", now)
	}
	j.keys.Server.SetError("")
	if now, err := j.StopJob(t.Context(), job.ID); err != nil || !now.Stopped {
		t.Fatalf("%+v, %v", now, err)
	}
	j.keys.Server.FastForward(time.Minute)
	if now, err := j.StepJob(t.Context(), job.ID, false); err != nil || !now.Stopped || now.Processed() != 0 {
		t.Errorf("after the lease: %+v, %v", now, err)
	}
}

// hiccup is a journal that stores every entry but one, of which it reports an error.
type hiccup struct {
	audit.Journal
	mu    sync.Mutex
	ships int
	at    int
	err   error
}

func (*hiccup) Ready(context.Context, keyspace.Bucket, []byte) error { return nil }

func (h *hiccup) Ship(context.Context, keyspace.Bucket) error {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.ships++; h.ships == h.at {
		return h.err
	}
	return nil
}

func (*hiccup) Queues() bool { return false }

// A change that waits for the journal is made, and counts: the job pauses after its chunk
// and says why. One that Valkey may have lost is looked at again.
func TestJobPausesForTheJournal(t *testing.T) {
	for paused, c := range map[string]struct {
		err     error
		count   int
		looked  int64 // after the pause
		skipped int64 // in the end, because the chunk was done again
	}{
		"the journal does not have every change yet": {audit.ErrUnsafe, app.Chunk + 40, app.Chunk, 0},
		"Valkey may have lost a change":              {audit.ErrMayBeLost, 60, 0, 60},
		audit.ErrBehind.Error():                      {audit.ErrBehind, 60, 0, 60},
	} {
		j, count := newJobs(t, c.count), int64(c.count)
		job := j.start(everyKey(count))
		j.keys.Audit().UseJournal(&hiccup{at: 30, err: c.err})
		now, err := j.StepJob(t.Context(), job.ID, false)
		if err != nil || now.Paused != paused || now.Processed() != c.looked || now.Done != c.looked {
			t.Errorf("%s: %+v, %v", paused, now, err)
		}
		job = j.run(job)
		wantCounts(t, paused, job, count-c.skipped, c.skipped, 0)
		if job.Paused != "" || len(j.entries(job)) != c.count {
			t.Errorf("%s: in the end %+v, %d entries", paused, job, len(j.entries(job)))
		}
		wantCounts(t, "undo: "+paused, j.undo(job), count, 0, 0)
	}
}

// A job whose last change waits for the journal has ended, and says so.
func TestJobEndsUnsafe(t *testing.T) {
	j := newJobs(t, 60)
	job := j.start(everyKey(60))
	j.keys.Audit().UseJournal(&hiccup{at: 30, err: audit.ErrUnsafe})
	job, err := j.StepJob(t.Context(), job.ID, false)
	if err != nil || !job.Over() || job.Paused == "" {
		t.Fatalf("%+v, %v", job, err)
	}
	wantCounts(t, "job", job, 60, 0, 0)
	wantCounts(t, "undo", j.undo(job), 60, 0, 0)
}

// What a job changed can be undone when its counts do not have it: the journal became
// unavailable in the first chunk, and the job was stopped then.
func TestUndoOfUncounted(t *testing.T) {
	const count = 60
	j := newJobs(t, count)
	journal := &unavailable{left: 30}
	job := j.start(everyKey(count))
	j.keys.Audit().UseJournal(journal)
	job, err := j.StepJob(t.Context(), job.ID, false)
	if err != nil || job.Processed() != 0 || job.Paused != "the journal does not answer" {
		t.Fatalf("%+v, %v", job, err)
	}
	if job, err = j.StopJob(t.Context(), job.ID); err != nil {
		t.Fatal(err)
	}
	journal.left = 1 << 30
	undo, err := j.UndoOf(t.Context(), job)
	if err != nil || undo.Total != 30 {
		t.Fatalf("%+v, %v", undo, err)
	}
	wantCounts(t, "undo", j.undo(job), 30, 0, 0)
	if k := j.keys.Key("k0001"); k.Plan != "free" {
		t.Errorf("after the undo: %+v", k)
	}
	none := j.run(j.start(app.Job{Do: app.Plan, Plan: "free", Filter: &app.KeyFilter{}, Total: count}))
	if _, err := j.UndoOf(t.Context(), none); !errors.Is(err, app.ErrNoUndo) {
		t.Errorf("undo of a job that changed nothing: %v", err)
	}
}

// slow is a journal that does not answer for one entry until the caller gives up.
type slow struct {
	audit.Journal
	first atomic.Bool
}

func (s *slow) Ready(ctx context.Context, _ keyspace.Bucket, _ []byte) error {
	if s.first.CompareAndSwap(false, true) {
		<-ctx.Done()
		return ctx.Err()
	}
	return nil
}

func (*slow) Ship(context.Context, keyspace.Bucket) error { return nil }

func (*slow) Queues() bool { return false }

// A step that is interrupted by its end is a pause, and what it did can be undone.
func TestJobPausesAtTheEndOfAStep(t *testing.T) {
	const count = 60
	j := newJobs(t, count)
	job := j.start(app.Job{Do: app.Revoke, Filter: &app.KeyFilter{}, Total: count})
	j.keys.Audit().UseJournal(&slow{})
	restore := app.SetStepEnds(500 * time.Millisecond)
	now, err := j.StepJob(t.Context(), job.ID, false)
	restore()
	if err != nil || now.Paused != "the step took too long" || now.Processed() != 0 {
		t.Fatalf("%+v, %v", now, err)
	}
	job = j.run(job)
	if job.Processed() != count || job.Failed != 0 || len(j.entries(job)) != count {
		t.Errorf("%+v, %d entries", job, len(j.entries(job)))
	}
	wantCounts(t, "undo", j.undo(job), count, 0, 0)
	if k := j.keys.Key("k0001"); k.Status != policy.Active {
		t.Errorf("after the undo: %s", k.Status)
	}
}
