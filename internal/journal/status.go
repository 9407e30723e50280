package journal

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"tidegate/internal/audit"
	"tidegate/internal/policyset"
	"tidegate/internal/store/keyspace"
)

// Status is what people see of the journal.
type Status struct {
	Unsafe int  // changes that are made and not in the journal yet
	Behind int  // buckets in which Valkey lost changes
	Away   bool // the store did not answer
}

// Bounds of looking.
const (
	// statusAge is how old a status may be that pages show.
	statusAge = 10 * time.Second
	// probeEvery is how long buckets are left alone after the store was asked about each.
	probeEvery = 10 * time.Minute
	workers    = 32 // requests of the store at a time
)

// Status returns what Check found last, and looks again at Valkey when that is old.
func (j *Journal) Status(ctx context.Context) Status {
	j.mu.Lock()
	status, age := j.status, time.Since(j.looked)
	j.mu.Unlock()
	if age < statusAge {
		return status
	}
	if err := j.look(ctx, func(keyspace.Bucket) bool { return false }); err != nil {
		j.log.Warn("journal: look", "cause", err)
	}
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.status
}

// unsafe has the next Status look again.
func (j *Journal) unsafe() {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.looked = time.Time{}
}

// Check ships what a crash left behind and finds out whether Valkey lost changes. It asks
// the store about every bucket of which that was not done lately. What it does not ask
// before the context ends, the next Check does.
func (j *Journal) Check(ctx context.Context) error {
	j.mu.Lock()
	behind, probed := j.status.Behind > 0, j.probed
	j.mu.Unlock()
	err := j.look(ctx, func(b keyspace.Bucket) bool { return behind || time.Since(probed[b]) >= probeEvery })
	return errors.Join(err, ctx.Err())
}

// look counts what is unshipped, after it tried to ship it, and the buckets that lost
// changes: those whose chain is shorter than it was and, with probe, those whose next
// position the store has.
func (j *Journal) look(ctx context.Context, probe func(keyspace.Bucket) bool) error {
	found, err := j.marks(ctx)
	if err != nil {
		return err
	}
	now := Status{}
	var mu sync.Mutex
	var failed error
	all := true
	each(workers, keyspace.All(), func(b keyspace.Bucket) {
		m, probed := found[b], probe(b)
		behind, away, err := j.lookAt(ctx, b, &m, probed)
		mu.Lock()
		defer mu.Unlock()
		found[b], all = m, all && probed
		now.Unsafe += int(m.unshipped)
		if behind {
			now.Behind++
		}
		now.Away = now.Away || away
		failed = errors.Join(failed, err)
	})
	j.mu.Lock()
	defer j.mu.Unlock()
	j.looked = time.Now()
	if !all || now.Away {
		now.Behind = max(now.Behind, j.status.Behind)
	}
	if now != (Status{}) {
		j.log.Error("journal", "unsafe", now.Unsafe, "behind", now.Behind, "away", now.Away)
	}
	j.status = now
	return failed
}

// each calls do for every bucket, for so many at a time.
func each(at int, buckets []keyspace.Bucket, do func(keyspace.Bucket)) {
	var wait sync.WaitGroup
	slots := make(chan struct{}, at)
	for _, b := range buckets {
		slots <- struct{}{}
		wait.Go(func() {
			do(b)
			<-slots
		})
	}
	wait.Wait()
}

// lookAt looks at one bucket. One that lost changes loses its copy of the plans too, so
// that checks are answered as without Valkey, and no lost key is called unknown.
func (j *Journal) lookAt(ctx context.Context, b keyspace.Bucket, m *mark, probe bool) (behind,
	away bool, err error) {
	if m.unshipped > 0 {
		shipped, err := j.ship(ctx, b)
		switch {
		case errors.Is(err, audit.ErrBehind):
			behind = true
		case err != nil:
			j.log.Error("journal: ship", "cause", err)
			away = true
		default:
			m.unshipped -= min(m.unshipped, int64(shipped))
		}
	}
	number, _, ok := j.key.Position(b, m.head)
	behind = behind || !ok || number < j.known(b).number
	if !behind && probe && !away {
		switch err := j.Ready(ctx, b, m.head); {
		case errors.Is(err, audit.ErrBehind):
			behind = true
		case err != nil:
			away = true
		default:
			j.mu.Lock()
			j.probed[b] = time.Now()
			j.mu.Unlock()
		}
	}
	if !behind {
		return false, away, nil
	}
	// A bucket that got an entry, or was restored, since its head was read has another.
	behind, err = j.runBehind(ctx, b, string(m.head), command{name: "DEL", key: policyset.CopyKey(b)})
	if err != nil {
		return false, away, fmt.Errorf("journal: remove copy: %w", err)
	}
	return behind, away, nil
}
