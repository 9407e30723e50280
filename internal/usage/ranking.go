package usage

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/valkey-io/valkey-go"

	"tidegate/internal/store/keyspace"
)

// ranking is a list of the subjects of a bucket with the most calls of a kind.
type ranking byte

const (
	admittedInHour ranking = 'a'
	deniedInHour   ranking = 'd'
	admittedInDay  ranking = 'A'
	deniedInDay    ranking = 'D'
)

const (
	// MaxTalkers is the longest list of Rank, and the length of a bucket's ranking.
	MaxTalkers = 64
	// maxRankedHours is the longest span whose hours are read one by one; longer spans
	// read days.
	maxRankedHours = 6
	// readFactor is how many times n subjects have their counts read for a list of n,
	// since rankings lag.
	readFactor = 4
)

// Talker is a subject with its counts over a span.
type Talker struct {
	ID string
	Counts
}

// Order is an order of subjects by their counts.
type Order int

// The orders.
const (
	Busiest    Order = iota // by all calls
	MostDenied              // by denied calls
	WouldDeny               // by calls that limits in shadow mode would have denied
)

func (o Order) of(c Counts) int64 {
	switch o {
	case Busiest:
		return c.Calls()
	case MostDenied:
		return c.Denied
	case WouldDeny:
	}
	return c.ShadowDenied
}

// Rank returns the first n (1 to 64) subjects of each order, with their exact counts in
// the steps that the time between from and to touches, as Overview counts them. It
// considers subjects among the highest 64 of their bucket by admitted or denied calls in
// one of the hours (up to 6) or days.
func (r *Reader) Rank(ctx context.Context, from, to time.Time, step time.Duration, n int,
	orders ...Order) (map[Order][]Talker, error) {
	s, err := newSpan(from, to, step)
	if err != nil {
		return nil, err
	}
	hours, err := newSpan(from, to, time.Hour)
	if err != nil {
		return nil, err
	}
	n = min(max(n, 1), MaxTalkers)
	ids, err := r.candidates(ctx, hours, n, orders)
	if err != nil {
		return nil, fmt.Errorf("usage: rankings: %w", err)
	}
	counts, err := r.sums(ctx, s, ids)
	if err != nil {
		return nil, fmt.Errorf("usage: rankings: %w", err)
	}
	ranked := map[Order][]Talker{}
	for _, o := range orders {
		var talkers []Talker
		for i, id := range ids {
			if o.of(counts[i]) > 0 {
				talkers = append(talkers, Talker{id, counts[i]})
			}
		}
		slices.SortFunc(talkers, func(a, b Talker) int {
			return cmp.Or(cmp.Compare(o.of(b.Counts), o.of(a.Counts)), cmp.Compare(a.ID, b.ID))
		})
		ranked[o] = talkers[:min(n, len(talkers))]
	}
	return ranked, nil
}

// Leading returns up to n subjects with about the most calls, the busiest first: of each
// bucket at least the first 12 by admitted and by denied calls in one of the hours (up to
// 6) or days are considered.
func (r *Reader) Leading(ctx context.Context, from, to time.Time, n int) ([]string, error) {
	hours, err := newSpan(from, to, time.Hour)
	if err != nil {
		return nil, err
	}
	calls := map[string]float64{}
	for _, periods := range [][]rankedPeriod{
		hours.rankings(admittedInHour, admittedInDay), hours.rankings(deniedInHour, deniedInDay),
	} {
		scores, err := r.scores(ctx, periods, MaxTalkers)
		if err != nil {
			return nil, fmt.Errorf("usage: rankings: %w", err)
		}
		for id, score := range scores {
			calls[id] += score
		}
	}
	return highest(calls, n), nil
}

// Totals returns the counts of each subject, in order, in the steps that the time between
// from and to touches. Times and steps have the bounds of Overview.
func (r *Reader) Totals(ctx context.Context, ids []string, from, to time.Time,
	step time.Duration) ([]Counts, error) {
	s, err := newSpan(from, to, step)
	if err != nil || len(ids) == 0 {
		return nil, err
	}
	counts, err := r.sums(ctx, s, ids)
	if err != nil {
		return nil, fmt.Errorf("usage: totals: %w", err)
	}
	return counts, nil
}

// candidates returns the subjects that may be among the first n of an order. Calls that
// would have been denied are admitted.
func (r *Reader) candidates(ctx context.Context, hours span, n int, orders []Order) ([]string, error) {
	admitted, denied := map[string]float64{}, map[string]float64{}
	var err error
	if slices.Contains(orders, Busiest) || slices.Contains(orders, WouldDeny) {
		if admitted, err = r.scores(ctx, hours.rankings(admittedInHour, admittedInDay), n); err != nil {
			return nil, err
		}
	}
	if slices.Contains(orders, Busiest) || slices.Contains(orders, MostDenied) {
		if denied, err = r.scores(ctx, hours.rankings(deniedInHour, deniedInDay), n); err != nil {
			return nil, err
		}
	}
	calls := maps.Clone(admitted)
	for id, score := range denied {
		calls[id] += score
	}
	var ids []string
	for _, o := range orders {
		scores := map[Order]map[string]float64{Busiest: calls, MostDenied: denied, WouldDeny: admitted}[o]
		ids = append(ids, highest(scores, readFactor*n)...)
	}
	slices.Sort(ids)
	return slices.Compact(ids), nil
}

// sums returns the counts of each subject over the whole span, in one flush. It reads
// whole hours of a span of minutes by the hour.
func (r *Reader) sums(ctx context.Context, s span, ids []string) ([]Counts, error) {
	type part struct {
		span
		source
	}
	var parts []part
	for _, whole := range s.byHour() {
		for i, id := range ids {
			for _, from := range whole.appendSources(nil, keyspace.BucketOf(id), id, i) {
				parts = append(parts, part{whole, from})
			}
		}
	}
	commands := make(valkey.Commands, len(parts))
	for i, p := range parts {
		commands[i] = r.client.B().Hgetall().Key(p.key).Build()
	}
	tallies := make([]tally, len(ids))
	for i, result := range r.client.DoMulti(ctx, commands...) {
		p := parts[i]
		err := eachCount(result, kindsPerSlot, func(slot int64, k kind, n int64) {
			if p.stepOf(p.origin+slot) >= 0 {
				tallies[p.series][k] += n
			}
		})
		if err != nil {
			return nil, err
		}
	}
	counts := make([]Counts, len(ids))
	for i := range tallies {
		counts[i] = tallies[i].counts()
	}
	return counts, nil
}

// rankedPeriod is the rankings of an hour or a day.
type rankedPeriod struct {
	ranking ranking
	number  int64 // since 1970
}

// rankings returns the rankings to read for a span of hours. A day's ranking lacks the
// latest hour of its subjects, so the span's last two hours are read as well.
func (s span) rankings(inHour, inDay ranking) []rankedPeriod {
	var all []rankedPeriod
	firstHour := s.first
	if s.end-s.first > maxRankedHours {
		for day := s.first / hoursPerDay; day <= (s.end-1)/hoursPerDay; day++ {
			all = append(all, rankedPeriod{inDay, day})
		}
		firstHour = s.end - 2
	}
	for hour := firstHour; hour < s.end; hour++ {
		all = append(all, rankedPeriod{inHour, hour})
	}
	return all
}

// scores adds up the highest scores of every bucket and period. It first reads a few of
// each ranking, then n of those rankings whose next members may be among the n highest.
func (r *Reader) scores(ctx context.Context, periods []rankedPeriod, n int) (map[string]float64, error) {
	names := make([]string, 0, keyspace.Buckets*len(periods))
	for _, b := range keyspace.All() {
		for _, p := range periods {
			names = append(names, rankingName(b, p.ranking, p.number))
		}
	}
	few := min(n, n/8+4)
	scores, lowest := map[string]float64{}, make([]float64, len(names))
	err := r.eachRanked(ctx, names, 0, few, func(list int, member string, score float64, last bool) {
		if scores[member] += score; last {
			lowest[list] = score
		}
	})
	if err != nil || few == n {
		return scores, err
	}
	var more []string
	least := nthHighest(scores, n)
	for list, score := range lowest {
		if score*float64(len(periods)) >= least && score > 0 {
			more = append(more, names[list])
		}
	}
	return scores, r.eachRanked(ctx, more, few, n, func(_ int, member string, score float64, _ bool) {
		scores[member] += score
	})
}

// eachRanked calls do for the members of rankings at positions from (inclusive) to end
// (exclusive). last marks position end-1, after which the ranking may have more.
func (r *Reader) eachRanked(ctx context.Context, names []string, from, end int,
	do func(list int, member string, score float64, last bool)) error {
	if len(names) == 0 {
		return nil
	}
	commands := make(valkey.Commands, len(names))
	for i, name := range names {
		commands[i] = r.client.B().Zrevrange().Key(name).Start(int64(from)).Stop(
			int64(end) - 1).Withscores().Build()
	}
	for list, result := range r.client.DoMulti(ctx, commands...) {
		members, err := result.AsZScores()
		if err != nil {
			return err
		}
		for i, m := range members {
			do(list, m.Member, m.Score, i == end-from-1)
		}
	}
	return nil
}

// nthHighest returns the n-th highest score, or 0 if there are fewer.
func nthHighest(scores map[string]float64, n int) float64 {
	if len(scores) < n {
		return 0
	}
	return slices.Sorted(maps.Values(scores))[len(scores)-n]
}

// highest returns the n ids with the highest scores.
func highest(scores map[string]float64, n int) []string {
	ids := slices.SortedFunc(maps.Keys(scores), func(a, b string) int {
		return cmp.Or(cmp.Compare(scores[b], scores[a]), cmp.Compare(a, b))
	})
	return ids[:min(n, len(ids))]
}

// floors are the scores above which a subject enters the rankings: admitted and denied in
// the hour, admitted and denied in the day. A floor is 0 while the ranking has room, and
// then only rises, so that an old floor lets in too many subjects and never too few.
type floors [4]int64

// bucketFloors remembers the floors of a bucket, so that the script need not rank
// subjects far below them.
type bucketFloors struct {
	hour   int64
	floors floors
}

// in returns the floors in an hour.
func (f *bucketFloors) in(hour int64) floors {
	switch {
	case hour == f.hour:
		return f.floors
	case hour/hoursPerDay == f.hour/hoursPerDay:
		return floors{2: f.floors[2], 3: f.floors[3]}
	}
	return floors{}
}

// raise takes over the floors of an hour that are not negative.
func (f *bucketFloors) raise(hour int64, rising floors) {
	if hour < f.hour {
		return
	}
	*f = bucketFloors{hour, f.in(hour)}
	for i, floor := range rising {
		if floor >= 0 {
			f.floors[i] = max(f.floors[i], floor)
		}
	}
}
