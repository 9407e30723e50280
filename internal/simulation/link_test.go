package simulation

import (
	"context"
	"time"

	"github.com/valkey-io/valkey-go"
)

// link is the connection of all environments. It can lose requests and replies, and be
// slow. A request whose reply is lost may be executed again (see source).
type link struct {
	valkey.Client
	dead  valkey.Client // answers every command with an error, and sends none
	world *world
	down  bool   // no command arrives
	shaky bool   // some commands or replies are lost or late
	reset bool   // a reply was lost since the last check began
	ghost func() // called for commands that may have been executed in vain
}

// fate is what happens to one flush of commands.
type fate int

const (
	arrives fate = iota
	lost
	replyLost
	late
)

func (l *link) fate() fate {
	switch {
	case l.down:
		return lost
	case !l.shaky || l.world.IntN(4) > 0:
		return arrives
	}
	return fate(l.world.IntN(int(late) + 1))
}

func (l *link) Do(ctx context.Context, command valkey.Completed) valkey.ValkeyResult {
	return l.DoMulti(ctx, command)[0]
}

func (l *link) DoMulti(ctx context.Context, commands ...valkey.Completed) []valkey.ValkeyResult {
	for i := range commands {
		commands[i] = commands[i].Pin()
	}
	switch l.fate() {
	case lost:
		l.ghost() // of commands before
		return l.dead.DoMulti(ctx, commands...)
	case replyLost:
		l.Client.DoMulti(ctx, commands...)
		l.ghost()
		l.reset = true
		return l.dead.DoMulti(ctx, commands...)
	case late:
		l.world.pass(time.Duration(l.world.IntN(100)) * time.Millisecond)
	case arrives:
	}
	return l.Client.DoMulti(ctx, commands...)
}
