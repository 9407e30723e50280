package usage

import (
	"context"
	"fmt"
	"time"

	"github.com/valkey-io/valkey-go"

	"tidegate/internal/store/keyspace"
)

// Reader reads what Recorders stored. It is safe for concurrent use. A method sends one
// flush of commands to each node, but Active up to two, and Rank up to five.
type Reader struct {
	client valkey.Client
}

// NewReader returns a Reader on a connected client.
func NewReader(client valkey.Client) *Reader { return &Reader{client: client} }

// Overview returns the counts of all calls, a point for each step: whole minutes within
// the last 24 hours, or whole hours within the last 30 days. The points cover every step
// that the time between from and to touches.
func (r *Reader) Overview(ctx context.Context, from, to time.Time, step time.Duration) ([]Point, error) {
	return r.summed(ctx, "overview", totalID, from, to, step)
}

// Rule returns the counts of the calls that a rule applied to, as Overview does.
func (r *Reader) Rule(ctx context.Context, id string, from, to time.Time,
	step time.Duration) ([]Point, error) {
	return r.summed(ctx, "rule", rulePrefix+id, from, to, step)
}

// summed adds up the buckets that hold totals and rules.
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

// OldSecretUsed returns when a subject last called with its previous secret: the start of
// that minute, or of that hour if counts by minute are no longer kept. It is zero if
// there was no such call.
func (r *Reader) OldSecretUsed(ctx context.Context, id string, now time.Time) (time.Time, error) {
	for _, s := range []struct{ retention, step time.Duration }{
		{MinutesKept, time.Minute}, {HoursKept, time.Hour},
	} {
		points, err := r.Series(ctx, id, now.Add(-s.retention), now, s.step)
		if err != nil {
			return time.Time{}, err
		}
		for i := len(points) - 1; i >= 0; i-- {
			if points[i].OldSecret > 0 {
				return points[i].Start, nil
			}
		}
	}
	return time.Time{}, nil
}

// read reads n series.
func (r *Reader) read(ctx context.Context, s span, sources []source, n int) ([][]Point, error) {
	tallies, err := r.tallies(ctx, s, sources, n, kindsPerSlot)
	if err != nil {
		return nil, err
	}
	series := make([][]Point, n)
	for i := range series {
		series[i] = s.points()
		for j := range series[i] {
			series[i][j].Counts = tallies[i*s.steps()+j].counts()
		}
	}
	return series, nil
}

// tallies reads n series, one after another in the result. width is kindsPerSlot or
// causesPerSlot.
func (r *Reader) tallies(ctx context.Context, s span, sources []source, n int, width int64) ([]tally, error) {
	commands := make(valkey.Commands, len(sources))
	for i, from := range sources {
		commands[i] = r.client.B().Hgetall().Key(from.key).Build()
	}
	tallies := make([]tally, s.steps()*n)
	for i, result := range r.client.DoMulti(ctx, commands...) {
		from := &sources[i]
		err := eachCount(result, width, func(slot int64, k kind, n int64) {
			if step := s.stepOf(from.origin + slot); step >= 0 {
				tallies[from.series*s.steps()+step][k] += n
			}
		})
		if err != nil {
			return nil, err
		}
	}
	return tallies, nil
}
