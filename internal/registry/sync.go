package registry

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"

	"github.com/valkey-io/valkey-go"

	"tidegate/internal/audit"
	"tidegate/internal/policy"
	"tidegate/internal/policyset"
	"tidegate/internal/store/keyspace"
)

// A save writes to every shard, and a failover, or a snapshot of one shard, may take back
// what that shard wrote last: the Set while copies are newer, or copies. So the Set has
// mirrors, from which checks and Sync have it back, and Sync compares every copy with it.

// spread holds the versions of the Set in Valkey.
type spread struct {
	stored         int64 // the Set's; 0 without
	oldest, newest int64 // of copies and mirrors; 0 when one is missing
	numbers        int   // greatest number of a plan in any copy
}

// spread reads the heads of the Set, of its mirrors and of all copies, in one flush.
func (s *Store) spread(ctx context.Context) (spread, error) {
	commands := valkey.Commands{s.client.B().Getrange().Key(policyset.SetKey).Start(0).End(3).Build()}
	for _, key := range repeats() {
		commands = append(commands, s.client.B().Getrange().Key(key).Start(0).End(6).Build())
	}
	var found spread
	for i, result := range s.client.DoMulti(ctx, commands...) {
		head, err := result.AsBytes()
		if err != nil {
			return spread{}, fmt.Errorf("registry: read copies of the set: %w", err)
		}
		if i == 0 {
			if len(head) == 4 {
				found.stored = int64(binary.BigEndian.Uint32(head))
			}
			continue
		}
		version := policyset.HeadVersion(head)
		if found.newest = max(found.newest, version); i == 1 || version < found.oldest {
			found.oldest = version
		}
		if i > policyset.Mirrors && version > 0 && len(head) == 7 {
			found.numbers = max(found.numbers, min(int(binary.BigEndian.Uint16(head[5:])), policy.MaxNumber))
		}
	}
	return found, nil
}

// repeats names what a save writes after the Set: its mirrors, then the copies.
func repeats() []string {
	names := append(make([]string, 0, policyset.Mirrors+keyspace.Buckets), policyset.MirrorKeys[:]...)
	for _, b := range keyspace.All() {
		names = append(names, policyset.CopyKey(b))
	}
	return names
}

// Synced reports whether the Set, its mirrors and all copies are of this version: if not,
// a save is under way or was interrupted, or a failover took back a part of it.
func (s *Store) Synced(ctx context.Context, set *policy.Set) (bool, error) {
	found, err := s.spread(ctx)
	want := spread{set.Version, set.Version, set.Version, found.numbers}
	return found == want, err
}

// errSetLost means that there are copies of a Set whose record and mirrors are missing.
var errSetLost = errors.New("registry: the set is lost, of which there are copies: save it again")

// byRepair is the author of repairs in the audit.
var byRepair = audit.Actor{Kind: "system", Name: "sync"}

const maxRepairs = 5 // tries of one Sync; every one needs a save of its own meanwhile

// Sync writes the newest readable version to the Set, its mirrors and all copies, after
// an interrupted save or a failover left them different. It saves a Set that is older
// than a copy again, under a version that no check has seen, with an audit entry.
func (s *Store) Sync(ctx context.Context) error {
	for range maxRepairs {
		// Before the Set: a copy that is newer than a Set read later was not overtaken by
		// a save.
		found, err := s.spread(ctx)
		if err != nil {
			return err
		}
		newest, stored, err := policyset.NewestSet(ctx, s.client)
		if err != nil {
			return err
		}
		version := max(newest.Version, found.newest)
		switch {
		case version == stored.Version && found.oldest == version:
			return nil
		case version == stored.Version:
			return s.Distribute(ctx, stored)
		case newest.Version == 0:
			return errSetLost
		}
		if err := s.repair(ctx, newest, stored, found); !errors.Is(err, policy.ErrConflict) {
			return err
		}
	}
	return fmt.Errorf("registry: sync: %w", policy.ErrConflict)
}

// repair saves the newest Set that is left over the stored one, which copies are ahead
// of.
func (s *Store) repair(ctx context.Context, newest, stored *policy.Set, found spread) error {
	repaired := *newest
	found.raise(&repaired, newest)
	reason := fmt.Sprintf("the save of version %d was lost in the store: version %d is in force again",
		found.newest, newest.Version)
	if newest.Version >= found.newest {
		reason = fmt.Sprintf("version %d was lost in the store and came back from a mirror", newest.Version)
	}
	entry := audit.Entry{By: byRepair, Action: audit.PolicyRepair, Reason: reason}
	if _, err := s.writeSet(ctx, &repaired, stored, stored.Version, entry); err != nil {
		return err
	}
	return s.Distribute(ctx, &repaired)
}

// raise gives next, which comes after current, a version above all that checks may know.
// It leaves out the numbers of plans that only a lost Set had: keys may have them.
func (found spread) raise(next, current *policy.Set) {
	next.Version = max(current.Version, found.newest) + 1
	next.NextNumber = max(next.NextNumber, found.numbers+1)
}
