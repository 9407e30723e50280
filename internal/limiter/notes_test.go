package limiter

import (
	"bytes"
	"encoding/binary"
	"testing"
	"time"

	"tidegate/internal/testing/valkeytest"
)

// Notes for refunds are stored as the header of readstate.lua says: behind an entry of the
// signature by which older releases take the state for one with other limits.
func TestNotesAreStoredAsTheHeaderSays(t *testing.T) {
	client, script := connect(t, valkeytest.Start(t)), clockedScript(t)
	limits := []Limit{
		{Requests: 6400, Window: time.Minute, Slots: MinSlots},
		{Requests: 1000, Window: time.Minute, Algorithm: TokenBucket},
	}
	var model Model
	now := time.Unix(1_800_000_000, 0)
	program, err := Compile(limits, now)
	if err != nil {
		t.Fatal(err)
	}
	step := func(cost, at int64) {
		t.Helper()
		args := []string{string(program), number(cost), number(at), number(now.UnixMicro())}
		if _, err := script.Exec(t.Context(), client, []string{"notes"}, args).ToString(); err != nil {
			t.Fatal(err)
		}
	}
	first := now
	for range 3 {
		step(250, Reserving)
		if _, err := model.Reserve(now, limits, 250); err != nil {
			t.Fatal(err)
		}
		now = now.Add(time.Second)
	}
	step(-20, first.UnixMicro())
	model.Refund(now, limits, 20, first, 0)

	state, err := client.Do(t.Context(), client.B().Get().Key("notes").Build()).AsBytes()
	if err != nil {
		t.Fatal(err)
	}
	log, bucket := model.states[0], model.states[1]
	if len(log.deficits) != 1 || len(bucket.valleys.list) != 2 {
		t.Fatalf("the model has %v and %v, want a deficit and two valleys", log.deficits, bucket.valleys)
	}
	notes := note(1, log.deficits[0].at, log.deficits[0].calls)
	notes = append(notes, note(2, bucket.valleys.since, 1)...) // it was full
	for _, v := range bucket.valleys.list {
		notes = append(append(notes, note(2, v.at, v.part)...), note(2, v.whole, 0)...)
	}
	if got := state[len(state)-len(notes):]; !bytes.Equal(got, notes) {
		t.Errorf("notes %x, want %x", got, notes)
	}
	entry := "\x01\x00\x00\x00\x01\x06\x00\x00\x00\x00\x00\x01"
	if state[0] != programVersion || state[1] != 3 || string(state[26:38]) != entry {
		t.Errorf("signature %x", state[:38])
	}
	numbers := state[38+logLen+countLen:][:logLen]
	if n := binary.BigEndian.Uint32(numbers[14:]); int(n)*6 != len(notes) {
		t.Errorf("%d in the numbers of the notes, want %d", n, len(notes)/6)
	}
}

func note(section byte, time, last int64) []byte {
	b := append([]byte{section, byte(time >> 48)}, appendUint48(nil, time)...)
	return binary.BigEndian.AppendUint32(b, uint32(last))
}
