package records

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/valkey-io/valkey-go"
)

// Order is an order of callers by their calls.
type Order byte

// The orders.
const (
	Busiest    Order = 'b' // by all calls
	MostDenied Order = 't' // by calls that were denied, refused, or would be denied in shadow
)

func (o Order) of(c Counts) int64 {
	if o == Busiest {
		return c.Calls()
	}
	return c.Denied + c.Refused + c.Shadow
}

// Ranked is a caller and its counts over a range.
type Ranked struct {
	ID string
	Counts
}

const (
	// MaxRanked is the longest list of Rank.
	MaxRanked = 64
	// candidates is how many times n callers have their counts read for a list of n,
	// since rankings may lack a third of a caller's calls.
	candidates = 3
)

// Rank returns the first n (1 to MaxRanked) callers of an order, with their exact counts
// of the range. It reads 8 or 16 rankings, and then the counts of 3n callers.
func (r *Reader) Rank(ctx context.Context, g Range, o Order, n int) ([]Ranked, error) {
	n = min(max(n, 1), MaxRanked)
	found, err := r.scores(ctx, r.rankingKeys(g, o), candidates*n)
	if err != nil {
		return nil, err
	}
	g.Step = 0
	counted, err := r.read(ctx, found, g)
	if err != nil {
		return nil, err
	}
	var all []Ranked
	for i, id := range found {
		if sum := counted[i].Sum(); o.of(sum) > 0 {
			all = append(all, Ranked{id, sum})
		}
	}
	slices.SortFunc(all, func(a, b Ranked) int {
		return cmp.Or(cmp.Compare(o.of(b.Counts), o.of(a.Counts)), cmp.Compare(a.ID, b.ID))
	})
	return all[:min(n, len(all))], nil
}

// rankingKeys names the rankings of a range: of the shortest periods of which two cover
// it, or of the two latest months.
func (r *Reader) rankingKeys(g Range, o Order) []string {
	now := r.now()
	last := min(hours.slotOf(g.To.Add(-1)), hours.slotOf(now))
	var keys []string
	for i, k := range rankings {
		first, end := hours.slotOf(g.From)/k.hours, last/k.hours
		longest := i == len(rankings)-1
		if !longest && (end-first > 1 || now.Sub(g.From) > k.kept-time.Hour) {
			continue
		}
		for period := max(first, end-1); period <= end; period++ {
			for p := range partitions {
				keys = append(keys, k.key(p, o, period))
			}
		}
		break
	}
	return keys
}

// scores returns the n callers with the highest sums in rankings.
func (r *Reader) scores(ctx context.Context, keys []string, n int) ([]string, error) {
	commands := make(valkey.Commands, len(keys))
	for i, key := range keys {
		commands[i] = r.client.B().Zrevrange().Key(key).Start(0).Stop(int64(n) - 1).Withscores().Build()
	}
	sums := map[string]float64{}
	for _, result := range r.client.DoMulti(ctx, commands...) {
		members, err := result.AsZScores()
		if err != nil {
			return nil, fmt.Errorf("records: rankings: %w", err)
		}
		for _, m := range members {
			sums[m.Member] += m.Score
		}
	}
	ids := make([]string, 0, len(sums))
	for id := range sums {
		ids = append(ids, id)
	}
	slices.SortFunc(ids, func(a, b string) int {
		return cmp.Or(cmp.Compare(sums[b], sums[a]), cmp.Compare(a, b))
	})
	return ids[:min(n, len(ids))], nil
}

// Listed is a page of ids.
type Listed struct {
	IDs  []string
	Next string // cursor of the next page; empty on the last one
}

// ErrCursor means that a text is not a cursor.
var ErrCursor = errors.New("records: not a cursor")

// Active returns a page of the callers that called on the present day in UTC, about the
// busiest first. A caller that calls between two pages may be on both or on none.
func (r *Reader) Active(ctx context.Context, cursor string, n int) (Listed, error) {
	keys := make([]string, partitions)
	for p := range keys {
		keys[p] = rankings[1].key(p, Busiest, hours.slotOf(r.now())/dayHours)
	}
	return r.merged(ctx, keys, "-inf", cursor, n)
}

// ActiveCount returns how many callers called since the hour or the day, in UTC, began.
func (r *Reader) ActiveCount(ctx context.Context, day bool) (n int64, since time.Time, err error) {
	k, hour := rankings[0], hours.slotOf(r.now())
	if day {
		k = rankings[1]
	}
	period := hour / k.hours
	commands := make(valkey.Commands, partitions)
	for p := range commands {
		commands[p] = r.client.B().Zcard().Key(k.key(p, Busiest, period)).Build()
	}
	for _, result := range r.client.DoMulti(ctx, commands...) {
		members, err := result.AsInt64()
		if err != nil {
			return 0, since, fmt.Errorf("records: count callers: %w", err)
		}
		n += members
	}
	return n, hours.start(period * k.hours), nil
}

// merged returns a page of the members of sorted sets with a score above least, the
// highest first. A cursor is how many members of each set were listed.
func (r *Reader) merged(ctx context.Context, keys []string, least, cursor string, n int) (Listed, error) {
	offsets, err := parseOffsets(cursor, len(keys))
	if err != nil {
		return Listed{}, err
	}
	commands := make(valkey.Commands, len(keys))
	for i, key := range keys {
		commands[i] = r.client.B().Zrevrangebyscore().Key(key).Max("+inf").Min(least).Withscores().
			Limit(offsets[i], int64(n)+1).Build()
	}
	type member struct {
		valkey.ZScore
		set int
	}
	var all []member
	for i, result := range r.client.DoMulti(ctx, commands...) {
		found, err := result.AsZScores()
		if err != nil {
			return Listed{}, fmt.Errorf("records: list: %w", err)
		}
		for _, m := range found {
			all = append(all, member{m, i})
		}
	}
	slices.SortStableFunc(all, func(a, b member) int { return cmp.Compare(b.Score, a.Score) })
	var page Listed
	for i, m := range all {
		if i == n {
			page.Next = offsetCursor(offsets)
			break
		}
		offsets[m.set]++
		page.IDs = append(page.IDs, m.Member)
	}
	return page, nil
}

func offsetCursor(offsets []int64) string {
	parts := make([]string, len(offsets))
	for i, n := range offsets {
		parts[i] = strconv.FormatInt(n, 36)
	}
	return strings.Join(parts, ".")
}

func parseOffsets(cursor string, sets int) ([]int64, error) {
	offsets := make([]int64, sets)
	if cursor == "" {
		return offsets, nil
	}
	parts := strings.Split(cursor, ".")
	if len(parts) != sets {
		return nil, ErrCursor
	}
	for i, text := range parts {
		n, err := strconv.ParseInt(text, 36, 32)
		if err != nil || n < 0 {
			return nil, ErrCursor
		}
		offsets[i] = n
	}
	return offsets, nil
}
