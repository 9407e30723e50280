package registry

import (
	"context"
	_ "embed" // the script
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"sync"

	"github.com/valkey-io/valkey-go"

	"tidegate/internal/policy"
	"tidegate/internal/policyset"
	"tidegate/internal/store/keyspace"
)

func encodeCopy(s *policy.Set) ([]byte, error) {
	if s.Version < 1 || s.Version > math.MaxUint32 || s.NextNumber < 1 || s.NextNumber > policy.MaxNumber+1 {
		return nil, fmt.Errorf("registry: encode plans: version %d or next number %d out of range",
			s.Version, s.NextNumber)
	}
	numbers := s.NextNumber - 1
	out := binary.BigEndian.AppendUint32([]byte{policyset.CopyFormat}, uint32(s.Version))
	out = binary.BigEndian.AppendUint16(out, uint16(numbers))
	out = append(out, make([]byte, 6*numbers)...)
	for _, p := range s.Plans {
		entry, err := policyset.EncodeEntry(p.Mode, p.Limits)
		if err != nil {
			return nil, err
		}
		if len(p.Candidate) > 0 {
			candidate, err := policyset.EncodeEntry(policy.Shadow, p.Candidate)
			if err != nil {
				return nil, err
			}
			entry = append(entry, candidate...)
		}
		at := out[7+6*(p.Number-1):]
		binary.BigEndian.PutUint32(at, uint32(len(out)))
		binary.BigEndian.PutUint16(at[4:], uint16(len(entry)))
		out = append(out, entry...)
	}
	return out, nil
}

//go:embed lua/copy.lua
var copyLua string

// copyCommand writes a copy or a mirror where there is an older one; create is "1" to
// write it where there is none. The script is short and always leaves with its text: no
// shard waits for another to find out who knows it.
func (s *Store) copyCommand(key string, content []byte, create string) valkey.Completed {
	return s.client.B().Eval().Script(copyLua).Numkeys(1).Key(key).Arg(
		valkey.BinaryString(content), create).Build()
}

// Distribute writes the Set's mirrors, and its copy into every bucket, where there are
// older ones. It fails with ErrUnfinished.
func (s *Store) Distribute(ctx context.Context, set *policy.Set) error {
	blob, err := encodeCopy(set)
	if err != nil {
		return err
	}
	text, err := json.Marshal(set)
	if err != nil {
		return fmt.Errorf("registry: save set: %w", err)
	}
	mirror := append([]byte{policyset.CopyFormat}, policyset.Versioned(set.Version, text)...)
	create := "1"
	if s.audit.Journalled() {
		create = "" // not before the bucket is known to be whole
	}
	var commands valkey.Commands
	for i, key := range repeats() {
		if i < policyset.Mirrors {
			commands = append(commands, s.copyCommand(key, mirror, "1"))
			continue
		}
		commands = append(commands, s.copyCommand(key, blob, create))
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

// maxProbes is how many buckets are looked up in the journal at a time.
const maxProbes = 32

// createCopies writes the first copy of some buckets. A bucket that lost changes gets
// none before it is restored: with a copy, checks would call its lost keys unknown.
func (s *Store) createCopies(ctx context.Context, blob []byte, buckets []keyspace.Bucket) error {
	errs := make([]error, len(buckets))
	var wait sync.WaitGroup
	slots := make(chan struct{}, maxProbes)
	for i, b := range buckets {
		slots <- struct{}{}
		wait.Go(func() {
			if errs[i] = s.audit.Whole(ctx, b); errs[i] == nil {
				errs[i] = s.client.Do(ctx, s.copyCommand(policyset.CopyKey(b), blob, "1")).Error()
			}
			<-slots
		})
	}
	wait.Wait()
	return errors.Join(errs...)
}
