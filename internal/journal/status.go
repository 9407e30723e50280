package journal

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/valkey-io/valkey-go"

	"tidegate/internal/audit"
	"tidegate/internal/policyset"
	"tidegate/internal/store/keyspace"
	"tidegate/internal/telemetry"
)

// Status is the state of the journal that pages show.
type Status struct {
	Unsafe      int  // changes that are made and not in the journal yet
	Behind      int  // buckets in which Valkey lost changes
	Unavailable bool // whether the store did not answer, or has a damaged object
	// Damaged is the name of a damaged object that changes wait for; empty for none.
	Damaged string
}

const (
	statusAge  = 10 * time.Second // greatest age of a status that pages show
	probeEvery = 10 * time.Minute // how often Check reads the store for each bucket
	workers    = 32               // requests of the store at a time
)

// Status returns the last status. If it is older than statusAge, Status first compares
// Valkey with what the journal is known to have; it does not read the store.
func (j *Journal) Status(ctx context.Context) Status {
	j.mu.Lock()
	status, age := j.withDamaged(j.status), time.Since(j.statusAt)
	j.mu.Unlock()
	if age < statusAge {
		return status
	}
	if err := j.checkBuckets(ctx, func(keyspace.Bucket) bool { return false }); err != nil {
		j.log.Warn("journal: check", "cause", err)
	}
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.withDamaged(j.status)
}

// withDamaged adds the damaged object of the lowest bucket that waits for one. The caller
// holds j.mu.
func (j *Journal) withDamaged(s Status) Status {
	if len(j.damaged) > 0 {
		s.Unavailable, s.Damaged = true, j.damaged[slices.Min(slices.Collect(maps.Keys(j.damaged)))]
	}
	return s
}

// expireStatus makes the next Status check the buckets again.
func (j *Journal) expireStatus() {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.statusAt = time.Time{}
}

// Check ships items that a crash left unshipped, and finds out whether Valkey lost
// changes. For that it reads the store for each bucket, at most every probeEvery while
// none is behind. If ctx ends first, the next Check does the rest.
func (j *Journal) Check(ctx context.Context) error {
	j.mu.Lock()
	behind, probed := j.status.Behind > 0, j.probed
	damaged := maps.Clone(j.damaged)
	j.mu.Unlock()
	err := j.checkBuckets(ctx, func(b keyspace.Bucket) bool {
		return behind || damaged[b] != "" || time.Since(probed[b]) >= probeEvery
	})
	return errors.Join(err, ctx.Err())
}

// checkBuckets sets the status from all buckets. It ships unshipped items first and
// counts the rest. A bucket is behind if its chain is shorter than it was, or, with
// probe, if the store has the next position.
func (j *Journal) checkBuckets(ctx context.Context, probe func(keyspace.Bucket) bool) error {
	found, err := j.marks(ctx)
	if err != nil {
		return err
	}
	status := Status{}
	var mu sync.Mutex
	allProbed := true
	failed := keyspace.ForEach(keyspace.All(), workers, func(b keyspace.Bucket) error {
		m, probed := found[b], probe(b)
		behind, unavailable, err := j.checkBucket(ctx, b, &m, probed)
		mu.Lock()
		defer mu.Unlock()
		allProbed = allProbed && probed
		status.Unsafe += int(m.unshipped)
		if behind {
			status.Behind++
		}
		status.Unavailable = status.Unavailable || unavailable
		return err
	})
	j.mu.Lock()
	defer j.mu.Unlock()
	j.statusAt = time.Now()
	if !allProbed || status.Unavailable {
		status.Behind = max(status.Behind, j.status.Behind)
	}
	if status != (Status{}) {
		j.log.Error(telemetry.JournalAlarm, "unsafe", status.Unsafe, "behind", status.Behind,
			"away", status.Unavailable)
	}
	j.status = status
	return failed
}

// checkBucket ships the items of one bucket and reports whether it is behind. If it is,
// it deletes the bucket's copy of the plans: checks are then decided as without Valkey,
// and no lost key is called unknown.
func (j *Journal) checkBucket(ctx context.Context, b keyspace.Bucket, m *mark, probe bool) (behind,
	unavailable bool, err error) {
	if m.unshipped > 0 {
		shipped, err := j.ship(ctx, b)
		switch {
		case errors.Is(err, audit.ErrBehind):
			behind = true
		case err != nil:
			j.log.Error("journal: ship", "cause", err)
			unavailable = true
		default:
			m.unshipped -= min(m.unshipped, int64(shipped))
		}
	}
	number, _, ok := j.key.Position(b, m.head)
	behind = behind || !ok || number < j.known(b).number
	if !behind && probe && !unavailable {
		switch err := j.Ready(ctx, b, m.head); {
		case errors.Is(err, audit.ErrBehind):
			behind = true
		case err != nil:
			unavailable = true
		default:
			j.mu.Lock()
			j.probed[b] = time.Now()
			j.mu.Unlock()
		}
	}
	if !behind {
		return false, unavailable, nil
	}
	// If the bucket got an entry or was restored since its head was read, it has another
	// head: nothing is deleted, and the bucket does not count as behind.
	behind, err = j.runAtHead(ctx, b, string(m.head), command{name: "DEL", key: policyset.CopyKey(b)})
	if err != nil {
		return false, unavailable, fmt.Errorf("journal: remove copy: %w", err)
	}
	return behind, unavailable, nil
}

// mark is the position of a bucket in Valkey, as marks reads it.
type mark struct {
	head       []byte
	unshipped  int64  // items
	checkpoint uint64 // number of the newest entry in the last checkpoint; 0 if unknown
}

// checkpointMarkKey names the number of the newest entry in a bucket's last checkpoint.
func checkpointMarkKey(b keyspace.Bucket) string { return b.Name("ac") }

// marks reads the marks of all buckets in one flush.
func (j *Journal) marks(ctx context.Context) ([]mark, error) {
	const each = 3
	var commands valkey.Commands
	for _, b := range keyspace.All() {
		commands = append(commands,
			j.client.B().Get().Key(audit.HeadKey(b)).Build(),
			j.client.B().Llen().Key(audit.UnshippedKey(b)).Build(),
			j.client.B().Get().Key(checkpointMarkKey(b)).Build())
	}
	found := make([]mark, keyspace.Buckets)
	for i, result := range j.client.DoMulti(ctx, commands...) {
		m, err := &found[i/each], error(nil)
		switch i % each {
		case 0:
			m.head, err = result.AsBytes()
		case 1:
			m.unshipped, err = result.AsInt64()
		case 2:
			m.checkpoint, err = result.AsUint64()
		}
		if err != nil && !valkey.IsValkeyNil(err) {
			return nil, fmt.Errorf("journal: read heads: %w", err)
		}
	}
	return found, nil
}
