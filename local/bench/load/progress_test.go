//go:build unix

package main

import (
	"bytes"
	"context"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

// The state is shown in a line every five seconds.
func TestProgress(t *testing.T) {
	tally := newTally(0, func(o outcome) bool { return o.kind == admitted })
	for i := range 1500 {
		tally.add(outcome{kind: kind(i % 2), received: 2 * time.Millisecond})
	}
	const state = " of 1m0s · 1,500 calls · admitted 50.0% · denied 50.0% · unexpected 750 · p50 2.00 ms · " +
		"p99 2.00 ms\n"
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithTimeout(t.Context(), 12*time.Second)
		defer cancel()
		var out bytes.Buffer
		progress{&out}.follow(ctx, "steady", time.Minute, clock{time.Now()}, tally)
		if want := "steady 5s" + state + "steady 10s" + state; out.String() != want {
			t.Errorf("got %q, want %q", out.String(), want)
		}
	})
}

func TestMilliseconds(t *testing.T) {
	var got []string
	for _, d := range []time.Duration{1234 * time.Microsecond, 12_340 * time.Microsecond,
		1234 * time.Millisecond} {
		got = append(got, ms(d))
	}
	if text := strings.Join(got, ", "); text != "1.23 ms, 12 ms, 1.23 s" {
		t.Errorf("got %s, want 1.23 ms, 12 ms, 1.23 s", text)
	}
}
