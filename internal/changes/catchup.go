package changes

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"time"

	"tidegate/internal/lua"
	"tidegate/internal/store/keyspace"
)

const (
	// claimFor is how long a loader has to make a bucket again.
	claimFor = 10 * time.Second
	// partSize is the number of records or entries of lists in a part.
	partSize = 1000
	// flush is how many parts are sent at once, so that they end within a client's timeout.
	flush = 32
	// group is how many buckets are made again together.
	group = 16
)

// errFar means that buckets lack more than memory holds.
var errFar = errors.New("changes: buckets are far behind")

// bring brings buckets to the newest change. What fails is the error of its bucket.
func (r *reading) bring(ctx context.Context, buckets []int) {
	var documents, others []int
	for _, b := range buckets {
		if b == r.l.documents()[0] || b == r.l.documents()[1] {
			documents = append(documents, b)
		} else {
			others = append(others, b)
		}
	}
	r.bringSome(ctx, documents)
	r.bringSome(ctx, others)
}

func (r *reading) bringSome(ctx context.Context, buckets []int) {
	var behind, lost []int
	lowest := r.newest
	for _, b := range buckets {
		switch v := &r.view[b]; {
		case v.err != nil || v.at == r.newest:
		case v.at.Number > r.newest.Number: // another writer was faster
			v.err = errAgain
		case v.at.Number == r.newest.Number:
			v.err = ErrAhead
		case v.at.Number == 0 || r.newest.Number-v.at.Number > r.l.behind:
			lost = append(lost, b)
		default:
			behind = append(behind, b)
			if v.at.Number < lowest.Number {
				lowest = v.at
			}
		}
	}
	if len(behind) > 0 {
		lost = append(lost, r.take(ctx, behind, lowest.Number)...)
	}
	for len(lost) > 0 {
		some := lost[:min(group, len(lost))]
		r.remake(ctx, some, false)
		lost = lost[len(some):]
	}
}

// take brings buckets that are little behind, the farthest at the change lowest. It returns
// those that must be made again, since they lack more than memory holds, or a change says
// that one before it is nothing.
func (r *reading) take(ctx context.Context, buckets []int, lowest uint64) (again []int) {
	var missing []Change
	var size int64
	err := r.each(ctx, lowest+1, func(c Change) error {
		missing = append(missing, c)
		if size += int64(c.size); size > r.l.bytes {
			return errFar
		}
		return nil
	})
	if errors.Is(err, errFar) {
		return buckets
	}
	var ready []int
	var runs []lua.Run
	for _, b := range buckets {
		v := &r.view[b]
		if v.err = err; err == nil {
			v.err = r.has(ctx, v.at)
		}
		if v.err != nil {
			continue
		}
		if slices.ContainsFunc(r.void, func(void Void) bool { return void.By > v.at.Number }) {
			again = append(again, b)
			continue
		}
		i := slices.IndexFunc(missing, func(c Change) bool { return c.Number > v.at.Number })
		if v.err = r.policyIsThere(ctx, b, policyOf(missing[i:])); v.err == nil {
			ready, runs = append(ready, b), append(runs, r.l.takeRun(b, v.at, missing[i:]))
		}
	}
	for i, reply := range r.l.valkey.Run(ctx, takeScript, runs) {
		v := &r.view[ready[i]]
		v.at, v.err = positionOf(reply)
	}
	return again
}

// policyOf returns the number of the last change of the policy, 0 for none.
func policyOf(changes []Change) (number uint64) {
	for _, c := range changes {
		if c.policy() {
			number = c.Number
		}
	}
	return number
}

// policyIsThere reports a policy that a bucket may not tell of yet, since neither of the
// two buckets with the policy has it: checks would ask for what nobody has.
func (r *reading) policyIsThere(ctx context.Context, b int, number uint64) error {
	documents := r.l.documents()
	if number == 0 || slices.Contains(documents, b) || number <= r.there {
		return nil
	}
	for _, d := range r.l.positions(ctx, documents) {
		r.there = max(r.there, d.at.Number)
	}
	if number > r.there {
		return fmt.Errorf("%w: neither bucket of the policy has change %d", ErrView, number)
	}
	return nil
}

// remake makes buckets again from their checkpoints and the changes after these. It claims
// them first and only then looks for the newest change, so a loader that slept has either
// lost its claim or nothing happened since. force replaces buckets whatever their position.
func (r *reading) remake(ctx context.Context, buckets []int, force bool) {
	claim := r.l.random()
	var runs []lua.Run
	var ours []int
	for _, b := range buckets {
		// A bucket that is far behind and not of this log is left alone.
		if r.view[b].err = r.has(ctx, r.view[b].at); r.view[b].err == nil || force {
			ours, runs = append(ours, b), append(runs, loadRun(b, claim, "claim", milliseconds(claimFor)))
		}
	}
	var mine []int
	for i, reply := range r.l.valkey.Run(ctx, loadScript, runs) {
		v := &r.view[ours[i]]
		switch {
		case reply.Err != nil:
			v.err = fmt.Errorf("%w: %w", ErrView, reply.Err)
		case reply.Values[0] != claim:
			v.err = fmt.Errorf("%w: another process makes it again", ErrView)
		default:
			mine = append(mine, ours[i])
		}
	}
	if len(mine) == 0 {
		return
	}
	fresh, err := r.l.begin(ctx, force)
	if err == nil {
		fresh.known, fresh.held, fresh.there = r.known, r.held, r.there
		err = fresh.load(ctx, mine, claim, force)
	}
	if err != nil { // another process may try
		runs = runs[:0]
		for _, b := range mine {
			runs = append(runs, loadRun(b, claim, "release"))
		}
		r.l.valkey.Run(ctx, loadScript, runs)
	}
	for _, b := range mine {
		if r.view[b].err = err; err == nil {
			r.view[b] = fresh.view[b]
		}
	}
}

// load makes buckets again at the newest change: in parts under names of the claim, and
// then each in one step, if all its parts are there.
func (r *reading) load(ctx context.Context, buckets []int, claim string, force bool) error {
	states, err := r.states(ctx, buckets, force)
	if err != nil {
		return err
	}
	var parts, places []lua.Run
	for i, b := range buckets {
		if err := r.policyIsThere(ctx, b, states[i].Policy); err != nil {
			return err
		}
		some, place := r.l.loadRuns(b, claim, states[i], force)
		parts, places = append(parts, some...), append(places, place)
	}
	for some := range slices.Chunk(parts, flush) {
		for _, reply := range r.l.valkey.Run(ctx, loadScript, some) {
			if reply.Err != nil { // what is missing then keeps its bucket from being placed
				return fmt.Errorf("%w: %w", ErrView, reply.Err)
			}
		}
	}
	for i, reply := range r.l.valkey.Run(ctx, loadScript, places) {
		v := &r.view[buckets[i]]
		v.at, v.err = positionOf(reply)
	}
	return nil
}

// loadRuns returns the runs that load a state in parts, and the one that puts it in place.
func (l *Log) loadRuns(b int, claim string, s State, force bool) (parts []lua.Run, place lua.Run) {
	values := []string{"at", s.At.String()}
	if s.Policy > 0 {
		values = append(values, "policy", strconv.FormatUint(s.Policy, 10))
	}
	var entries []string
	for _, record := range slices.Sorted(maps.Keys(s.Records)) {
		kept := s.Records[record]
		values = append(values, keyspace.RecordField(record), value(kept.Number, kept.Content))
		entries = append(entries, l.lists(record, kept.Content)...)
	}
	slices.Sort(entries)
	entries = slices.Compact(entries)
	for part := range slices.Chunk(values, 2*partSize) {
		args := []string{milliseconds(claimFor), strconv.Itoa(len(part) / 2)}
		parts = append(parts, loadRun(b, claim, "part", append(args, part...)...))
	}
	for part := range slices.Chunk(entries, partSize) {
		args := []string{milliseconds(claimFor), "0"}
		parts = append(parts, loadRun(b, claim, "part", append(args, part...)...))
	}
	forced := "0"
	if force {
		forced = "1"
	}
	return parts, loadRun(b, claim, "place", strconv.FormatUint(s.At.Number, 10),
		strconv.Itoa(len(values)/2), strconv.Itoa(len(entries)), forced)
}

func milliseconds(d time.Duration) string { return strconv.FormatInt(d.Milliseconds(), 10) }

func loadRun(b int, claim, step string, args ...string) lua.Run {
	fresh := keyspace.Bucket(b).Name("cn:" + claim)
	return lua.Run{Keys: append(keys(b)[:2:2], keyspace.Bucket(b).Name("cc"), fresh+":r", fresh+":l"),
		Args: append([]string{step, claim}, args...)}
}
