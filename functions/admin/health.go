package main

import (
	"context"
	"errors"
	"log/slog"
	"sync"
	"time"

	"tidegate/functions/admin/app"
	"tidegate/functions/admin/auth"
	"tidegate/internal/audit"
	"tidegate/internal/journal"
)

// syncPause is the minimum time between two repairs of the policies' copies.
const syncPause = time.Minute

// storeHealth reports whether checks can work with Valkey. At intervals it checks the
// journal and repairs the policies' copies, which a failover may leave different.
type storeHealth struct {
	// writable and usable try what a check needs: a write, and the policies.
	writable, usable func(context.Context) error
	sync             func(context.Context) error
	journal          *journalHealth // nil without a journal
	log              *slog.Logger
	now              func() time.Time

	mu        sync.Mutex
	repaired  time.Time
	repairing bool
}

// Times of ready.
const (
	repairWait = 200 * time.Millisecond // in which a repair acts on the result
	repairTime = 10 * time.Second       // of a repair, which goes on after the answer
)

// ready returns nil if checks can work with Valkey, for health checks. Copies that cannot
// be repaired are no error as long as there are some. A repair may take longer than the
// request: ready waits for it only a moment.
func (h *storeHealth) ready(ctx context.Context) error {
	if err := h.writable(ctx); err != nil {
		return err
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), repairTime)
		defer cancel()
		h.repair(ctx)
	}()
	select {
	case <-done:
	case <-time.After(repairWait):
	case <-ctx.Done():
	}
	return h.usable(ctx)
}

// repair syncs the policies' copies, at most once in syncPause. It checks the journal
// first: the copies must not be repaired while keys are missing.
func (h *storeHealth) repair(ctx context.Context) {
	if !h.begin() {
		return
	}
	defer h.end()
	if h.journal != nil && h.journal.check(ctx) {
		h.repairAgain()
	}
	if err := h.sync(ctx); err != nil {
		h.log.Warn("sync the policies", "cause", err)
	}
}

// repairAgain makes the next repair due.
func (h *storeHealth) repairAgain() {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.repaired = time.Time{}
}

// begin reports whether a repair is due and none is under way.
func (h *storeHealth) begin() bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	now := h.now()
	if pause := now.Sub(h.repaired); h.repairing || pause >= 0 && pause < syncPause {
		return false
	}
	h.repaired, h.repairing = now, true
	return true
}

func (h *storeHealth) end() {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.repairing = false
}

// journalTime is the time for the journal at a start or in a request of /healthz. The
// next one does the rest.
const journalTime = 2 * time.Second

// journalHealth stores entries that a crash left out of the journal, detects changes that
// Valkey lost, takes checkpoints, and moves old audit entries out of Valkey.
type journalHealth struct {
	*journal.Journal
	keys     *app.Registry
	restores bool // lost changes automatically
	// retention is how long audit entries stay in Valkey; 0 means for ever.
	retention time.Duration
	log       *slog.Logger
}

// check checks the journal, and continues after the request ends. again reports that a
// part remains, so that the caller should check again at once.
func (h *journalHealth) check(ctx context.Context) (again bool) {
	ctx = context.WithoutCancel(ctx)
	behind, err := h.isBehind(ctx)
	if err != nil && !behind {
		h.log.Warn("check the journal", "cause", err)
		return errors.Is(err, context.DeadlineExceeded)
	}
	if behind {
		if !h.restores {
			return false
		}
		if left, err := h.restore(ctx); left || err != nil {
			return left && err == nil
		}
	}
	ctx, cancel := context.WithTimeout(ctx, journalTime)
	defer cancel()
	if err := h.Upkeep(ctx, h.retention); err != nil {
		h.log.Warn("maintain the journal", "cause", err)
	}
	return false
}

// isBehind reports whether Valkey lost changes.
func (h *journalHealth) isBehind(ctx context.Context) (behind bool, err error) {
	ctx, cancel := context.WithTimeout(ctx, journalTime)
	defer cancel()
	err = h.Check(ctx)
	return h.Status(ctx).Behind > 0, err
}

// restore restores lost changes. left reports that parts remain.
func (h *journalHealth) restore(ctx context.Context) (left bool, err error) {
	by := app.Edit{By: audit.Actor{Kind: "system", Name: "restore"}}
	ctx, cancel := context.WithTimeout(ctx, auth.Long)
	defer cancel()
	summary, err := app.RestoreLost(ctx, h.Journal, h.keys, by)
	h.log.Warn("restore", "buckets", summary.Written, "entries", summary.Lost, "left",
		summary.Left, "cause", err)
	return summary.Left > 0, err
}
