package config

import (
	"fmt"
	"time"
)

// Duration is the bounds of a setting that is a duration.
type Duration struct{ Least, Most time.Duration }

// The bounds of the functions' settings. docs/configuration.md says what each means.
var (
	ValkeyTimeout        = Duration{time.Millisecond, 10 * time.Second}
	ValkeyConnectTimeout = Duration{100 * time.Millisecond, 8 * time.Second}
	CallerCache          = Duration{0, 24 * time.Hour}
	DenyCache            = Duration{0, time.Minute}
	ReservationLease     = Duration{time.Second, 24 * time.Hour}
	SessionIdle          = Duration{time.Minute, 30 * 24 * time.Hour}
	SessionLifetime      = Duration{time.Minute, 30 * 24 * time.Hour}
	// At least 31 days, because charts mark the changes of 30 days.
	AuditRetention = Duration{31 * 24 * time.Hour, 10 * 365 * 24 * time.Hour}
)

// Check returns an error for a value out of bounds.
func (d Duration) Check(value time.Duration) error {
	if value < d.Least || value > d.Most {
		return fmt.Errorf("is %s: must be %s", value, d)
	}
	return nil
}

// String returns the bounds as "1s to 24h".
func (d Duration) String() string { return brief(d.Least) + " to " + brief(d.Most) }

// brief leaves out units that are zero: 24h, not 24h0m0s.
func brief(d time.Duration) string {
	switch {
	case d == 0:
		return "0s"
	case d%time.Hour == 0:
		return fmt.Sprintf("%dh", d/time.Hour)
	case d%time.Minute == 0:
		return fmt.Sprintf("%dm", d/time.Minute)
	}
	return d.String()
}
