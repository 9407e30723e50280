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
)

func encodeCopy(s *policy.Set) ([]byte, error) {
	if s.Version < 1 || s.Version > math.MaxUint32 || s.NextNumber < 1 || s.NextNumber > policy.MaxNumber+1 {
		return nil, fmt.Errorf("policy: encode plans: version %d or next number %d out of range",
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

var copyScript = sync.OnceValue(func() *valkey.Lua { return valkey.NewLuaScript(copyLua) })

// Distribute writes the Set's mirrors, and its copy into every bucket, where there are
// older ones. It fails with ErrUnfinished.
func (s *Store) Distribute(ctx context.Context, set *policy.Set) error {
	blob, err := encodeCopy(set)
	if err != nil {
		return err
	}
	text, err := json.Marshal(set)
	if err != nil {
		return fmt.Errorf("policy: save set: %w", err)
	}
	mirror := append([]byte{policyset.CopyFormat}, policyset.Versioned(set.Version, text)...)
	var execs []valkey.LuaExec
	for i, key := range repeats() {
		value := blob
		if i < policyset.Mirrors {
			value = mirror
		}
		execs = append(execs, valkey.LuaExec{Keys: []string{key}, Args: []string{valkey.BinaryString(value)}})
	}
	var errs []error
	for _, result := range copyScript().ExecMulti(ctx, s.client, execs...) {
		errs = append(errs, result.Error())
	}
	if err := errors.Join(errs...); err != nil {
		return fmt.Errorf("%w: %w", policy.ErrUnfinished, err)
	}
	return nil
}
