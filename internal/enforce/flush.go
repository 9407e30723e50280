package enforce

import (
	"context"
	"fmt"

	"github.com/valkey-io/valkey-go"

	"tidegate/internal/lua"
)

// stepReply is what came of a step.
type stepReply struct {
	bytes []byte
	err   error
}

// flush sends every step in one flush, with the commands of with, and returns the
// replies.
func (c *Checker) flush(ctx context.Context, steps []step, with *Piggyback) []stepReply {
	if len(steps) == 0 {
		return nil
	}
	commands := make([]valkey.Completed, 0, len(steps)+4)
	for _, s := range steps {
		commands = append(commands, s.script.Command(c.client, s.keys, s.args))
	}
	extra := with.take()
	var results []valkey.ValkeyResult
	if len(steps) == 1 && len(extra) == 0 {
		results = []valkey.ValkeyResult{c.client.Do(ctx, commands[0])}
	} else {
		results = c.client.DoMulti(ctx, append(commands, extra...)...)
	}
	if len(extra) > 0 {
		with.done(results[len(steps):])
	}
	replies := make([]stepReply, len(steps))
	for i, s := range steps {
		bytes, err := results[i].AsBytes()
		if lua.Unknown(err) {
			bytes, err = c.client.Do(ctx, s.script.Whole(c.client, s.keys, s.args)).AsBytes()
		}
		if err != nil && !valkey.IsValkeyNil(err) {
			err = fmt.Errorf("enforce: check: %w", err)
		} else {
			err = nil
		}
		replies[i] = stepReply{bytes, err}
	}
	return replies
}

// Piggyback is a list of commands that leaves in the first flush of a check. Nil stands
// for none.
type Piggyback struct {
	client   valkey.Client
	commands []valkey.Completed
	done     func([]valkey.ValkeyResult)
}

// NewPiggyback returns commands that are sent once, with the first check that asks
// Valkey. Then done gets one result for each.
func NewPiggyback(
	client valkey.Client, commands []valkey.Completed, done func([]valkey.ValkeyResult),
) *Piggyback {
	return &Piggyback{client, commands, done}
}

// take returns the commands that were not sent yet, and counts them as sent.
func (p *Piggyback) take() []valkey.Completed {
	if p == nil {
		return nil
	}
	commands := p.commands
	p.commands = nil
	return commands
}

// Flush sends the commands by themselves if no check did.
func (p *Piggyback) Flush(ctx context.Context) {
	if commands := p.take(); len(commands) > 0 {
		p.done(p.client.DoMulti(ctx, commands...))
	}
}
