package changes

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/valkey-io/valkey-go"
)

const (
	shards     = 3
	worldParts = 6                     // buckets
	step       = 25 * time.Millisecond // of virtual time; a step is one message
)

// world is a history: a log, its store, a Valkey of three shards, and what clients were
// promised.
type world struct {
	rnd     *rand.Rand
	log     *Log // for what is not a task
	store   *fakeStore
	machine *machine
	shards  []*shard
	byTag   map[string]int
	bucket  map[string]int // by tag
	keys    []string
	now     int // steps
	quiet   bool
	faults  []string
	mirror  valkey.Client
	ids     int

	tasks  []*task
	parked chan struct{}

	// The log as it landed.
	changes  map[uint64]Change
	landedAt map[uint64]int      // steps
	folds    []map[string]Record // folds[n] is the state after change n
	policy   []uint64            // number of the policy's last change
	newest   uint64              // without a gap before it
	void     []Void

	mode       string // what happens to the log in the middle
	hand       bool   // a request said that a hand is needed
	gone       uint64
	lostID     string
	lostObject []byte
	refilled   bool // another change got the number of the removed one

	acked             map[string]uint64
	refuse            map[string]promise // step of an acknowledged revocation of a key
	byMark            map[string]bool
	allow             map[string]promise
	started, answered map[string]int
	revokes           map[string]map[string]int // steps by key and id
	need              map[string]promise        // newest acknowledged change of a key
	needPolicy        uint64
	environments      []uint64
	stats             map[string]int
	forgotten         map[string]bool // keys with a mark that a shard lost before it was stored
}

// promise is what a request was told that began at a step: the number of a change, or when
// it was told. A shard that forgets afterwards may forget it.
type promise struct {
	number uint64
	step   int
}

// task is a request. It runs until its next message, when the world lets it.
type task struct {
	w      *world
	kind   string
	key    string
	began  int
	wake   int
	slow   bool
	done   bool
	resume chan bool
}

type taskKey struct{}

func newWorld(seed uint64, mode string) *world {
	w := &world{rnd: rand.New(rand.NewPCG(seed, 1)), machine: newMachine(), mode: mode,
		byTag: map[string]int{}, bucket: map[string]int{}, parked: make(chan struct{}),
		changes: map[uint64]Change{}, folds: []map[string]Record{{}}, policy: []uint64{0},
		acked: map[string]uint64{}, refuse: map[string]promise{}, byMark: map[string]bool{},
		allow: map[string]promise{}, started: map[string]int{}, answered: map[string]int{},
		revokes: map[string]map[string]int{}, need: map[string]promise{}, environments: []uint64{0, 0},
		stats: map[string]int{}, forgotten: map[string]bool{}, landedAt: map[uint64]int{},
	}
	w.store = &fakeStore{w: w, objects: map[string][]byte{}, modified: map[string]time.Time{}}
	for range shards {
		s := &shard{data: newData()}
		s.remember()
		w.shards = append(w.shards, s)
	}
	w.log = w.newLog()
	for b := range worldParts {
		tag := keys(b)[0]
		tag = tag[:strings.IndexByte(tag, '}')]
		w.byTag[tag], w.bucket[tag] = b*shards/worldParts, b
	}
	// The audit has a slot of its own, on the first shard.
	w.byTag[auditSet[:strings.IndexByte(auditSet, '}')]] += 0
	for i := range 8 {
		w.keys = append(w.keys, fmt.Sprintf("key-%d", i))
	}
	return w
}

var testKey = bytes.Repeat([]byte("k"), 32)

// newLog returns the log of one process.
func (w *world) newLog() *Log {
	l := New(w.store, w, Options{
		Key:    testKey,
		Lists:  testLists,
		Name:   func(record string, _ []byte) string { return "the " + record },
		Settle: func(_ Mark, content []byte) []byte { return with(content, "status", "revoked") },
		Revert: revert,
		Now:    w.clock,
	})
	l.buckets, l.atOnce, l.behind = worldParts, 1, 6
	l.random = func() string { w.ids++; return "r" + strconv.Itoa(w.ids) }
	l.atRandom = func(d time.Duration) time.Duration { return time.Duration(w.rnd.Int64N(int64(max(d, 1)))) }
	l.pause = func(ctx context.Context, d time.Duration) {
		if t, ok := ctx.Value(taskKey{}).(*task); ok {
			t.wake = w.now + int(d/step)
			w.yield(ctx)
			return
		}
		w.now += int(d/step) + 1
	}
	return l
}

// A record is "plan status tag".
func with(content []byte, what, value string) []byte {
	parts := strings.Fields(string(content))
	if len(parts) == 0 {
		return nil
	}
	switch what {
	case "status":
		parts[1] = value
	case "tag":
		parts[2] = value
	}
	return []byte(strings.Join(parts, " "))
}

func field(content []byte, i int) string {
	if parts := strings.Fields(string(content)); len(parts) > i {
		return parts[i]
	}
	return ""
}

func testLists(record string, content []byte) []string {
	return []string{"keys\x00" + record, "plan:" + field(content, 0) + "\x00" + record}
}

var errRefused = errors.New("refused")

// revert takes back what a change did to a key that nobody changed since. What is revoked
// stays revoked, and no key gets a plan that is gone.
func revert(ctx context.Context, r *Reader, record string, current, from, to []byte) ([]byte, error) {
	if !bytes.Equal(current, from) || record == Policy {
		return nil, errRefused
	}
	if field(current, 1) == "revoked" {
		to = with(to, "status", "revoked")
	}
	policy, err := r.Get(ctx, Policy)
	if err != nil {
		return nil, err
	}
	if len(to) > 0 && !slices.Contains(strings.Fields(string(policy[0].Content)), field(to, 0)) {
		return nil, errRefused
	}
	return to, nil
}

func (w *world) clock() time.Time {
	return time.Date(2100, 1, 1, 0, 0, 0, 0, time.UTC).Add(time.Duration(w.now) * step)
}

func (w *world) milliseconds() int64 { return int64(w.now) * step.Milliseconds() }

func (w *world) fault(format string, args ...any) {
	w.faults = append(w.faults, fmt.Sprintf("step %d: ", w.now)+fmt.Sprintf(format, args...))
}

// add starts a task, which waits for its first turn.
func (w *world) add(kind, key string, do func(ctx context.Context, t *task)) *task {
	t := &task{w: w, kind: kind, key: key, began: w.now, slow: w.rnd.Float64() < .15, resume: make(chan bool)}
	w.tasks = append(w.tasks, t)
	ctx := context.WithValue(context.Background(), taskKey{}, t)
	go func() {
		defer func() {
			t.done = true
			w.parked <- struct{}{}
		}()
		if <-t.resume {
			t.began = w.now
			do(ctx, t)
		}
	}()
	return t
}

// yield waits for the next turn of the task. The task may be killed instead.
func (w *world) yield(ctx context.Context) {
	t, ok := ctx.Value(taskKey{}).(*task)
	if !ok {
		return
	}
	w.parked <- struct{}{}
	if !<-t.resume {
		runtime.Goexit()
	}
}

// turn lets a task run to its next message, or kills it.
func (w *world) turn(t *task, live bool) {
	t.resume <- live
	<-w.parked
	if t.done {
		w.tasks = slices.DeleteFunc(w.tasks, func(o *task) bool { return o == t })
	}
}

// frozen reports whether a request of a client writes too late.
func (w *world) frozen(ctx context.Context) bool {
	t, ok := ctx.Value(taskKey{}).(*task)
	return ok && t.kind != "minute" && time.Duration(w.now-t.began)*step > within
}
