package enforce

import (
	"context"
	_ "embed" // the scripts
	"encoding/json"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/valkey-io/valkey-go"

	"tidegate/internal/limiter"
	"tidegate/internal/lua"
	"tidegate/internal/store/keyspace"
)

var (
	//go:embed check.lua
	checkLua string
	//go:embed find.lua
	findLua string
	//go:embed groupreset.lua
	groupResetLua string
	//go:embed marked.lua
	markedLua string
	//go:embed shared.lua
	sharedLua string

	stepScript   = lua.New(func() string { return limiter.StepScript(markedLua+checkLua, "return reply") })
	findScript   = lua.NewReadOnly(func() string { return markedLua + findLua })
	sharedScript = lua.New(func() string {
		return limiter.StepScript(groupResetLua+sharedLua, "return reply")
	})
	lookScript = lua.NewReadOnly(func() string {
		return limiter.LookScript(groupResetLua+sharedLua, "return reply")
	})
)

// run is one run of a script.
type run struct {
	script *lua.Script
	keys   []string
	args   []string
}

// sharedRun returns the run of a script on the shared limits of a subject.
func sharedRun(script *lua.Script, subject string, s limiter.Step) run {
	r := run{script: script, keys: s.Keys(), args: []string{s.List(), "0"}}
	if isGroup(subject) {
		r.keys, r.args[1] = append([]string{keyspace.BucketOf(subject).Records()}, r.keys...), subject
	}
	return r
}

// forever is later than any time of the server, in microseconds since 1970.
const forever = 1<<53 - 1

// ownRun returns the run of the step on the caller's own limits, or of the look at what it
// compares if there is nothing to take.
func (t *Terms) ownRun(mark string, keep time.Duration) run {
	id := t.Result.ID
	bucket := keyspace.BucketOf(id)
	r := run{keys: []string{bucket.Records(), bucket.Marks()}}
	if t.looks() && mark == "" {
		r.script, r.args = findScript, []string{id}
		return r
	}
	until := int64(forever)
	if !t.standing.until.IsZero() {
		until = t.standing.until.UnixMicro()
	}
	own := t.Steps[0].step
	if mark == "" {
		keep = 0
	} else {
		r.keys = append(r.keys, keyspace.Of(id, mark))
	}
	r.script, r.keys = stepScript, append(r.keys, own.Keys()...)
	r.args = []string{own.List(), strconv.FormatInt(own.Reset, 10),
		strconv.FormatInt(keep.Milliseconds(), 10), id, t.caller.record,
		strconv.FormatInt(t.set.Version, 10), strconv.FormatInt(until, 10)}
	return r
}

// looks reports whether the call takes nothing from the caller's own limits.
func (t *Terms) looks() bool {
	return t.Refused != nil || !t.Result.BannedUntil.IsZero() || len(t.Steps[0].Limits) == 0
}

// reply is the reply to a run.
type reply struct {
	numbers []int64
	read    *found // in place of numbers, what the environment did not know
	err     error
}

// found is what a script read of a caller.
type found struct {
	mark   string // a revocation or ban that is not in the record yet; empty for none
	policy int64  // number of the newest policy; 0 if the bucket is lost
	record string // as stored; empty for none
	now    time.Time
}

// markEnds returns when a mark ends; zero for a revocation. A mark that cannot be read is
// one.
func (f *found) markEnds() time.Time {
	var mark struct {
		Until int64 `json:"until"`
	}
	_, text, _ := strings.Cut(f.mark, "\n")
	if json.Unmarshal([]byte(text), &mark) != nil || mark.Until == 0 {
		return time.Time{}
	}
	return time.UnixMicro(mark.Until).UTC()
}

// flush sends runs in one flush, and returns a reply for each.
func (c *Checker) flush(ctx context.Context, runs []run) []reply {
	commands := make([]valkey.Completed, 0, len(runs))
	for _, r := range runs {
		commands = append(commands, r.script.Command(c.client, r.keys, r.args))
	}
	var results []valkey.ValkeyResult
	if len(commands) == 1 {
		results = []valkey.ValkeyResult{c.client.Do(ctx, commands[0])}
	} else if len(commands) > 0 {
		results = c.client.DoMulti(ctx, commands...)
	}
	replies := make([]reply, len(runs))
	for i, r := range runs {
		result := results[i]
		for range 2 { // a server may first lack the script, then refuse to run it as read-only
			if !r.script.Again(result.Error()) {
				break
			}
			result = c.client.Do(ctx, r.script.Whole(c.client, r.keys, r.args))
		}
		replies[i] = parse(result)
	}
	return replies
}

func parse(result valkey.ValkeyResult) reply {
	values, err := result.ToArray()
	if err != nil {
		return reply{err: fmt.Errorf("enforce: check: %w", err)}
	}
	if len(values) == 4 && values[0].IsString() {
		f := &found{}
		f.mark, _ = values[0].ToString()
		number, _ := values[1].ToString()
		f.policy, _ = strconv.ParseInt(number, 10, 64)
		f.record, _ = values[2].ToString()
		now, err := values[3].AsInt64()
		if err != nil {
			return reply{err: fmt.Errorf("enforce: check: %w", limiter.ErrReply)}
		}
		f.now = time.UnixMicro(now).UTC()
		return reply{read: f}
	}
	numbers := make([]int64, len(values))
	for i, v := range values {
		if numbers[i], err = v.AsInt64(); err != nil {
			return reply{err: fmt.Errorf("enforce: check: %w", limiter.ErrReply)}
		}
	}
	return reply{numbers: numbers}
}
