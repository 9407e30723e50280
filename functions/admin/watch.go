package main

import (
	"context"
	"log/slog"
	"sync"
	"time"
)

// syncPause is how long the policies are left alone after all of their copies were looked
// at.
const syncPause = time.Minute

// watch looks after the store: it answers whether that does, and now and then has the
// policies repaired that a failover left apart.
type watch struct {
	ping, sync func(context.Context) error
	journal    *journalWatch // nil without a journal
	log        *slog.Logger
	now        func() time.Time

	mu     sync.Mutex
	looked time.Time
}

// ready is asked by whoever monitors the dashboard. That copies cannot be repaired is no
// reason to call the store away.
func (w *watch) ready(ctx context.Context) error {
	if err := w.ping(ctx); err != nil {
		return err
	}
	w.repair(ctx)
	return nil
}

// repair syncs, unless that was tried in the last minute. What Valkey lost is looked for
// first: the policies' copies must not be repaired where keys are missing.
func (w *watch) repair(ctx context.Context) {
	if !w.due() {
		return
	}
	if w.journal != nil && w.journal.check(ctx) {
		w.again()
	}
	if err := w.sync(ctx); err != nil {
		w.log.Warn("sync the policies", "cause", err)
	}
}

// again makes the next repair due.
func (w *watch) again() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.looked = time.Time{}
}

func (w *watch) due() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	now := w.now()
	if pause := now.Sub(w.looked); pause >= 0 && pause < syncPause {
		return false
	}
	w.looked = now
	return true
}
