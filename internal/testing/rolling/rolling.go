// Package rolling finds the fullest rolling window of admissions whose instants are not
// known exactly. An admission happened between the instants at which its call was sent
// and its answer arrived. Only tests import it.
package rolling

import (
	"cmp"
	"container/heap"
	"slices"
	"time"
)

// Span is the time in which an event happened: at one instant from First to Last, both
// inclusive.
type Span struct{ First, Last time.Duration }

// At returns the span of a known instant.
func At(t time.Duration) Span { return Span{t, t} }

// Fullest returns the greatest number of spans that are certainly in one window
// [from, from+window), and the start of that window. A number above a limit proves that
// the limit was exceeded.
func Fullest(spans []Span, window time.Duration) (from time.Duration, most int) {
	latest := slices.Clone(spans)
	slices.SortFunc(latest, func(a, b Span) int { return cmp.Compare(b.First, a.First) })
	var within lasts // ends of the spans in the window
	for i, s := range latest {
		heap.Push(&within, s.Last)
		for len(within) > 0 && within[0] >= s.First+window {
			heap.Pop(&within)
		}
		if next := i + 1; next < len(latest) && latest[next].First == s.First {
			continue // spans that begin together count together
		}
		if len(within) >= most {
			from, most = s.First, len(within)
		}
	}
	return from, most
}

// Possible returns the greatest number of spans that can be in one window. No window had
// more events.
func Possible(spans []Span, window time.Duration) int {
	// A window [from, from+window) meets a span while First-window < from <= Last.
	type edge struct {
		at    time.Duration
		enter bool
	}
	edges := make([]edge, 0, 2*len(spans))
	for _, s := range spans {
		edges = append(edges, edge{s.First - window, true}, edge{s.Last, false})
	}
	slices.SortFunc(edges, func(a, b edge) int {
		// A span leaves the windows that begin at an instant before another enters those
		// that begin just after it.
		if a.at == b.at && a.enter != b.enter {
			return map[bool]int{true: 1, false: -1}[a.enter]
		}
		return cmp.Compare(a.at, b.at)
	})
	now, most := 0, 0
	for _, e := range edges {
		if e.enter {
			now++
		} else {
			now--
		}
		most = max(most, now)
	}
	return most
}

// History has spans in the order of First.
type History struct {
	spans   []Span
	longest time.Duration
}

// NewHistory sorts the spans.
func NewHistory(spans []Span) *History {
	h := &History{spans: slices.Clone(spans)}
	slices.SortFunc(h.spans, func(a, b Span) int { return cmp.Compare(a.First, b.First) })
	for _, s := range h.spans {
		h.longest = max(h.longest, s.Last-s.First)
	}
	return h
}

// Around returns how many spans may be in the window that ends at s.
func (h *History) Around(s Span, window time.Duration) int {
	n := 0
	for _, other := range h.from(s.First - window - h.longest) {
		if other.First > s.Last {
			break
		}
		if other.Last > s.First-window {
			n++
		}
	}
	return n
}

// from returns the spans that begin at t or later.
func (h *History) from(t time.Duration) []Span {
	i, _ := slices.BinarySearchFunc(h.spans, t, func(s Span, t time.Duration) int {
		return cmp.Compare(s.First, t)
	})
	return h.spans[i:]
}

// lasts is a heap of ends with the latest first.
type lasts []time.Duration

func (l *lasts) Len() int           { return len(*l) }
func (l *lasts) Less(i, j int) bool { return (*l)[i] > (*l)[j] }
func (l *lasts) Swap(i, j int)      { (*l)[i], (*l)[j] = (*l)[j], (*l)[i] }
func (l *lasts) Push(x any)         { *l = append(*l, x.(time.Duration)) }
func (l *lasts) Pop() any {
	last := len(*l) - 1
	x := (*l)[last]
	*l = (*l)[:last]
	return x
}
