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

// A window includes its beginning and excludes its end.
func TestFullestOfInstants(t *testing.T) {
	var spans []rolling.Span
	for _, ms := range []int{2750, 0, 1000, 0, 1500, 2500, 2000} {
		spans = append(spans, rolling.At(time.Duration(ms)*time.Millisecond))
	}
	for window, want := range map[time.Duration]int{
		time.Microsecond: 2, time.Second: 3, 1001 * time.Millisecond: 3, 2 * time.Second: 5,
		2750 * time.Millisecond: 6, time.Hour: 7,
	} {
		if _, most := rolling.Fullest(spans, window); most != want {
			t.Errorf("window %s: %d, want %d", window, most, want)
		}
		if most := rolling.Possible(spans, window); most != want {
			t.Errorf("window %s: at most %d, want %d, since all instants are known", window, most, want)
		}
	}
}

// Fullest counts only spans that certainly lie in a window.
func TestFullestOfSpans(t *testing.T) {
	spans := []rolling.Span{span(0, 2), span(1, 3), span(11, 12)}
	for _, c := range []struct{ window, most, possible int }{{10, 2, 3}, {12, 2, 3}, {13, 3, 3},
		{8, 2, 2}, {2, 1, 2}} {
		if _, most := rolling.Fullest(spans, time.Duration(c.window)); most != c.most {
			t.Errorf("window %d: %d, want %d", c.window, most, c.most)
		}
		if most := rolling.Possible(spans, time.Duration(c.window)); most != c.possible {
			t.Errorf("window %d: at most %d, want %d", c.window, most, c.possible)
		}
	}
	if from, most := rolling.Fullest(nil, time.Second); from != 0 || most != 0 {
		t.Errorf("without spans: got %d from %s, want 0 from 0s", most, from)
	}
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

// Around bounds the number in the window that ends at a span. As in a limiter, a call
// exactly a window old does not count.
func TestHistory(t *testing.T) {
	h := rolling.NewHistory([]rolling.Span{span(20, 25), span(0, 2), span(10, 12), span(11, 30)})
	for _, c := range []struct {
		of             rolling.Span
		window, around int
	}{
		{span(40, 40), 30, 3}, // the span 10 to 12 may be exactly a window old
		{span(40, 40), 31, 3},
		{span(40, 40), 28, 2},
		{span(22, 23), 100, 4},
		{span(20, 25), 100, 4},
		{span(2, 3), 100, 1},
	} {
		if n := h.Around(c.of, time.Duration(c.window)); n != c.around {
			t.Errorf("%+v: got %d, want %d", c, n, c.around)
		}
	}
}
