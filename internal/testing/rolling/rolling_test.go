package rolling_test

import (
	"testing"
	"time"

	"pgregory.net/rapid"

	"tidegate/internal/testing/rolling"
)

func span(first, last int) rolling.Span {
	return rolling.Span{First: time.Duration(first), Last: time.Duration(last)}
}

// Fullest and Possible bound the true number, which the test finds by trying every window
// on random instants in the spans.
func TestBoundsHold(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		window := rapid.IntRange(1, 12).Draw(t, "window")
		var spans, instants []rolling.Span
		for range rapid.IntRange(0, 12).Draw(t, "spans") {
			first := rapid.IntRange(0, 30).Draw(t, "first")
			length := rapid.IntRange(0, 6).Draw(t, "length")
			spans = append(spans, span(first, first+length))
			at := first + rapid.IntRange(0, length).Draw(t, "at")
			instants = append(instants, span(at, at))
		}
		_, proven := rolling.Fullest(spans, time.Duration(window))
		possible := rolling.Possible(spans, time.Duration(window))
		truth := 0
		for from := -1; from <= 40; from++ {
			n, surely := 0, 0
			for i, at := range instants {
				if int(at.First) >= from && int(at.First) < from+window {
					n++
				}
				if int(spans[i].First) >= from && int(spans[i].Last) < from+window {
					surely++
				}
			}
			truth = max(truth, n)
			if surely > proven {
				t.Fatalf("%d spans lie in [%d, +%d), but Fullest found %d", surely, from, window, proven)
			}
		}
		if proven > truth || truth > possible {
			t.Fatalf("proven %d, true %d, possible %d", proven, truth, possible)
		}
	})
}
