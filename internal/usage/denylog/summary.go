package denylog

import (
	"cmp"
	"context"
	"slices"
	"time"

	"github.com/valkey-io/valkey-go"
)

// summaryTime is how long Summarize reads. It then returns the sums of the newest hours.
const summaryTime = 100 * time.Millisecond

// Summary counts the denied calls of a query.
type Summary struct {
	Since time.Time // the query's From, or the start of the oldest hour that was read
	Calls int64
	Begin time.Time // of the first step: the query's From, rounded down to a step
	Steps []int64   // calls by step
	// Limits, Subjects and Routes count calls by the denial's limit, its caller and
	// RouteOf, without the empty ones.
	Limits, Subjects, Routes map[string]int64
}

// Summarize counts the denials of a query by the step in which they were, and by what
// they have in common. It ignores the query's cursor and count. It reads for summaryTime.
func Summarize(ctx context.Context, client valkey.Client, q Query, step time.Duration) (Summary, error) {
	s := Summary{Since: q.From, Begin: q.From.Truncate(step),
		Limits: map[string]int64{}, Subjects: map[string]int64{}, Routes: map[string]int64{}}
	s.Steps = make([]int64, (q.To.Sub(s.Begin)+step-1)/step)
	began := time.Now()
	for hour, err := range hoursFrom(ctx, client, q, place{ms: maxPlace}) {
		if err != nil {
			return Summary{}, err
		}
		for i := range hour.denials {
			d := &hour.denials[i]
			s.Calls += d.Calls
			s.Steps[d.Time.Sub(s.Begin)/step] += d.Calls
			s.Limits[d.Limit] += d.Calls
			s.Subjects[d.Subject] += d.Calls
			s.Routes[RouteOf(d.Method, d.Path)] += d.Calls
		}
		if !hour.last && time.Since(began) > summaryTime {
			s.Since = hour.start
			break
		}
	}
	for _, counts := range []map[string]int64{s.Limits, s.Subjects, s.Routes} {
		delete(counts, "")
	}
	return s, nil
}

// RouteOf names a route by its method and pattern, such as "GET /orders/{id}". It is
// empty without a method: of a caller that proved no key.
func RouteOf(method, path string) string {
	if method == "" {
		return ""
	}
	return method + " " + path
}

// Count is a value and the calls that have it.
type Count struct {
	Value string
	Calls int64
}

// Most returns the n values with the most calls, most first.
func Most(counts map[string]int64, n int) []Count {
	all := make([]Count, 0, len(counts))
	for value, calls := range counts {
		all = append(all, Count{value, calls})
	}
	slices.SortFunc(all, func(a, b Count) int {
		return cmp.Or(cmp.Compare(b.Calls, a.Calls), cmp.Compare(a.Value, b.Value))
	})
	return all[:min(n, len(all))]
}
