package policy

import (
	"context"

	"github.com/valkey-io/valkey-go"
)

// Passengers are commands that travel in the flush of a check. Nil stands for none.
type Passengers struct {
	client   valkey.Client
	commands []valkey.Completed
	done     func([]valkey.ValkeyResult)
}

// NewPassengers returns commands that leave once, with the first check that goes to Valkey; done gets a result for each then.
func NewPassengers(client valkey.Client, commands []valkey.Completed, done func([]valkey.ValkeyResult)) *Passengers {
	return &Passengers{client, commands, done}
}

// board returns the commands, if they did not leave yet.
func (p *Passengers) board() []valkey.Completed {
	if p == nil {
		return nil
	}
	commands := p.commands
	p.commands = nil
	return commands
}

// Walk sends the commands by themselves if no check took them along.
func (p *Passengers) Walk(ctx context.Context) {
	if commands := p.board(); len(commands) > 0 {
		p.done(p.client.DoMulti(ctx, commands...))
	}
}
