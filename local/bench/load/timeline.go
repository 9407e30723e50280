//go:build unix

package main

import (
	"sync"
	"time"
)

// timeline records the edits of a limit. It is safe for concurrent use.
type timeline struct {
	mu    sync.Mutex
	edits []limitEdit
}

// limitEdit is a limit that is in force from some instant between begun and acknowledged.
type limitEdit struct {
	begun, acknowledged time.Duration
	requests            int64
}

func newTimeline(requests int64) *timeline {
	return &timeline{edits: []limitEdit{{requests: requests}}}
}

func (t *timeline) add(e limitEdit) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.edits = append(t.edits, e)
}

// between returns the least and the highest value that the limit may have had at an
// instant of the span.
func (t *timeline) between(first, last time.Duration) (least, most int64) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for i, e := range t.edits {
		begun := i == 0 || e.begun <= last
		over := i+1 < len(t.edits) && t.edits[i+1].acknowledged < first
		if !begun || over {
			continue
		}
		if most == 0 || e.requests < least {
			least = e.requests
		}
		most = max(most, e.requests)
	}
	return least, most
}

// highest returns the highest value of the limit.
func (t *timeline) highest() int64 {
	t.mu.Lock()
	defer t.mu.Unlock()
	most := int64(0)
	for _, e := range t.edits {
		most = max(most, e.requests)
	}
	return most
}

func (t *timeline) count() int {
	t.mu.Lock()
	defer t.mu.Unlock()
	return len(t.edits) - 1
}
