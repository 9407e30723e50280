package limiter

import (
	"context"
	_ "embed" // the scripts
	"encoding/binary"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/valkey-io/valkey-go"

	"tidegate/internal/lua"
)

var (
	//go:embed prelude.lua
	preludeLua string
	//go:embed open.lua
	openLua string
	//go:embed ask.lua
	askLua string
	//go:embed add.lua
	addLua string
	//go:embed step.lua
	stepLua string
	//go:embed give.lua
	giveLua string
)

// clockLua sets clock to the server's time.
const clockLua = "local t = call('TIME')\nlocal clock = t[1] * 1000000 + t[2]\n"

// StepScript returns the text of a script that makes one step. head runs first, when the
// local clock has the server's time. It sets the locals that the headers of open.lua and
// step.lua describe: reset, list, first, record and keep. tail runs last, and returns the
// local reply, for Step.Decision.
func StepScript(head, tail string) string {
	take := strings.Replace(stepLua, addMark, addLua, 1)
	return preludeLua + clockLua + head + openLua + askHead + askLua + take +
		"if again then\n" + askLua + "end\n" + askTail + tail
}

// LookScript returns the text of a script that decides as StepScript does, and has no
// command that writes. head sets reset, list and first.
func LookScript(head, tail string) string {
	return preludeLua + clockLua + head + openLua + askHead + askLua + askTail + tail
}

// GiveScript returns the text of a script that settles one call. head sets the locals that
// the headers of open.lua and give.lua describe: reset, list, at, record and first.
func GiveScript(head, tail string) string {
	return preludeLua + clockLua + head + openLua + strings.Replace(giveLua, addMark, addLua, 1) + tail
}

const (
	addMark = "-- add.lua\n"
	askHead = "local reply, passed, attempts, again = {0, now, clock, 0}, true, false, nil\n"
	askTail = "if passed then reply[1] = 1 end\n"
)

// The heads of the scripts that know no caller. KEYS are the states and, if ARGV[3] is not
// 0, the record before them. ARGV[1] is the list, ARGV[2] reset, ARGV[3] how long a step
// keeps the record (milliseconds), ARGV[4] the instant of the call that is settled.
const (
	lookHead = "local list, reset, first = ARGV[1], tonumber(ARGV[2]), 1\n"
	bothHead = lookHead + "local keep, record = tonumber(ARGV[3]), false\n" +
		"if keep > 0 then first, record = 2, KEYS[1] end\n"
	stepHead    = bothHead
	giveHead    = bothHead + "local at = tonumber(ARGV[4])\n"
	returnReply = "return reply"
)

var (
	stepScript = lua.New(func() string { return StepScript(stepHead, returnReply) })
	lookScript = lua.NewReadOnly(func() string { return LookScript(lookHead, returnReply) })
	giveScript = lua.New(func() string { return GiveScript(giveHead, returnReply) })
)

// Bits of a state's first byte. The two lowest bits are its algorithm.
const (
	attemptsBit = 4
	shadowBit   = 8
	periodsBit  = 16
	chargedBit  = 32
)

// List encodes the states for the scripts; open.lua has the layout.
func (s Step) List() string {
	b := []byte{0}
	if slices.ContainsFunc(s.States, func(p State) bool { return p.Algorithm != Log }) {
		b[0] = 1
	}
	for _, p := range s.States {
		mode := p.mode()
		if p.Fate&Attempts != 0 {
			mode |= attemptsBit
		}
		if p.Fate&Shadow != 0 {
			mode |= shadowBit
		}
		b = p.append(b, mode, p.Cost)
		for _, r := range p.Rates {
			b = binary.BigEndian.AppendUint32(b, uint32(r.Number))
			b = appendInt(b, r.Window, 6)
		}
	}
	return valkey.BinaryString(b)
}

// Keys returns the keys of the states.
func (s Step) Keys() []string {
	keys := make([]string, len(s.States))
	for i, p := range s.States {
		keys[i] = p.Key
	}
	return keys
}

// List encodes the changes for give.lua, as open.lua describes it.
func (s Settlement) List() string {
	b := []byte{0}
	if slices.ContainsFunc(s.Changes, func(c Change) bool { return c.Algorithm != Log }) {
		b[0] = 1
	}
	for _, c := range s.Changes {
		mode := c.mode()
		if c.By > 0 {
			mode |= chargedBit
		}
		b = c.append(b, mode, max(c.By, -c.By))
	}
	return valkey.BinaryString(b)
}

// Keys returns the keys of the states.
func (s Settlement) Keys() []string {
	keys := make([]string, len(s.Changes))
	for i, c := range s.Changes {
		keys[i] = c.Key
	}
	return keys
}

func (s *State) mode() byte {
	mode := byte(s.Algorithm)
	if s.Periods != (Periods{}) {
		mode |= periodsBit
	}
	return mode
}

// append appends a state to a list, without its limits.
func (s *State) append(b []byte, mode byte, cost int64) []byte {
	b = append(b, mode, byte(len(s.Rates)))
	b = binary.BigEndian.AppendUint32(b, uint32(cost))
	b = binary.BigEndian.AppendUint32(b, uint32(s.Number))
	b = appendInt(b, s.Window, 6)
	if s.Periods != (Periods{}) {
		for _, p := range s.Periods {
			b = appendInt(b, p, 7)
		}
	}
	return b
}

// appendInt appends the lowest bytes of an integer, big-endian.
func appendInt(b []byte, v int64, bytes int) []byte {
	for shift := 8 * (bytes - 1); shift >= 0; shift -= 8 {
		b = append(b, byte(v>>shift))
	}
	return b
}

// Take takes the cost of a call from all of its limits, or from none. Any error means that
// no decision was made; the cost may have been taken.
func Take(ctx context.Context, client valkey.Client, s Step) (Decision, error) {
	keys, keep := s.Keys(), s.RecordFor.Milliseconds()
	if s.Record == "" {
		keep = 0
	} else {
		keys = append([]string{s.Record}, keys...)
	}
	return s.run(stepScript.Do(ctx, client, keys, []string{s.List(), number(s.Reset), number(keep)}))
}

// Look decides a call as Take does, with a script that cannot write.
func Look(ctx context.Context, client valkey.Client, s Step) (Decision, error) {
	return s.run(lookScript.Do(ctx, client, s.Keys(), []string{s.List(), number(s.Reset)}))
}

func (s Step) run(result valkey.ValkeyResult) (Decision, error) {
	reply, err := result.AsIntSlice()
	if err != nil {
		return Decision{}, fmt.Errorf("limiter: take: %w", err)
	}
	return s.Decision(reply)
}

// Settle settles a call. It returns what each state gave back or was charged, in the order
// of the changes; nothing if the call is settled already.
func Settle(ctx context.Context, client valkey.Client, s Settlement) ([]int64, error) {
	keys, marked := s.Keys(), "0"
	if s.Record != "" {
		keys, marked = append([]string{s.Record}, keys...), "1"
	}
	reply, err := giveScript.Do(ctx, client, keys,
		[]string{s.List(), number(s.Reset), marked, number(s.At)}).AsIntSlice()
	if err != nil {
		return nil, fmt.Errorf("limiter: settle: %w", err)
	}
	if len(reply) != 0 && len(reply) != len(s.Changes) {
		return nil, fmt.Errorf("%w: %d integers for %d states", ErrReply, len(reply), len(s.Changes))
	}
	return reply, nil
}

func number(v int64) string { return strconv.FormatInt(v, 10) }
