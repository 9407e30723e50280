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
	// MaxTalkers is the longest list of Busiest and MostDenied, and the length of a
	// bucket's ranking, so that lists within one hour are exact.
	MaxTalkers = 64
	// maxRankedHours is the longest span whose hours are read one by one; longer spans
	// read days.
	maxRankedHours = 6
	// readFactor is how many times n subjects have their counts read for a list of n,
	// since rankings lag.
	readFactor = 4
)

// Talker is a subject with its counts over a span of hours.
type Talker struct {
	ID string
	Counts
}

// Busiest returns the n (1 to 64) subjects with the most admitted calls in the hours that
// from and to touch. The counts are exact. Within one hour the choice is exact too. Over
// more hours it considers subjects among the highest 64 of their bucket in one of the
// hours (up to 6) or days.
func (r *Reader) Busiest(ctx context.Context, from, to time.Time, n int) ([]Talker, error) {
	return r.talkers(ctx, from, to, n, admittedInHour, admittedInDay, func(c Counts) int64 {
		return c.Allowed
	})
}

// MostDenied returns the n subjects with the most denied calls, as Busiest does.
func (r *Reader) MostDenied(ctx context.Context, from, to time.Time, n int) ([]Talker, error) {
	return r.talkers(ctx, from, to, n, deniedInHour, deniedInDay, func(c Counts) int64 { return c.Denied })
}

func (r *Reader) talkers(ctx context.Context, from, to time.Time, n int, inHour, inDay ranking,
	by func(Counts) int64) ([]Talker, error) {
	s, err := newSpan(from, to, time.Hour)
	if err != nil {
		return nil, err
	}
	n = min(max(n, 1), MaxTalkers)
	scores, err := r.scores(ctx, s.rankings(inHour, inDay), n)
	if err != nil {
		return nil, fmt.Errorf("usage: rankings: %w", err)
	}
	ids := highest(scores, readFactor*n)
	series, err := r.Sparklines(ctx, ids, from, to, time.Hour)
	if err != nil {
		return nil, err
	}
	talkers := make([]Talker, 0, len(ids))
	for i, id := range ids {
		if t := (Talker{id, Sum(series[i])}); by(t.Counts) > 0 {
			talkers = append(talkers, t)
		}
	}
	slices.SortFunc(talkers, func(a, b Talker) int {
		return cmp.Or(cmp.Compare(by(b.Counts), by(a.Counts)), cmp.Compare(a.ID, b.ID))
	})
	return talkers[:min(n, len(talkers))], nil
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
