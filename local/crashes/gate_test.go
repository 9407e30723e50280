//go:build linux

package crashes

import (
	"sync"
	"time"

	"tidegate/internal/testing/s3test"
	"tidegate/internal/testing/valkeytest"
)

// killPoint is a request of an environment to Valkey or S3 at which the environment ends:
// before the request arrives, or once its answer arrives.
type killPoint struct {
	request int // from 1; 0 for never
	after   bool
}

// gates are the proxies between one environment and the servers that it uses.
type gates struct {
	s3    *s3test.Server
	store *valkeytest.Proxy // to s3

	mu       sync.Mutex
	point    killPoint
	faults   storeFaults
	requests int // requests since the last arm
}

// storeFaults are the faults of the journal's store. The zero value has none.
type storeFaults struct {
	refused     int           // answers that are 503 SlowDown
	lost        int           // requests that take effect but get no answer
	unavailable bool          // the store does not answer
	delay       time.Duration // of each answer
}

// arm makes the environment end at a killPoint; the zero killPoint means never.
func (g *gates) arm(m killPoint) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.point, g.requests = m, 0
}

// setFaults sets the faults of the journal's store; the zero value ends them. Other
// environments may get the refusals.
func (g *gates) setFaults(f storeFaults) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.faults = f
	g.s3.Undo()
	g.s3.SlowDown(f.refused)
	g.store.DropReplies("", f.lost)
	g.store.SetFault(valkeytest.Fault{Refuse: f.unavailable, Delay: f.delay})
}

// currentFaults returns the store's faults.
func (g *gates) currentFaults() storeFaults {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.faults
}

// pass counts a request, and reports whether the environment ends before or after it.
func (g *gates) pass() (before, after bool) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.requests++
	hit := g.point.request == g.requests
	return hit && !g.point.after, hit && g.point.after
}
