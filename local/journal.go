//go:build unix

package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"path/filepath"
	"strings"
	"time"

	"tidegate/internal/apikey"
	"tidegate/internal/audit"
	"tidegate/internal/journal"
)

// restoreTimeout is the time for a restore at the start, enough for a million keys on a
// slow disk.
const restoreTimeout = 10 * time.Minute

// openJournal restores changes that Valkey lost, and stores every later change in the
// journal at the address.
func (r *registrar) openJournal(ctx context.Context, address string, log *slog.Logger) error {
	if address == "" {
		return nil
	}
	var err error
	if !strings.Contains(address, "://") {
		if address, err = filepath.Abs(address); err != nil {
			return fmt.Errorf("-journal: %w", err)
		}
	}
	store, err := journal.OpenStore(address)
	if err != nil {
		return fmt.Errorf("-journal: %w", err)
	}
	r.journal = address
	j := journal.New(store, r.client, audit.NewKey(apikey.Pepper(r.pepper)), false, log)
	r.keys.Audit().UseJournal(j)
	ctx, cancel := context.WithTimeout(ctx, restoreTimeout)
	defer cancel()
	done, err := j.RestoreAll(ctx, r.keys, journal.Options{}, nil, nil)
	if errors.Is(err, audit.ErrItem) {
		return fmt.Errorf("-journal: %w: set KEY_PEPPER to that of the runs before", err)
	}
	if errors.Is(err, journal.ErrLeft) { // the start of the function stores what it can
		log.Warn("restore", "cause", err)
	} else if err != nil {
		return fmt.Errorf("-journal: %w", err)
	}
	r.name += fmt.Sprintf(", with the journal in %s (%d records restored)", address, done.Records)
	return nil
}
