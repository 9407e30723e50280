package enforce

import (
	"time"

	"tidegate/internal/limits"
)

// Crossing reports that a call took the use of a limit to one of its thresholds.
type Crossing struct {
	Limit   limits.Limit
	Used    int64  // after the call
	Subject string // id of what the limit is on: a caller, an address, a group, a route
	Percent int    // the threshold
	// Reset is the time until the window of the limit has passed: the end of a fixed window,
	// else a whole window.
	Reset time.Duration
	At    time.Time // server time
}
