package app

import (
	"testing"

	"tidegate/internal/limits"
)

func TestPercent(t *testing.T) {
	for _, row := range []struct{ used, of, want int64 }{
		{0, 10, 0}, {1, 1_000_000, 1}, {999_999, 1_000_000, 99}, {10, 10, 100}, {12, 10, 100}, {5, 10, 50},
		{-1, 10, 0}, {1, 0, 0},
		{limits.MaxRequests - 1, limits.MaxRequests, 99},
	} {
		if got := Percent(row.used, row.of); got != row.want {
			t.Errorf("%d of %d: got %d, want %d", row.used, row.of, got, row.want)
		}
	}
}
