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
	"fmt"
	"strconv"
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
	refused  atomic.Bool    // a server does not run it as read-only
	together func() *Script // makes several runs
}

// New returns a script. It calls text once, at the script's first use, because composing
// all scripts at the start of a function takes too long.
func New(text func() string) *Script {
	text = sync.OnceValue(text)
	s := &Script{text: text, sha: sync.OnceValue(func() string {
		sum := sha1.Sum([]byte(text())) //nolint:gosec // as above
		return hex.EncodeToString(sum[:])
	})}
	s.together = sync.OnceValue(func() *Script {
		many := New(func() string { return fmt.Sprintf(togetherText, text()) })
		many.readOnly = s.readOnly
		return many
	})
	return s
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
	for range 2 { // as in flush, whose slices cost one call four allocations
		if !s.Again(result.Error()) {
			break
		}
		result = client.Do(ctx, s.Whole(client, keys, args))
	}
	return result
}

// Run is one of many runs of a script. All its keys must be in one slot.
type Run struct{ Keys, Args []string }

// Reply is what a run returned: a list of texts.
type Reply struct {
	Values []string
	Err    error
}

const (
	// runsTogether and argsTogether bound the runs of one script on a single server, which
	// answers nothing else meanwhile.
	runsTogether = 256
	argsTogether = 4_000
)

// togetherText is a script that makes several runs of another, whose errors are their
// own. Its arguments are of each run the number of its keys, of its arguments, and these.
const togetherText = `local function run(KEYS, ARGV)
%s
end
local replies, key, at = {}, 0, 1
while at < #ARGV do
  local keys, args = {}, {}
  for i = 1, tonumber(ARGV[at]) do
    key = key + 1
    keys[i] = KEYS[key]
  end
  for i = 1, tonumber(ARGV[at + 1]) do
    args[i] = ARGV[at + 1 + i]
  end
  at = at + 2 + #args
  local well, reply = pcall(run, keys, args)
  if not well then
    reply = {err = type(reply) == 'table' and reply.err or tostring(reply):gsub('^%%S*:%%d+: ', '')}
  end
  table.insert(replies, reply)
end
return replies`

// DoMany makes runs in one flush, and repeats those whose server did not know the script
// in a second flush. It returns a reply for each run, in order. In a cluster each is a
// script of its own, since its keys have a slot of their own. A single server makes many
// runs in one script: the embedded one takes half a millisecond to begin a script.
func (s *Script) DoMany(ctx context.Context, client valkey.Client, runs []Run) []Reply {
	replies := make([]Reply, 0, len(runs))
	if client.Mode() == valkey.ClientModeCluster || len(runs) == 1 {
		for _, result := range s.flush(ctx, client, runs) {
			values, err := result.AsStrSlice()
			replies = append(replies, Reply{values, err})
		}
		return replies
	}
	var groups []Run
	var sizes []int
	for _, r := range runs {
		last := len(groups) - 1
		if last < 0 || sizes[last] == runsTogether || len(groups[last].Args)+len(r.Args) > argsTogether {
			groups, sizes, last = append(groups, Run{}), append(sizes, 0), last+1
		}
		g := &groups[last]
		g.Keys = append(g.Keys, r.Keys...)
		g.Args = append(g.Args, strconv.Itoa(len(r.Keys)), strconv.Itoa(len(r.Args)))
		g.Args = append(g.Args, r.Args...)
		sizes[last]++
	}
	for i, result := range s.together().flush(ctx, client, groups) {
		all, err := result.ToArray()
		if err == nil && len(all) != sizes[i] {
			err = fmt.Errorf("lua: %d replies of %d runs", len(all), sizes[i])
		}
		for j := range sizes[i] {
			reply := Reply{Err: err}
			if err == nil {
				reply.Values, reply.Err = all[j].AsStrSlice()
			}
			replies = append(replies, reply)
		}
	}
	return replies
}

// flush sends runs in one flush, and repeats those whose server did not know the script.
func (s *Script) flush(ctx context.Context, client valkey.Client, runs []Run) []valkey.ValkeyResult {
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
