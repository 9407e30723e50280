package records

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/valkey-io/valkey-go"
)

// Reader reads what Recorders stored. It writes nothing and is safe for concurrent use.
type Reader struct {
	client valkey.Client
	now    func() time.Time
}

// NewReader returns a Reader on a connected client. Programs pass time.Now as its clock.
func NewReader(client valkey.Client, now func() time.Time) *Reader { return &Reader{client, now} }

// Point is the counts from Start until the next point.
type Point struct {
	Start time.Time `json:"start"`
	Counts
	// NotKept says that nothing is known of the point: it is older than what is kept, or
	// than the records.
	NotKept bool `json:"notKept,omitempty" doc:"Nothing is known of the point: the zeros are no counts"`
	// AtLeast says that calls may be missing: in one of its minutes calls were decided
	// without Valkey, or records were lost.
	AtLeast bool `json:"atLeast,omitempty" doc:"Calls may be missing"`
}

// Series is the counts of a range.
type Series struct {
	Range  // as counted: in whole minutes or hours
	Points []Point
	// Kinds has for each kind the calls of each point. A caller's kinds name limits and
	// reasons, others have causes alone.
	Kinds   map[Kind][]int64
	Began   time.Time // when the records begin; zero if there are none
	Counted time.Time // until when calls are counted

	minutes bool // read by the minute alone
}

// Sum returns the counts of the whole series.
func (s *Series) Sum() Counts {
	var sum Counts
	for i := range s.Points {
		sum = sum.Plus(s.Points[i].Counts)
	}
	return sum
}

// AtLeast reports whether calls of the series may be missing.
func (s *Series) AtLeast() bool {
	return slices.ContainsFunc(s.Points, func(p Point) bool { return p.AtLeast || p.NotKept })
}

// Incomplete reports whether calls of the points that are kept may be missing.
func (s *Series) Incomplete() bool {
	return slices.ContainsFunc(s.Points, func(p Point) bool { return p.AtLeast && !p.NotKept })
}

// Last returns the start of the last point with calls. It is zero if there is none.
func (s *Series) Last() time.Time {
	for i := len(s.Points) - 1; i >= 0; i-- {
		if s.Points[i].Calls() > 0 {
			return s.Points[i].Start
		}
	}
	return time.Time{}
}

// KindCount is the calls of a kind.
type KindCount struct {
	Kind
	Calls int64 `json:"calls"`
}

// ByKind returns the calls of each kind, most calls first; empty, not nil, without any.
func (s *Series) ByKind() []KindCount { return s.kinds(0, len(s.Points)) }

// Between returns the calls of each kind in the points from first to last, most calls
// first.
func (s *Series) Between(first, last time.Time) []KindCount {
	at := func(t time.Time) int { return max(0, s.index(t)) }
	return s.kinds(at(first), min(at(last)+1, len(s.Points)))
}

func (s *Series) kinds(first, end int) []KindCount {
	all := []KindCount{}
	for k, calls := range s.Kinds {
		c := KindCount{Kind: k}
		for _, n := range calls[first:end] {
			c.Calls += n
		}
		if c.Calls > 0 {
			all = append(all, c)
		}
	}
	slices.SortFunc(all, func(a, b KindCount) int {
		return cmp.Or(cmp.Compare(b.Calls, a.Calls), cmp.Compare(a.Cause, b.Cause),
			cmp.Compare(a.Limit, b.Limit), cmp.Compare(a.Plan, b.Plan), cmp.Compare(a.Reason, b.Reason))
	})
	return all
}

// Episode is a run of points with denied or refused calls. A point without one ends it.
type Episode struct {
	Since, Last time.Time // starts of its first and its last point; zero without an episode
	Calls       int64     // denied or refused
	Earlier     int64     // denied or refused before it, in the series
}

// Episode returns the latest episode of the series.
func (s *Series) Episode() (e Episode) {
	ended := false
	for i := len(s.Points) - 1; i >= 0; i-- {
		p := &s.Points[i]
		switch n := p.Denied + p.Refused; {
		case ended:
			e.Earlier += n
		case n > 0:
			if e.Calls == 0 {
				e.Last = p.Start
			}
			e.Since, e.Calls = p.Start, e.Calls+n
		default:
			ended = e.Calls > 0
		}
	}
	return e
}

// Total returns the counts of all calls.
func (r *Reader) Total(ctx context.Context, g Range) (Series, error) { return r.one(ctx, totalID, g) }

// Route returns the counts of the calls that fall under a route, of at most 26 hours.
func (r *Reader) Route(ctx context.Context, name string, g Range) (Series, error) {
	return r.one(ctx, routePrefix+name, g)
}

// Caller returns the counts of a caller.
func (r *Reader) Caller(ctx context.Context, id string, g Range) (Series, error) {
	return r.one(ctx, id, g)
}

// Nobody returns the refused calls of callers that proved nothing.
func (r *Reader) Nobody(ctx context.Context, g Range) (Series, error) { return r.one(ctx, nobodyID, g) }

// Limits returns the calls that limits denied or would have denied in shadow. Its kinds
// are plans and limits.
func (r *Reader) Limits(ctx context.Context, g Range) (Series, error) { return r.one(ctx, limitsID, g) }

func (r *Reader) one(ctx context.Context, id string, g Range) (Series, error) {
	all, err := r.read(ctx, []string{id}, g)
	if err != nil {
		return Series{}, err
	}
	return all[0], nil
}

// Callers returns the Series of each caller, in order, in one flush.
func (r *Reader) Callers(ctx context.Context, ids []string, g Range) ([]Series, error) {
	return r.read(ctx, ids, g)
}

// Routes returns the Series of each route, in order, in one flush.
func (r *Reader) Routes(ctx context.Context, names []string, g Range) ([]Series, error) {
	ids := make([]string, len(names))
	for i, name := range names {
		ids[i] = routePrefix + name
	}
	return r.read(ctx, ids, g)
}

// source is a hash of counts to read.
type source struct {
	part
	origin int64 // slot of its first field
	series int
}

func (r *Reader) read(ctx context.Context, ids []string, g Range) ([]Series, error) {
	now := r.now()
	byHour := len(ids) == 0 || !strings.HasPrefix(ids[0], routePrefix)
	parts, g, err := g.plan(now, byHour)
	if err != nil {
		return nil, err
	}
	commands := valkey.Commands{
		r.client.B().Get().Key(listKey(0, beganList)).Build(),
		r.client.B().Zrangebyscore().Key(listKey(0, unsureList)).Min(strconv.FormatInt(minutes.slotOf(g.From),
			10)).
			Max("(" + strconv.FormatInt(minutes.slotOf(g.To), 10)).Build(),
	}
	marks := len(commands)
	var sources []source
	for i, id := range ids {
		for _, p := range parts {
			width := p.scale.slots()
			for slot := p.first / width * width; slot < p.end; slot += width {
				sources = append(sources, source{p, slot, i})
				commands = append(commands, r.client.B().Hgetall().Key(countsKey(id, p.scale, slot)).Build())
			}
		}
	}
	results := r.client.DoMulti(ctx, commands...)
	empty := Series{Range: g, Counted: now, minutes: len(parts) == 1 && parts[0].scale == minutes}
	if err := empty.readMarks(results[0], results[1]); err != nil {
		return nil, fmt.Errorf("records: %w", err)
	}
	all := make([]Series, len(ids))
	for i := range all {
		all[i] = empty
		all[i].Points, all[i].Kinds = slices.Clone(empty.Points), map[Kind][]int64{}
	}
	for i, result := range results[marks:] {
		fields, err := result.AsStrMap()
		if err != nil {
			return nil, fmt.Errorf("records: %w", err)
		}
		for field, text := range fields {
			all[sources[i].series].addField(&sources[i], field, text)
		}
	}
	return all, nil
}

// readMarks sets what is known of the points: whether they are kept, and complete.
func (s *Series) readMarks(began, unsure valkey.ValkeyResult) error {
	seconds, err := began.AsInt64()
	if err != nil && !valkey.IsValkeyNil(err) {
		return err
	}
	if seconds > 0 {
		s.Began = time.Unix(seconds, 0).UTC()
	}
	marked, err := unsure.AsIntSlice()
	if err != nil {
		return err
	}
	s.Points = s.points()
	oldest := s.Counted.Add(-HoursKept - time.Hour)
	if s.minutes {
		oldest = s.Counted.Add(-MinutesKept - time.Hour)
	}
	if s.Began.After(oldest) {
		oldest = s.Began
	}
	for i := range s.Points {
		end := s.To
		if i+1 < len(s.Points) {
			end = s.Points[i+1].Start
		}
		s.Points[i].NotKept = s.Began.IsZero() || !end.After(oldest)
	}
	for _, minute := range marked {
		if i := s.index(minutes.start(minute)); i >= 0 {
			s.Points[i].AtLeast = true
		}
	}
	return nil
}

// addField adds a field of a hash. It skips fields of another form.
func (s *Series) addField(from *source, field, text string) {
	slot, kind, ok := parseField(field)
	slot += from.origin
	n, err := strconv.ParseInt(text, 10, 64)
	if !ok || err != nil || slot < from.first || slot >= from.end {
		return
	}
	i := s.index(from.scale.start(slot))
	if i < 0 {
		return
	}
	s.Points[i].add(kind, n)
	if k, ok := parseKind(kind); ok {
		if s.Kinds[k] == nil {
			s.Kinds[k] = make([]int64, len(s.Points))
		}
		s.Kinds[k][i] += n
	}
}

// lastCalls is how long ago a call may be for LastCalls.
const lastCalls = dayHours * time.Hour

// LastCalls returns the minute of each caller's last call within 24 hours, in order; zero
// for a caller without one. It reads counts by hour, and the minutes of the last hour with
// calls.
func (r *Reader) LastCalls(ctx context.Context, ids []string) ([]time.Time, error) {
	now := r.now().UTC()
	end := ceil(now, time.Hour)
	byHour, err := r.read(ctx, ids, Range{end.Add(-lastCalls - time.Hour), end, time.Hour})
	if err != nil {
		return nil, err
	}
	last := make([]time.Time, len(ids))
	var commands valkey.Commands
	var of []int
	for i := range byHour {
		if hour := byHour[i].Last(); !hour.IsZero() {
			key := countsKey(ids[i], minutes, minutes.slotOf(hour))
			commands, of = append(commands, r.client.B().Hkeys().Key(key).Build()), append(of, i)
		}
	}
	for n, result := range r.client.DoMulti(ctx, commands...) {
		fields, err := result.AsStrSlice()
		if err != nil {
			return nil, fmt.Errorf("records: last calls: %w", err)
		}
		hour := byHour[of[n]].Last()
		for _, field := range fields {
			slot, _, ok := parseField(field)
			at := hour.Add(time.Duration(slot) * time.Minute)
			if ok && at.After(last[of[n]]) && now.Sub(at) < lastCalls {
				last[of[n]] = at
			}
		}
	}
	return last, nil
}
