package config

import (
	"testing"
	"time"
)

// The least and the most are within the bounds, and what is beyond says what must be.
func TestCheck(t *testing.T) {
	for d, words := range map[Duration]string{
		ValkeyTimeout: "1ms to 10s", CallerCache: "0s to 24h", DenyCache: "0s to 1m",
		SessionIdle:                   "1m to 720h",
		{90 * time.Second, time.Hour}: "1m30s to 1h",
	} {
		for value, ok := range map[time.Duration]bool{d.Least: true, d.Most: true, d.Least - 1: false,
			d.Most + 1: false} {
			err := d.Check(value)
			if (err == nil) != ok || err != nil && err.Error() != "is "+value.String()+": must be "+words {
				t.Errorf("%s: %s: %v", words, value, err)
			}
		}
	}
}
