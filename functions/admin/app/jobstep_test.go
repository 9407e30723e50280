package app_test

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"tidegate/functions/admin/app"
	"tidegate/internal/audit"
	"tidegate/internal/policy"
	"tidegate/internal/store/keyspace"
	"tidegate/internal/testing/sitetest"
)

// gate is a journal whose first entry of another bucket than the job's waits until open is
// closed.
type gate struct {
	audit.Journal
	job     keyspace.Bucket
	first   atomic.Bool
	reached chan struct{}
	open    chan struct{}
}

func (g *gate) Ready(_ context.Context, b keyspace.Bucket, _ []byte) error {
	if b != g.job && g.first.CompareAndSwap(false, true) {
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

// startStep begins a step of a job and returns in the middle of its first chunk. finish
// lets the step continue, and returns its result.
func (j jobs) startStep(job app.Job, resume bool) (finish func() stepped) {
	j.t.Helper()
	g := &gate{job: keyspace.BucketOf(job.ID), reached: make(chan struct{}), open: make(chan struct{})}
	j.keys.Audit().UseJournal(g)
	done := make(chan stepped, 1)
	go func() {
		run := j.StepJob
		if resume {
			run = func(ctx context.Context, id string) (app.Job, error) {
				return j.ResumeJob(ctx, id, sitetest.ByTest.By)
			}
		}
		now, err := run(j.t.Context(), job.ID)
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
		t.Fatal("timed out waiting for " + what)
		panic("unreachable")
	}
}

// A stop is recorded while a step is under way. That step ends after its chunk, and
// repeated requests begin no other until somebody continues the job. An undo is refused
// during the step.
func TestStopDuringStep(t *testing.T) {
	const count = app.Chunk + 40
	j := newJobs(t, count)
	job := j.start(everyKey(count))
	finish := j.startStep(job, false)
	stopped, err := j.StopJob(t.Context(), job.ID, sitetest.ByTest.By)
	if err != nil || !stopped.Stopped {
		t.Fatalf("StopJob: got %+v, %v, want a stopped job", stopped, err)
	}
	edit := sitetest.ByTest
	edit.Reason = "a test"
	undo := app.Job{KeyChange: app.KeyChange{Do: app.Undo}, Undoes: job.ID}
	if _, err := j.StartJob(t.Context(), nil, undo, nil, edit); !errors.Is(err,
		app.ErrRunning) {
		t.Errorf("undo during the step: got %v, want ErrRunning", err)
	}
	if now := finish(); now.err != nil || !now.Stopped || now.Processed() != app.Chunk {
		t.Fatalf("the step: got %+v, want it stopped after one chunk", now)
	}
	for range 5 {
		if now, err := j.StepJob(t.Context(), job.ID); err != nil || !now.Stopped ||
			now.Processed() != app.Chunk {
			t.Fatalf("a repeated request: got %+v, %v, want no change", now, err)
		}
	}
	if open, err := j.OpenJobs(t.Context()); err != nil || len(open) != 0 {
		t.Errorf("open jobs: got %+v, %v, want none", open, err)
	}
	job, err = j.ResumeJob(t.Context(), job.ID, sitetest.ByTest.By)
	if err != nil || !job.Over() || job.Stopped {
		t.Errorf("continued: got %+v, %v, want an ended job", job, err)
	}
	wantCounts(t, "continued", job, count, 0, 0)
	if job, err = j.StopJob(t.Context(), job.ID, sitetest.ByTest.By); err != nil || job.Stopped {
		t.Errorf("stopped after its end: got %+v, %v, want an ended job", job, err)
	}
}

// A continued job can be stopped again, even in the first chunk of the step that
// continues it.
func TestStopAfterResume(t *testing.T) {
	const count = app.Chunk + 40
	j := newJobs(t, count)
	job := j.start(everyKey(count))
	stop := func() {
		t.Helper()
		if now, err := j.StopJob(t.Context(), job.ID, sitetest.ByTest.By); err != nil || !now.Stopped {
			t.Fatalf("StopJob: got %+v, %v, want a stopped job", now, err)
		}
	}
	stop()
	finish := j.startStep(job, true)
	if now, err := j.Job(t.Context(), job.ID); err != nil || now.Stopped {
		t.Errorf("continued: got %+v, %v, want a running job", now, err)
	}
	stop()
	if now := finish(); now.err != nil || !now.Stopped || now.Processed() != app.Chunk {
		t.Fatalf("the step: got %+v, want it stopped after one chunk", now)
	}
	now, err := j.StepJob(t.Context(), job.ID)
	if err != nil || !now.Stopped || now.Processed() != app.Chunk {
		t.Errorf("after the second stop: got %+v, %v, want no change", now, err)
	}
}

// A step that lost its lease in the middle of a chunk neither removes a stop nor saves
// its progress. Continuing the job changes no key twice.
func TestStopAfterLease(t *testing.T) {
	const count = app.Chunk + 40
	j := newJobs(t, count)
	job := j.start(everyKey(count))
	finish := j.startStep(job, false)
	j.keys.Server.FastForward(time.Minute)
	if now, err := j.StopJob(t.Context(), job.ID, sitetest.ByTest.By); err != nil || !now.Stopped {
		t.Fatalf("StopJob: got %+v, %v, want a stopped job", now, err)
	}
	if late := finish(); !errors.Is(late.err, app.ErrTaken) {
		t.Errorf("the late step: got %+v, want ErrTaken", late)
	}
	if now, err := j.StepJob(t.Context(), job.ID); err != nil || !now.Stopped || now.Processed() != 0 {
		t.Fatalf("after the late step: got %+v, %v, want no progress", now, err)
	}
	job, err := j.ResumeJob(t.Context(), job.ID, sitetest.ByTest.By)
	if err != nil || !job.Over() || job.Processed() != count || len(j.entries(job)) != count {
		t.Fatalf("continued: got %+v, %v, %d entries, want %d", job, err, len(j.entries(job)), count)
	}
	wantCounts(t, "undo", j.undo(job), count, 0, 0)
}

// StopJob records a stop while an interrupted step has the lease. It returns an error if
// Valkey refuses to store the stop.
func TestStopIsRecorded(t *testing.T) {
	j := newJobs(t, 3)
	job := j.start(everyKey(3))
	if leased, err := j.keys.LeaseJob(t.Context(), job.ID, "dead", time.Minute); err != nil || !leased {
		t.Fatalf("LeaseJob: got %t, %v, want a lease", leased, err)
	}
	j.keys.Server.SetError("OOM command not allowed when used memory > 'maxmemory'.")
	if now, err := j.StopJob(t.Context(), job.ID, sitetest.ByTest.By); err == nil {
		t.Errorf("Valkey refuses the stop: got %+v, want an error", now)
	}
	j.keys.Server.SetError("")
	if now, err := j.StopJob(t.Context(), job.ID, sitetest.ByTest.By); err != nil || !now.Stopped {
		t.Fatalf("StopJob: got %+v, %v, want a stopped job", now, err)
	}
	j.keys.Server.FastForward(time.Minute)
	if now, err := j.StepJob(t.Context(), job.ID); err != nil || !now.Stopped || now.Processed() != 0 {
		t.Errorf("after the lease: got %+v, %v, want no change", now, err)
	}
}

// failingOnce is a journal that stores every entry but one, and returns an error for it.
type failingOnce struct {
	audit.Journal
	mu    sync.Mutex
	ships int
	at    int // the number of the call of Ship that fails, from 1
	err   error
}

func (*failingOnce) Ready(context.Context, keyspace.Bucket, []byte) error { return nil }

func (f *failingOnce) Ship(context.Context, keyspace.Bucket) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.ships++; f.ships == f.at {
		return f.err
	}
	return nil
}

func (*failingOnce) Queues() bool { return false }

// A change that waits for the journal counts as done, and the job pauses after its chunk
// with the reason. A chunk with a change that Valkey may have lost is repeated.
func TestJobPausesForTheJournal(t *testing.T) {
	for paused, c := range map[string]struct {
		err     error
		count   int
		done    int64 // after the pause
		skipped int64 // in the end, because the chunk is repeated
	}{
		"the journal does not have every change yet": {audit.ErrUnsafe, app.Chunk + 40, app.Chunk, 0},
		"Valkey may have lost a change":              {audit.ErrMayBeLost, 60, 0, 60},
		audit.ErrBehind.Error():                      {audit.ErrBehind, 60, 0, 60},
	} {
		j, count := newJobs(t, c.count), int64(c.count)
		job := j.start(everyKey(count))
		j.keys.Audit().UseJournal(&failingOnce{at: 30, err: c.err})
		now, err := j.StepJob(t.Context(), job.ID)
		if err != nil || now.Paused != paused || now.Processed() != c.done || now.Done != c.done {
			t.Errorf("%s: got %+v, %v, want %d done", paused, now, err, c.done)
		}
		job = j.run(job)
		wantCounts(t, paused, job, count-c.skipped, c.skipped, 0)
		if job.Paused != "" || len(j.entries(job)) != c.count {
			t.Errorf("%s: in the end got %+v, %d entries, want %d", paused, job, len(j.entries(job)), c.count)
		}
		wantCounts(t, "undo: "+paused, j.undo(job), count, 0, 0)
	}
}

// A job of which a change in the last chunk waits for the journal has ended, with the
// reason.
func TestJobEndsUnsafe(t *testing.T) {
	j := newJobs(t, 60)
	job := j.start(everyKey(60))
	j.keys.Audit().UseJournal(&failingOnce{at: 30, err: audit.ErrUnsafe})
	job, err := j.StepJob(t.Context(), job.ID)
	if err != nil || !job.Over() || job.Paused == "" {
		t.Fatalf("got %+v, %v, want an ended job with a reason", job, err)
	}
	wantCounts(t, "job", job, 60, 0, 0)
	wantCounts(t, "undo", j.undo(job), 60, 0, 0)
}

// Changes that a job did not count can be undone: the journal became unavailable in the
// first chunk, and the job was stopped then.
func TestUndoUncountedChanges(t *testing.T) {
	const count = 60
	j := newJobs(t, count)
	journal := &unavailable{left: 30}
	job := j.start(everyKey(count))
	j.keys.Audit().UseJournal(journal)
	job, err := j.StepJob(t.Context(), job.ID)
	if err != nil || job.Processed() != 0 || job.Paused != "the journal is unavailable" {
		t.Fatalf("got %+v, %v, want a paused job without progress", job, err)
	}
	if job, err = j.StopJob(t.Context(), job.ID, sitetest.ByTest.By); err != nil {
		t.Fatal(err)
	}
	journal.left = 1 << 30
	undo, err := j.UndoingJob(t.Context(), job)
	if err != nil || undo.Total != 30 {
		t.Fatalf("UndoingJob: got %+v, %v, want a total of 30", undo, err)
	}
	wantCounts(t, "undo", j.undo(job), 30, 0, 0)
	if k := j.keys.Key("k0001"); k.Plan != "free" {
		t.Errorf("after the undo: got %+v, want plan free", k)
	}
	none := j.run(j.start(app.Job{KeyChange: app.KeyChange{Do: app.Plan},
		Plan: "free", Filter: &app.KeyFilter{}, Total: count}))
	if _, err := j.UndoingJob(t.Context(), none); !errors.Is(err, app.ErrNoUndo) {
		t.Errorf("undo of a job that changed nothing: got %v, want ErrNoUndo", err)
	}
}

// slow is a journal that stays silent for one entry until the caller gives up.
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

// A step that takes longer than stepEnds is interrupted: the job pauses, and its changes
// can be undone.
func TestJobPausesAfterLongStep(t *testing.T) {
	const count = 60
	j := newJobs(t, count)
	job := j.start(app.Job{KeyChange: app.KeyChange{Do: app.Revoke}, Filter: &app.KeyFilter{}, Total: count})
	j.keys.Audit().UseJournal(&slow{})
	restore := app.SetStepEnds(500 * time.Millisecond)
	now, err := j.StepJob(t.Context(), job.ID)
	restore()
	if err != nil || now.Paused != "the step took too long" || now.Processed() != 0 {
		t.Fatalf("got %+v, %v, want a paused job without progress", now, err)
	}
	job = j.run(job)
	if job.Processed() != count || job.Failed != 0 || len(j.entries(job)) != count {
		t.Errorf("got %+v, %d entries, want %d", job, len(j.entries(job)), count)
	}
	wantCounts(t, "undo", j.undo(job), count, 0, 0)
	if k := j.keys.Key("k0001"); k.Status != policy.Active {
		t.Errorf("after the undo: got status %s, want active", k.Status)
	}
}
