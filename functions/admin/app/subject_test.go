package app

import (
	"testing"

	"tidegate/internal/limits"
)

func TestPercent(t *testing.T) {
	for _, row := range []struct{ used, of, want int64 }{
		{0, 10, 0}, {10, 60, 17}, {1, 1_000_000, 0}, {10, 10, 100}, {12, 10, 100}, {5, 10, 50}, {-1, 10, 0},
		{1, 0, 0}, {limits.MaxRequests - 1, limits.MaxRequests, 100},
	} {
		if got := Percent(row.used, row.of); got != row.want {
			t.Errorf("%d of %d: got %d, want %d", row.used, row.of, got, row.want)
		}
	}
	for want, got := range map[string]string{"17 %": ShareWords(10, 60), "less than 1 %": ShareWords(2, 1000),
		"more than 99 %": ShareWords(999, 1000), "0 %": ShareWords(0, 5), "100 %": ShareWords(5, 5)} {
		if got != want {
			t.Errorf("got %q, want %q", got, want)
		}
	}
}
