package enforce

import (
	"context"

	"github.com/valkey-io/valkey-go"
)

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
