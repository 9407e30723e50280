package changes

import (
	"context"
	"crypto/rand"
	"errors"
	mathrand "math/rand/v2"
	"sync"
	"sync/atomic"
	"time"

	"tidegate/internal/objects"
	"tidegate/internal/store/keyspace"
)

const (
	// within is how long after its begin a request still writes: a PUT or a mark that a
	// frozen writer sends later than that would surprise whoever gave up on it.
	within = 25 * time.Second
	// maxBehind is how many changes a bucket that is behind takes. One further behind is
	// made again. So many changes make a checkpoint due.
	maxBehind = 1000
	// atOnce is how many objects are read at the same time.
	atOnce = 32
	// crowd is how many times the length of an attempt an edit waits at most, after another
	// writer was faster. Without it, all do the work again that one of them can use.
	crowd = 8
	// retryAfter is the pause before something is tried again.
	retryAfter = 50 * time.Millisecond
)

var (
	// ErrAhead means that Valkey belongs to another log, or to a later state of this one.
	ErrAhead = errors.New("changes: Valkey holds changes that this log lacks: " +
		"bring the log back, or restore -take")
	// ErrStore means that the store did not answer. Nothing was saved.
	ErrStore = errors.New("changes: the store of the log is unavailable")
	// ErrView means that a bucket of Valkey did not answer, or is being made again. Nothing
	// was saved.
	ErrView = errors.New("changes: Valkey is unavailable")
	// ErrUnknown means that nobody knows whether the change was saved. The audit shows it
	// within 15 minutes, after which S3 refuses the request, or never.
	ErrUnknown = errors.New("changes: it is not known whether the change is saved: " +
		"the audit shows it within 15 minutes, or never")
	// ErrLate means that the request took too long. Nothing was saved.
	ErrLate = errors.New("changes: the request took too long, nothing is saved")
	// ErrEmpty means that the log has no change yet.
	ErrEmpty = errors.New("changes: the log is empty")

	// errAgain means that the log grew: what was judged is judged again.
	errAgain = errors.New("changes: the log grew")
)

// Options is what the package does not know of records.
type Options struct {
	// Key is the key of the hashes, of at least 32 bytes.
	Key []byte
	// Lists returns the entries of lists that a record has, such as "plan:7\x00name\x00id".
	Lists func(record string, content []byte) []string
	// Name returns what people call a record, for the audit.
	Name func(record string, content []byte) string
	// Settle returns the content that a mark gives to a record, empty to delete it. content
	// is empty if there is no record.
	Settle func(m Mark, content []byte) []byte
	// Revert returns the content of a record when what led from its content from to its
	// content to is taken back or done again, while the record has the content current. Any
	// content may be empty: no record. It may read what its answer depends on. Its error
	// ends the undo or the restore.
	Revert func(ctx context.Context, r *Reader, record string, current, from, to []byte) ([]byte, error)
	// Now is the wall clock, without a monotonic reading.
	Now func() time.Time
}

// Log is a log of changes and its view in Valkey. It is safe for concurrent use, also by
// several processes.
type Log struct {
	store    objects.Store
	valkey   Valkey
	o        Options
	buckets  int                                  // keyspace.Buckets; fewer in tests
	behind   uint64                               // maxBehind; less in tests
	bytes    int64                                // checkpointBytes; less in tests
	pause    func(context.Context, time.Duration) // waits; a test advances its clock
	atOnce   int                                  // 1 in tests, for one order of events
	random   func() string                        // ids and claims
	atRandom func(time.Duration) time.Duration    // a part of it
	due      atomic.Uint64                        // number of the newest checkpoints, once known
	looked   atomic.Uint64                        // the newest change when they were last not due
	audited  atomic.Uint64                        // the minute added changes up to this number
}

// New returns the log in a store, whose view is in Valkey.
func New(store objects.Store, valkey Valkey, o Options) *Log {
	if o.Now == nil {
		o.Now = func() time.Time { return time.Now().Round(0) }
	}
	return &Log{store: store, valkey: valkey, o: o,
		buckets: keyspace.Buckets, behind: maxBehind, bytes: checkpointBytes,
		atOnce: atOnce, pause: pause, random: rand.Text, atRandom: atRandom}
}

func pause(ctx context.Context, d time.Duration) {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-ctx.Done():
	}
}

func atRandom(d time.Duration) time.Duration {
	return mathrand.N(max(d, 1)) //nolint:gosec // a pause, no secret
}

// parallel calls do for 0 to n-1, at most limit of them at a time.
func parallel(n, limit int, do func(i int) error) error {
	if limit == 1 || n == 1 {
		for i := range n {
			if err := do(i); err != nil {
				return err
			}
		}
		return nil
	}
	errs := make([]error, n)
	slots := make(chan struct{}, limit)
	var wait sync.WaitGroup
	for i := range n {
		slots <- struct{}{}
		wait.Go(func() {
			errs[i] = do(i)
			<-slots
		})
	}
	wait.Wait()
	return errors.Join(errs...)
}

func all(n int) []int {
	numbers := make([]int, n)
	for i := range numbers {
		numbers[i] = i
	}
	return numbers
}

// late reports whether a request that began then may write no more.
func (l *Log) late(began time.Time) bool {
	passed := l.o.Now().Sub(began)
	return passed > within || passed < 0 // the clock was set back: nobody knows
}
