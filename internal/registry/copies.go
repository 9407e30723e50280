package registry

import (
	"context"
	_ "embed" // the script
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"math"

	"github.com/valkey-io/valkey-go"

	"tidegate/internal/audit"
	"tidegate/internal/policy"
	"tidegate/internal/policyset"
	"tidegate/internal/store/keyspace"
)

// A save writes to every shard. A failover, or an older snapshot of one shard, may revert
// the last writes of that shard: the set while its copies are newer, or some copies. So
// the set has mirrors, from which checks and Sync read it, and Sync compares every copy
// with the set.

// Distribute writes the mirrors of the policy set, and a copy in every bucket, unless
// newer ones are stored. It fails with ErrUnfinished.
func (s *Store) Distribute(ctx context.Context, set *policy.Set) error {
	blob, err := encodeCopy(set)
	if err != nil {
		return err
	}
	text, err := json.Marshal(set)
	if err != nil {
		return fmt.Errorf("registry: save set: %w", err)
	}
	mirror := append([]byte{policyset.CopyFormat}, policyset.EncodeSet(set.Version, text)...)
	var commands valkey.Commands
	for i, key := range copyKeys() {
		if i < policyset.Mirrors {
			commands = append(commands, s.copyCommand(key, mirror, true))
			continue
		}
		// With a journal, createCopies writes the first copy of a bucket.
		commands = append(commands, s.copyCommand(key, blob, !s.audit.Journalled()))
	}
	var errs []error
	var missing []keyspace.Bucket
	for i, result := range s.client.DoMulti(ctx, commands...) {
		done, err := result.AsInt64()
		errs = append(errs, err)
		if err == nil && done < 0 {
			missing = append(missing, keyspace.Bucket(i-policyset.Mirrors))
		}
	}
	errs = append(errs, s.createCopies(ctx, blob, missing))
	if err := errors.Join(errs...); err != nil {
		return fmt.Errorf("%w: %w", policy.ErrUnfinished, err)
	}
	return nil
}

// copyKeys names what a save writes after the policy set: its mirrors, then the copies by
// bucket.
func copyKeys() []string {
	names := append(make([]string, 0, policyset.Mirrors+keyspace.Buckets), policyset.MirrorKeys[:]...)
	for _, b := range keyspace.All() {
		names = append(names, policyset.CopyKey(b))
	}
	return names
}

// encodeCopy encodes a copy, as policyset.CopyFormat says.
func encodeCopy(s *policy.Set) ([]byte, error) {
	if s.Version < 1 || s.Version > math.MaxUint32 || s.NextNumber < 1 || s.NextNumber > policy.MaxNumber+1 {
		return nil, fmt.Errorf("registry: encode plans: version %d or next number %d out of range",
			s.Version, s.NextNumber)
	}
	out := binary.BigEndian.AppendUint32([]byte{policyset.CopyFormat}, uint32(s.Version))
	return binary.BigEndian.AppendUint16(out, uint16(s.NextNumber-1)), nil
}

//go:embed lua/copy.lua
var copyLua string

// copyCommand writes a copy or a mirror if the stored one is older, or if there is none
// and create is true. The script is short, so every command carries its text: a server
// that does not know the script costs no second round trip.
func (s *Store) copyCommand(key string, content []byte, create bool) valkey.Completed {
	mode := ""
	if create {
		mode = "1"
	}
	return s.client.B().Eval().Script(copyLua).Numkeys(1).Key(key).Arg(
		valkey.BinaryString(content), mode).Build()
}

// maxProbes is how many buckets are looked up in the journal at a time.
const maxProbes = 32

// createCopies writes the first copy of some buckets. A bucket that lost changes gets
// none before it is restored: with a copy, checks would call its lost keys unknown.
func (s *Store) createCopies(ctx context.Context, blob []byte, buckets []keyspace.Bucket) error {
	return keyspace.ForEach(buckets, maxProbes, func(b keyspace.Bucket) error {
		if err := s.audit.Whole(ctx, b); err != nil {
			return err
		}
		return s.client.Do(ctx, s.copyCommand(policyset.CopyKey(b), blob, true)).Error()
	})
}

// storedVersions has the versions of the policy set in Valkey.
type storedVersions struct {
	stored         int64 // the set's; 0 if there is none
	oldest, newest int64 // of copies and mirrors; oldest is 0 if one is missing
	maxNumber      int   // greatest number of a plan in any copy
}

// readVersions reads the heads of the policy set, its mirrors and all copies in one
// flush.
func (s *Store) readVersions(ctx context.Context) (storedVersions, error) {
	commands := valkey.Commands{s.client.B().Getrange().Key(policyset.SetKey).Start(0).End(3).Build()}
	for _, key := range copyKeys() {
		commands = append(commands, s.client.B().Getrange().Key(key).Start(0).End(6).Build())
	}
	var found storedVersions
	for i, result := range s.client.DoMulti(ctx, commands...) {
		head, err := result.AsBytes()
		if err != nil {
			return storedVersions{}, fmt.Errorf("registry: read copies of the set: %w", err)
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
			number := int(binary.BigEndian.Uint16(head[5:]))
			found.maxNumber = max(found.maxNumber, min(number, policy.MaxNumber))
		}
	}
	return found, nil
}

// Synced reports whether the policy set, its mirrors and all copies have this version.
// Otherwise a save is under way or was interrupted, or a failover reverted a part of it.
func (s *Store) Synced(ctx context.Context, set *policy.Set) (bool, error) {
	found, err := s.readVersions(ctx)
	want := storedVersions{set.Version, set.Version, set.Version, found.maxNumber}
	return found == want, err
}

// errSetLost means that there are copies of a policy set, but neither the set nor a
// mirror.
var errSetLost = errors.New("registry: the policy set is lost, only its copies are left: save it again")

// byRepair is the author of repairs in the audit log.
var byRepair = audit.Actor{Kind: "system", Name: "sync"}

const maxRepairs = 5 // tries of one Sync; each repeats only after another save

// Sync writes the newest readable version to the policy set, its mirrors and all copies,
// after an interrupted save or a failover left them different. If the set is older than a
// copy, Sync saves it again under a version that no check has seen, with an audit entry.
func (s *Store) Sync(ctx context.Context) error {
	for range maxRepairs {
		// The versions come first: if a copy is newer than a set that is read later, no
		// save under way explains it.
		found, err := s.readVersions(ctx)
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

// repair saves the newest readable policy set again, in place of the stored one, under a
// version above that of every copy.
func (s *Store) repair(ctx context.Context, newest, stored *policy.Set, found storedVersions) error {
	repaired := *newest
	found.raiseVersion(&repaired, newest)
	reason := fmt.Sprintf("Valkey lost version %d of the policies: version %d is in force again",
		found.newest, newest.Version)
	if newest.Version >= found.newest {
		reason = fmt.Sprintf("Valkey lost version %d of the policies: restored from a mirror", newest.Version)
	}
	entry := Edit{By: byRepair, Reason: reason}.entry(audit.PolicyRepair, "", repaired.Version)
	if _, err := s.writeSet(ctx, &repaired, stored, stored.Version, entry); err != nil {
		return err
	}
	return s.Distribute(ctx, &repaired)
}

// raiseVersion gives next, which replaces current, a version above every version that
// checks may know. It skips the numbers of plans that only a lost set had, because keys
// may have these plans.
func (found storedVersions) raiseVersion(next, current *policy.Set) {
	next.Version = max(current.Version, found.newest) + 1
	next.NextNumber = max(next.NextNumber, found.maxNumber+1)
}
