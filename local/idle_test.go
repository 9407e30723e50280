//go:build unix

package main

import (
	"testing"
	"time"

	"tidegate/internal/store"
	"tidegate/internal/testwait"
	recorded "tidegate/internal/usage"
	"tidegate/internal/valkeytest"
)

// What was called is counted soon, though nobody calls any more.
func TestIdleFunctionsSendTheirUsage(t *testing.T) {
	url := valkeytest.Start(t)
	p, c := start(t, "-valkey", url), newCaller(t, 1)
	client, err := store.Open(t.Context(), url, store.Options{Dial: testwait.Patience, Write: testwait.Patience})
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	for range 12 {
		c.get(p.url("rest")+"/orders", p.key("free"))
	}
	testwait.Until(t, "12 calls are counted", func() bool {
		now := time.Now()
		points, err := recorded.NewReader(client).Overview(t.Context(), now.Add(-10*time.Minute), now.Add(time.Minute), time.Minute)
		if err != nil {
			t.Fatal(err)
		}
		total := recorded.Sum(points)
		return total.Allowed+total.Denied == 12
	})
}
