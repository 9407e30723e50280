// Package lua runs Lua scripts on Valkey servers that may not know the scripts yet.
// Packages that have scripts import it. It does not know what the scripts do.
//
// Unlike scripts of the valkey-go library, its scripts can share a flush with other
// commands. They are sent only to the servers of their keys, so an unavailable server
// fails only its own runs.
package lua

import (
	"context"
	"crypto/sha1" //nolint:gosec // EVALSHA names scripts by their SHA-1; it protects nothing
	"encoding/hex"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/valkey-io/valkey-go"
)

// Script is a Lua script. It is safe for concurrent use.
type Script struct {
	text     func() string
	sha      func() string
	readOnly bool
	refused  atomic.Bool // a server does not run it as read-only
}

// New returns a script. It calls text once, at the script's first use, because composing
// all scripts at the start of a function takes too long.
func New(text func() string) *Script {
	text = sync.OnceValue(text)
	return &Script{text: text, sha: sync.OnceValue(func() string {
		sum := sha1.Sum([]byte(text())) //nolint:gosec // as above
		return hex.EncodeToString(sum[:])
	})}
}

// NewReadOnly returns a script that the server does not let write (EVALSHA_RO). The
// embedded store takes TIME for a command that writes, so it runs the script as any other.
func NewReadOnly(text func() string) *Script {
	s := New(text)
	s.readOnly = true
	return s
}

// Text returns the script's text.
func (s *Script) Text() string { return s.text() }

// Prepare composes the script, so that its first use is fast.
func (s *Script) Prepare() { s.sha() }

// Command returns the command (EVALSHA) for a server that knows the script.
func (s *Script) Command(client valkey.Client, keys, args []string) valkey.Completed {
	if s.readOnly && !s.refused.Load() {
		return client.B().EvalshaRo().Sha1(s.sha()).Numkeys(int64(len(keys))).Key(keys...).
			Arg(args...).Build()
	}
	return client.B().Evalsha().Sha1(s.sha()).Numkeys(int64(len(keys))).Key(keys...).Arg(args...).Build()
}

// Whole returns the command (EVAL) for a server that does not know the script yet.
func (s *Script) Whole(client valkey.Client, keys, args []string) valkey.Completed {
	if s.readOnly && !s.refused.Load() {
		return client.B().EvalRo().Script(s.text()).Numkeys(int64(len(keys))).Key(keys...).
			Arg(args...).Build()
	}
	return client.B().Eval().Script(s.text()).Numkeys(int64(len(keys))).Key(keys...).Arg(args...).Build()
}

// Unknown reports whether err means that the server does not know the script. Nothing was
// executed then.
func Unknown(err error) bool {
	refusal, ok := valkey.IsValkeyErr(err)
	return ok && strings.HasPrefix(refusal.Error(), "NOSCRIPT")
}

// Again reports whether a run that failed with err must be repeated with the whole script.
func (s *Script) Again(err error) bool {
	if refusal, ok := valkey.IsValkeyErr(err); ok && s.readOnly &&
		strings.Contains(refusal.Error(), "not allowed in read-only scripts") {
		s.refused.Store(true)
		return true
	}
	return Unknown(err)
}

// Do runs the script. All keys must be in one slot.
func (s *Script) Do(ctx context.Context, client valkey.Client, keys, args []string) valkey.ValkeyResult {
	result := client.Do(ctx, s.Command(client, keys, args))
	for range 2 { // as in DoMany, whose slices cost one call four allocations
		if !s.Again(result.Error()) {
			break
		}
		result = client.Do(ctx, s.Whole(client, keys, args))
	}
	return result
}

// Run is one of many runs of a script. All its keys must be in one slot.
type Run struct{ Keys, Args []string }

// DoMany sends runs in one flush, and repeats those whose server did not know the script
// in a second flush. It returns a result for each run, in order.
func (s *Script) DoMany(ctx context.Context, client valkey.Client, runs []Run) []valkey.ValkeyResult {
	if len(runs) == 0 {
		return nil
	}
	commands := make(valkey.Commands, len(runs))
	for i, r := range runs {
		commands[i] = s.Command(client, r.Keys, r.Args)
	}
	results := client.DoMulti(ctx, commands...)
	for range 2 { // a server may first lack the script, then refuse to run it as read-only
		var again valkey.Commands
		var at []int
		for i, r := range runs {
			if s.Again(results[i].Error()) {
				again, at = append(again, s.Whole(client, r.Keys, r.Args)), append(at, i)
			}
		}
		if len(again) == 0 {
			break
		}
		for i, result := range client.DoMulti(ctx, again...) {
			results[at[i]] = result
		}
	}
	return results
}
