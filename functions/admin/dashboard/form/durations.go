package form

import (
	"strings"
	"time"

	"tidegate/internal/limiter"
	"tidegate/internal/policy"
)

// Span reads a time such as 10s, 5m, 1h30m or 2d.
func (in *Input) Span() policy.Duration {
	d, err := limiter.ParseWindow(strings.TrimSpace(in.Text))
	if err != nil {
		in.Error = "Enter a time such as 30s, 5m, 1h or 2d."
	}
	return policy.Duration(d)
}

// Lease reads a time that may be left out.
func (in *Input) Lease() policy.Duration {
	if strings.TrimSpace(in.Text) == "" {
		return 0
	}
	d := in.Span()
	if in.Error != "" {
		in.Error = "Enter a time such as 500ms, 1s or 10s, or leave it blank."
	}
	return d
}

// LeaseText is what lease reads.
func LeaseText(d policy.Duration) string {
	if d == 0 {
		return ""
	}
	return limiter.ShortWindow(time.Duration(d))
}
