package main

import (
	"context"
	"log/slog"
	"sync"
	"time"
)

// syncPause is the minimum time between two repairs of the policies' copies.
const syncPause = time.Minute

// storeHealth reports whether Valkey responds. At intervals it checks the journal and
// repairs the policies' copies, which a failover may leave different.
type storeHealth struct {
	ping, sync func(context.Context) error
	journal    *journalHealth // nil without a journal
	log        *slog.Logger
	now        func() time.Time

	mu       sync.Mutex
	repaired time.Time
}

// ready returns nil if Valkey responds, for health checks. Copies that cannot be repaired
// are no error.
func (h *storeHealth) ready(ctx context.Context) error {
	if err := h.ping(ctx); err != nil {
		return err
	}
	h.repair(ctx)
	return nil
}

// repair syncs the policies' copies, at most once in syncPause. It checks the journal
// first: the copies must not be repaired while keys are missing.
func (h *storeHealth) repair(ctx context.Context) {
	if !h.due() {
		return
	}
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

func (h *storeHealth) due() bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	now := h.now()
	if pause := now.Sub(h.repaired); pause >= 0 && pause < syncPause {
		return false
	}
	h.repaired = now
	return true
}
