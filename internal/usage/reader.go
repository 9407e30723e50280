package usage

import (
	"context"
	"fmt"
	"iter"
	"strconv"
	"time"

	"github.com/valkey-io/valkey-go"

	"tidegate/internal/store/keyspace"
	"tidegate/internal/usage/denylog"
	"tidegate/internal/usage/routecount"
	"tidegate/internal/usage/statelist"
)

// Reader reads what Recorders stored. It is safe for concurrent use. Every method but
// Busiest, MostDenied and Active makes one flush of commands to each node; Active makes
// two at most, the others three.
type Reader struct {
	client valkey.Client
}

// NewReader returns a Reader on a connected client.
func NewReader(client valkey.Client) *Reader { return &Reader{client: client} }

// Point is what was counted from Start until the next point.
type Point struct {
	Start time.Time
	Counts
}

// Sum adds up a series.
func Sum(points []Point) Counts {
	var sum Counts
	for _, p := range points {
		sum = sum.Plus(p.Counts)
	}
	return sum
}

// source is a key that holds counts, and the series that they belong to.
type source struct {
	name   string
	origin int64 // unit of the field number 0
	series int
}

// Overview returns the counts of all calls, a point for each step: whole minutes within
// the last 24 hours, or whole hours within the last 30 days. The points begin with the
// step that from is in and end with the one before to, or that to is in.
func (r *Reader) Overview(ctx context.Context, from, to time.Time, step time.Duration) ([]Point, error) {
	return r.summed(ctx, "overview", totalID, from, to, step)
}

// Rule returns the counts of the calls that a rule applied to, as Overview does.
func (r *Reader) Rule(ctx context.Context, id string, from, to time.Time,
	step time.Duration) ([]Point, error) {
	return r.summed(ctx, "rule", rulePrefix+id, from, to, step)
}

// summed adds up the buckets that totals and rules go to.
func (r *Reader) summed(ctx context.Context, what, name string, from, to time.Time,
	step time.Duration) ([]Point, error) {
	s, err := newSpan(from, to, step)
	if err != nil {
		return nil, err
	}
	series, err := r.read(ctx, s, s.totalSources(name), 1)
	if err != nil {
		return nil, fmt.Errorf("usage: %s: %w", what, err)
	}
	return series[0], nil
}

// Series returns the counts of one subject, as Overview does.
func (r *Reader) Series(ctx context.Context, id string, from, to time.Time,
	step time.Duration) ([]Point, error) {
	series, err := r.Sparklines(ctx, []string{id}, from, to, step)
	if err != nil {
		return nil, err
	}
	return series[0], nil
}

// Sparklines returns the Series of each subject, in order.
func (r *Reader) Sparklines(ctx context.Context, ids []string, from, to time.Time,
	step time.Duration) ([][]Point, error) {
	s, err := newSpan(from, to, step)
	if err != nil {
		return nil, err
	}
	var sources []source
	for i, id := range ids {
		sources = s.appendSources(sources, keyspace.BucketOf(id), id, i)
	}
	series, err := r.read(ctx, s, sources, len(ids))
	if err != nil {
		return nil, fmt.Errorf("usage: series: %w", err)
	}
	return series, nil
}

// totalSources lists the keys that hold the span of a total or a rule.
func (s span) totalSources(name string) []source {
	var sources []source
	for i := range totalBuckets {
		sources = s.appendSources(sources, totalBucket(i), name, 0)
	}
	return sources
}

// appendSources lists the keys of a thing in a bucket that hold the span.
func (s span) appendSources(to []source, b keyspace.Bucket, name string, series int) []source {
	for first, last := s.keys(); first <= last; first++ {
		key := minutesName(b, name, first)
		if s.unit == time.Hour {
			key = hoursName(b, name, first)
		}
		to = append(to, source{key, first * s.unitsPerKey(), series})
	}
	return to
}

func (r *Reader) read(ctx context.Context, s span, sources []source, n int) ([][]Point, error) {
	series := make([][]Point, n)
	for i := range series {
		series[i] = s.points()
	}
	tallies, err := r.tallies(ctx, s, sources, n, kindsPerSlot)
	if err != nil {
		return nil, err
	}
	width := len(tallies) / max(n, 1)
	for i := range tallies {
		series[i/width][i%width].Counts = tallies[i].counts()
	}
	return series, nil
}

// tallies adds up n series, one after another, of counts with so many kinds or causes.
func (r *Reader) tallies(ctx context.Context, s span, sources []source, n int, width int64) ([]tally, error) {
	commands := make(valkey.Commands, len(sources))
	for i, from := range sources {
		commands[i] = r.client.B().Hgetall().Key(from.name).Build()
	}
	tallies := make([]tally, (s.end-s.first)/s.perStep()*int64(n))
	points := len(tallies) / max(n, 1)
	for i, result := range r.client.DoMulti(ctx, commands...) {
		err := eachCount(result, width, func(slot int64, k kind, n int64) {
			if at := s.at(sources[i].origin + slot); at >= 0 {
				tallies[sources[i].series*points+at][k] += n
			}
		})
		if err != nil {
			return nil, err
		}
	}
	return tallies, nil
}

// eachCount goes through a stored hash. Fields that another version wrote are passed
// over.
func eachCount(result valkey.ValkeyResult, width int64, do func(slot int64, k kind, n int64)) error {
	fields, err := result.AsStrMap()
	if err != nil {
		return err
	}
	for field, text := range fields {
		number, err := strconv.ParseInt(field, 10, 64)
		if err != nil || number < 0 || number%width >= int64(len(tally{})) {
			continue
		}
		n, err := strconv.ParseInt(text, 10, 64)
		if err != nil {
			continue
		}
		do(number/width, kind(number%width), n)
	}
	return nil
}

// Denials returns a page of the denial log, newest first.
func (r *Reader) Denials(ctx context.Context, q denylog.Query) (denylog.Page, error) {
	return denylog.Read(ctx, r.client, q)
}

// InState returns up to count subjects of a list of states, as statelist.Read does.
func (r *Reader) InState(
	ctx context.Context, list statelist.List, after string, now time.Time, count int,
) (ids []string, more bool, err error) {
	return statelist.Read(ctx, r.client, list, after, now, count)
}

// Routes returns the calls of a plan by route, as routecount.Read does. from is at most
// an hour before to. An environment that is called all the time reports its latest calls
// within 10 s.
func (r *Reader) Routes(
	ctx context.Context, plan string, from, to time.Time,
) (map[routecount.Route]int64, error) {
	if to.Sub(from) > time.Hour {
		return nil, fmt.Errorf("%w: %s is more than the hour that routes are kept for", ErrSpan, to.Sub(from))
	}
	return routecount.Read(ctx, r.client, plan, from, to)
}

// EveryDenial goes through the denials of a query, newest first.
func (r *Reader) EveryDenial(ctx context.Context, q denylog.Query) iter.Seq2[denylog.Entry, error] {
	return denylog.All(ctx, r.client, q)
}
