//go:build unix

package main

import (
	"testing"
	"time"

	"tidegate/internal/store"
	"tidegate/internal/testing/valkeytest"
	"tidegate/internal/testing/waiting"
	recorded "tidegate/internal/usage"
)

// Idle functions send the usage records of their last calls without a further call.
func TestIdleFunctionsSendTheirUsage(t *testing.T) {
	url := valkeytest.Start(t)
	p, c := start(t, "-valkey", url), newCaller(t, 1)
	client, err := store.Open(t.Context(), url,
		store.Options{Dial: waiting.Timeout, Write: waiting.Timeout})
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	for range 12 {
		c.get(p.url("rest")+"/orders", p.key("free"))
	}
	waiting.Until(t, "12 calls are counted", func() bool {
		now := time.Now()
		points, err := recorded.NewReader(client).Overview(t.Context(), now.Add(-10*time.Minute),
			now.Add(time.Minute), time.Minute)
		if err != nil {
			t.Fatal(err)
		}
		total := recorded.Sum(points)
		return total.Allowed+total.Denied == 12
	})
}
