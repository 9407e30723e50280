package limiter

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/valkey-io/valkey-go"

	"tidegate/internal/testing/valkeytest"
)

// engine is a Model, or the scripts on a server whose clock is an argument.
type engine interface {
	step(s Step, clock int64, takes bool) []int64
	give(s Settlement, clock int64) []int64
	// bytes returns everything that the states of a step hold.
	bytes(s Step) string
}

// sizes are the constants of the algorithm. A test makes them small, so that its short
// histories merge and rewrite.
type sizes struct{ part, least, piece, read int }

func (z sizes) model() *Model {
	return &Model{part: int64(z.part), least: int64(z.least), piece: int64(z.piece)}
}

// script returns the text of a shipped script with these sizes, and the server's clock as
// its last argument. Keys live for ten minutes more, since that clock runs ahead.
func (z sizes) script(text string, edits ...string) *valkey.Lua {
	edits = append([]string{clockLua, "local clock = tonumber(ARGV[#ARGV])\n",
		"/ 1000) + 1", "/ 1000) + 600000", "local READ, TAIL, FROM = 200, 2408, '-2408'",
		fmt.Sprintf("local READ, TAIL, FROM = %d, %d, '-%d'", z.read, 12*z.read+8, 12*z.read+8),
		"local PART, LEAST, PIECE = 500, 24, 300",
		fmt.Sprintf("local PART, LEAST, PIECE = %d, %d, %d", z.part, z.least, z.piece)}, edits...)
	if !strings.Contains(text, edits[4]) || !strings.Contains(text, edits[6]) {
		panic("the scripts have other sizes")
	}
	for i := 0; i < len(edits); i += 2 {
		text = strings.ReplaceAll(text, edits[i], edits[i+1])
	}
	return valkey.NewLuaScript(text)
}

// server runs the scripts. Each history has keys of its own.
type server struct {
	t                   testing.TB
	client              valkey.Client
	take, look, settles *valkey.Lua
	prefix              string
}

func connect(t testing.TB) valkey.Client {
	t.Helper()
	return connectTo(t, valkeytest.Start(t))
}

func connectTo(t testing.TB, url string) valkey.Client {
	t.Helper()
	client, err := valkey.NewClient(valkey.ClientOption{
		InitAddress: []string{strings.TrimPrefix(url, "valkey://")}, DisableCache: true,
		ForceSingleClient: true,
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(client.Close)
	return client
}

// newServer returns the scripts with these sizes, in which edits (old text, new text)
// plant faults.
func newServer(t testing.TB, client valkey.Client, z sizes, edits ...string) *server {
	t.Helper()
	for i := 0; i < len(edits); i += 2 {
		if !strings.Contains(StepScript(stepHead, returnReply)+GiveScript(giveHead, returnReply), edits[i]) {
			t.Fatalf("no script has %q", edits[i])
		}
	}
	return &server{t: t, client: client, take: z.script(StepScript(stepHead, returnReply), edits...),
		look:    z.script(LookScript(lookHead, returnReply), edits...),
		settles: z.script(GiveScript(giveHead, returnReply), edits...)}
}

func (v *server) run(script *valkey.Lua, keys, args []string) []int64 {
	v.t.Helper()
	for i, k := range keys {
		keys[i] = v.prefix + k
	}
	reply, err := script.Exec(context.Background(), v.client, keys, args).AsIntSlice()
	if err != nil {
		panic(err.Error())
	}
	return reply
}

func (v *server) step(s Step, clock int64, takes bool) []int64 {
	v.t.Helper()
	if !takes {
		return v.run(v.look, s.Keys(), []string{s.List(), number(s.Reset), number(clock)})
	}
	keys, keep := s.Keys(), "0"
	if s.Record != "" {
		keys, keep = append([]string{s.Record}, keys...), number(s.RecordFor.Milliseconds())
	}
	return v.run(v.take, keys, []string{s.List(), number(s.Reset), keep, number(clock)})
}

func (v *server) give(s Settlement, clock int64) []int64 {
	v.t.Helper()
	keys, marked := s.Keys(), "0"
	if s.Record != "" {
		keys, marked = append([]string{s.Record}, keys...), "1"
	}
	return v.run(v.settles, keys, []string{s.List(), number(s.Reset), marked, number(s.At), number(clock)})
}

func (v *server) bytes(s Step) string {
	v.t.Helper()
	if len(s.States) == 0 {
		return ""
	}
	keys := s.Keys()
	for i, k := range keys {
		keys[i] = v.prefix + k
	}
	values, err := v.client.Do(context.Background(), v.client.B().Mget().Key(keys...).Build()).ToArray()
	if err != nil {
		v.t.Fatal(err)
	}
	var all []string
	for _, value := range values {
		text, _ := value.ToString()
		all = append(all, text)
	}
	return strings.Join(all, "|")
}

// bytes encodes the states of a step as the scripts store them.
func (m *Model) bytes(s Step) string {
	var all []string
	for _, c := range s.States {
		all = append(all, encode(m.states[c.Key]))
	}
	return strings.Join(all, "|")
}

// encode returns a state as open.lua describes it.
func encode(p state) string {
	var b []byte
	switch p := p.(type) {
	case *log:
		b = append(b, 1)
		for _, f := range [][2]int64{{p.began, 7}, {p.keep, 6}, {p.keep2, 6}, {p.number, 4}, {p.num2, 4},
			{p.full, 3}, {p.next, 3}} {
			b = appendInt(b, f[0], int(f[1]))
		}
		for i, t := range p.times {
			b = appendInt(appendInt(b, t, 7), p.totals[i], 5)
		}
	case *small:
		b = append(b, 1)
		for _, f := range [][2]int64{{p.last, 7}, {(p.end - p.last) / 2, 6}, {p.first, 7}, {p.start, 7},
			{p.previous, 5}, {p.parts, 6}, {p.count, 5}} {
			b = appendInt(b, f[0], int(f[1]))
		}
	}
	return string(b)
}

// both runs a model and the scripts, and fails where they differ.
type both struct {
	*Model
	*server
}

func (b both) step(s Step, clock int64, takes bool) []int64 {
	b.t.Helper()
	want, got := b.Model.step(s, clock, takes), b.server.step(s, clock, takes)
	if !slices.Equal(want, got) {
		panic(fmt.Sprintf("the model replies %v, the script %v to %+v at %d", want, got, s.States, clock))
	}
	b.compare(s, clock)
	return got
}

func (b both) give(s Settlement, clock int64) []int64 {
	b.t.Helper()
	want, got := b.Model.give(s, clock), b.server.give(s, clock)
	if !slices.Equal(want, got) {
		panic(fmt.Sprintf("the model gives back %v, the script %v of %+v at %d", want, got, s, clock))
	}
	var states Step
	for _, c := range s.Changes {
		states.States = append(states.States, c.State)
	}
	b.compare(states, clock)
	return got
}

// compare compares what a model and a server hold. Totals of logs may differ by a constant.
func (b both) compare(s Step, clock int64) {
	b.t.Helper()
	for i := range s.States {
		p := b.states[s.States[i].Key]
		if p == nil || p.ends() <= clock {
			continue // a server may keep it a moment longer
		}
		one := Step{States: s.States[i : i+1]}
		want, got := b.Model.bytes(one), b.server.bytes(one)
		if _, ok := p.(*log); ok && len(want) == len(got) {
			want, got = fromNewest(want), fromNewest(got)
		}
		if want != got {
			panic(fmt.Sprintf("%s\nthe model holds %x\nthe server     %x", s.States[i].Key, want, got))
		}
	}
}

// fromNewest returns an encoded log with totals below its newest.
func fromNewest(text string) string {
	const head, entry = 34, 12
	total := func(i int) (v int64) {
		for _, c := range []byte(text[i+7 : i+entry]) {
			v = v<<8 | int64(c)
		}
		return v
	}
	newest := total(len(text) - entry)
	b := []byte(text[:head])
	for i := head; i < len(text); i += entry {
		b = append(b, text[i:i+7]...)
		b = appendInt(b, newest-total(i), 5)
	}
	return string(b)
}

func (b both) bytes(s Step) string { return b.Model.bytes(s) }
