package main

import (
	"context"
	"net/http"
	"sync"
)

const (
	burstWorkers = 10
	burstTries   = 3
	// mostToDenial bounds the calls of useUp.
	mostToDenial = burstTries * (maxRequests + 1)
)

// Calls of the floods: above the bursts of 400 and 20 that infra sets.
const (
	restFloodCalls = 1000
	dashFloodCalls = 100
	floodWorkers   = 100
)

// useUp calls until one call is denied. The evidence is the denial, or the last answer if
// there was none.
func (s *session) useUp(ctx context.Context, base string) evidence {
	if reason := s.unusable(base); reason != "" {
		return evidence{reason: reason}
	}
	var last answer
	for range burstTries {
		s.makeRoom(ctx, s.quota.requests)
		began := s.now()
		last = s.burst(ctx, s.quota.requests+1, func() answer { return s.withKey(ctx, base+"/verify") })
		if last.err != nil || last.status != http.StatusOK || s.now().Sub(began) < s.quota.window {
			break // the calls took longer than the window
		}
	}
	return evidence{answers: []answer{last}}
}

// burst makes up to n calls, burstWorkers at a time, and stops at the first status that
// is not 200. It returns that answer, or the last one.
func (s *session) burst(ctx context.Context, n int, do func() answer) answer {
	var (
		lock  sync.Mutex
		group sync.WaitGroup
		last  answer
		left  = n
		ended bool
	)
	next := func() bool {
		lock.Lock()
		defer lock.Unlock()
		left--
		return left >= 0 && !ended && ctx.Err() == nil
	}
	for range min(burstWorkers, n) {
		group.Go(func() {
			for next() {
				a := do()
				lock.Lock()
				if !ended {
					last, ended = a, a.err != nil || a.status != http.StatusOK
				}
				lock.Unlock()
			}
		})
	}
	group.Wait()
	return last
}

// flood makes n calls, floodWorkers at a time. The evidence is one answer of each status.
func (s *session) flood(ctx context.Context, n int, url string) evidence {
	work := make(chan struct{}, n)
	for range n {
		work <- struct{}{}
	}
	close(work)
	answers := make(chan answer, n)
	for range floodWorkers {
		go func() {
			for range work {
				answers <- s.get(ctx, url)
			}
		}()
	}
	e, known := evidence{}, map[int]bool{}
	for range n {
		if a := <-answers; !known[a.status] {
			known[a.status] = true
			e.answers = append(e.answers, a)
		}
	}
	return e
}
