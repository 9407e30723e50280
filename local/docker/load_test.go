package docker

import (
	"context"
	"net/http"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

// pause between two calls of a worker.
const pause = 25 * time.Millisecond

// target is a call that a worker makes again and again.
type target struct {
	name, key string
	url       *atomic.Pointer[string]
	may       []int // statuses that its client may see
}

// load makes calls until it is stopped.
type load struct {
	targets []target
	stop    context.CancelFunc
	workers sync.WaitGroup

	lock  sync.Mutex
	seen  map[string]tally // by the target's name
	log   []answered       // every answer, as they came
	worst []string         // what no client should see
}

// tally counts the answers to one target.
type tally struct {
	calls, allowed, refused     int // refused: no connection
	degradedAllow, degradedDeny int
	soundInARow                 int
}

// answered is when a call to a target was answered, and whether without Valkey.
type answered struct {
	at       time.Time
	to       string
	degraded bool
}

// begin starts two workers for each target, so that every environment is busy at times.
func begin(t *testing.T, targets ...target) *load {
	t.Helper()
	ctx, stop := context.WithCancel(t.Context())
	l := &load{targets: targets, stop: stop, seen: map[string]tally{}}
	for _, each := range targets {
		for range 2 {
			l.workers.Go(func() { l.work(ctx, each) })
		}
	}
	t.Cleanup(func() { l.end() })
	return l
}

func (l *load) work(ctx context.Context, to target) {
	pace := time.NewTicker(pause)
	defer pace.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-pace.C:
			a, err := try(context.WithoutCancel(ctx), *to.url.Load(), to.key)
			l.count(to, a, err)
		}
	}
}

func (l *load) count(to target, a answer, err error) {
	l.lock.Lock()
	defer l.lock.Unlock()
	one := l.seen[to.name]
	one.calls++
	if err == nil {
		l.log = append(l.log, answered{time.Now(), to.name, a.degraded()})
	}
	switch {
	case err != nil:
		one.refused++
		l.worst = append(l.worst, to.name+": "+err.Error())
	case !slices.Contains(to.may, a.status):
		l.worst = append(l.worst, to.name+": "+a.String())
	case a.status < http.StatusBadRequest:
		one.allowed++
	}
	switch {
	case err != nil:
		one.soundInARow = 0
	case !a.degraded():
		one.soundInARow++
	case a.status == http.StatusOK:
		one.degradedAllow, one.soundInARow = one.degradedAllow+1, 0
	default:
		one.degradedDeny, one.soundInARow = one.degradedDeny+1, 0
	}
	l.seen[to.name] = one
}

// now is what was seen of a target up to now.
func (l *load) now(name string) tally {
	l.lock.Lock()
	defer l.lock.Unlock()
	return l.seen[name]
}

// sound: of the last calls to each target, so many that each environment had its share,
// none was degraded.
func (l *load) sound() bool {
	l.lock.Lock()
	defer l.lock.Unlock()
	return !slices.ContainsFunc(l.targets, func(to target) bool {
		return l.seen[to.name].soundInARow < soundCalls
	})
}

// soundCalls are enough for each of three environments to be asked several times, whoever
// else calls.
const soundCalls = 20

// end returns what no client should have seen, once every call is answered.
func (l *load) end() []string {
	l.stop()
	l.workers.Wait()
	return l.worst
}
