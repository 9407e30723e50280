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

// Talker is a subject with its counts over the hours asked for.
type Talker struct {
	ID string
	Counts
}

const (
	// MaxTalkers is the longest list of Busiest and MostDenied. A bucket's ranking is no
	// longer, so that within an hour the list is exact.
	MaxTalkers = 64
	// rankedByHour is the longest span whose hours are looked at one by one; of longer
	// ones the days are.
	rankedByHour = 6
	// candidates is how many more subjects than asked for have their counts read, since
	// rankings lag.
	candidates = 4
)

// Busiest returns the n (1 to 64) subjects with the most admitted calls in the hours from
// the one that from is in to the one before to, or that to is in. The counts are exact.
// Within one hour so is the choice; over more hours it is made of those that were among
// the highest 64 of their bucket in one of the hours (up to 6 of them) or days.
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
	ids := highest(scores, candidates*n)
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

// period is a ranking of an hour or a day.
type period struct {
	ranking ranking
	number  int64
}

// rankings lists what to look at for a span of hours. A day's ranking does not know the
// latest hour of its subjects, so the span's last two hours are looked at as well.
func (s span) rankings(inHour, inDay ranking) []period {
	var all []period
	firstHour := s.first
	if s.end-s.first > rankedByHour {
		for day := s.first / hoursPerDay; day <= (s.end-1)/hoursPerDay; day++ {
			all = append(all, period{inDay, day})
		}
		firstHour = s.end - 2
	}
	for hour := firstHour; hour < s.end; hour++ {
		all = append(all, period{inHour, hour})
	}
	return all
}

// scores adds up the scores of the highest of every bucket and period: of a few of each,
// and of n where those that follow may be among the n highest of all.
func (r *Reader) scores(ctx context.Context, periods []period, n int) (map[string]float64, error) {
	names := make([]string, 0, keyspace.Buckets*len(periods))
	for _, b := range keyspace.All() {
		for _, p := range periods {
			names = append(names, rankingName(b, p.ranking, p.number))
		}
	}
	few := min(n, n/8+4)
	scores, lowest := map[string]float64{}, make([]float64, len(names))
	err := r.addRanked(ctx, names, 0, few, func(list int, member string, score float64, last bool) {
		if scores[member] += score; last {
			lowest[list] = score
		}
	})
	if err != nil || few == n {
		return scores, err
	}
	var more []string
	least := nth(scores, n)
	for list, score := range lowest {
		if score*float64(len(periods)) >= least && score > 0 {
			more = append(more, names[list])
		}
	}
	return scores, r.addRanked(ctx, more, few, n, func(_ int, member string, score float64, _ bool) {
		scores[member] += score
	})
}

// addRanked goes through the members of rankings from one place to the one before
// another. last says that the ranking may have more.
func (r *Reader) addRanked(ctx context.Context, names []string, from, to int,
	add func(list int, member string, score float64, last bool)) error {
	commands := make(valkey.Commands, len(names))
	for i, name := range names {
		commands[i] = r.client.B().Zrevrange().Key(name).Start(int64(from)).Stop(
			int64(to) - 1).Withscores().Build()
	}
	if len(commands) == 0 {
		return nil
	}
	for list, result := range r.client.DoMulti(ctx, commands...) {
		members, err := result.AsZScores()
		if err != nil {
			return err
		}
		for i, m := range members {
			add(list, m.Member, m.Score, i == to-from-1)
		}
	}
	return nil
}

// nth returns the n-th highest score, 0 when there are fewer.
func nth(scores map[string]float64, n int) float64 {
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
