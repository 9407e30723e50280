package usage

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/valkey-io/valkey-go"

	"tidegate/internal/testing/valkeytest"
)

// oracle counts what the recorders should have counted.
type oracle struct {
	mu       sync.Mutex
	total    map[time.Time]Counts
	subjects map[string]map[time.Time]Counts
	rules    map[string]Counts
}

func countsOf(o Outcome) Counts {
	var t tally
	t.add(o.Verdict, max(o.Cost, 1))
	return t.counts()
}

func (s *oracle) add(o Outcome) {
	s.mu.Lock()
	defer s.mu.Unlock()
	minute, c := o.Time.Truncate(time.Minute), countsOf(o)
	s.total[minute] = s.total[minute].Plus(c)
	if s.subjects[o.Subject] == nil {
		s.subjects[o.Subject] = map[time.Time]Counts{}
	}
	s.subjects[o.Subject][minute] = s.subjects[o.Subject][minute].Plus(c)
	for _, rule := range o.Rules {
		s.rules[rule] = s.rules[rule].Plus(c)
	}
}

func randomOutcome(random *rand.Rand, at time.Time) Outcome {
	o := Outcome{
		Subject: id(random.IntN(150)), Registered: random.IntN(2) == 0, Verdict: Verdict(random.IntN(16)),
		Cost: random.Int64N(4), Time: at,
	}
	if random.IntN(3) == 0 {
		o.Rules = []string{fmt.Sprint("rule", random.IntN(4)), "global"}
	}
	return o
}

// Counts of concurrent recorders add up, by subject, by rule and in total, per minute and
// per hour.
func TestConcurrentRecordersAddUp(t *testing.T) {
	onEveryServer(t, func(t *testing.T, client valkey.Client) {
		want := oracle{total: map[time.Time]Counts{}, subjects: map[string]map[time.Time]Counts{},
			rules: map[string]Counts{}}
		start, calls := noon.Add(-90*time.Second), 600
		if strings.HasSuffix(t.Name(), "embedded") {
			calls = 60 // this server compiles the script each time
			start = noon.Add(-9 * time.Second)
		}
		var environments sync.WaitGroup
		for e := range uint64(8) {
			environments.Go(func() {
				clock := clock{now: start}
				r, random := NewRecorder(Options{}, clock.Now), rand.New(rand.NewPCG(e, 1))
				for range calls {
					o := randomOutcome(random, clock.Now())
					want.add(o)
					r.Record(o)
					clock.set(clock.Now().Add(time.Duration(random.IntN(600)) * time.Millisecond))
					if b := r.Batch(clock.Now()); b != nil {
						if report := b.Acknowledge(client.DoMulti(t.Context(),
							b.Commands(client)...)); report.Lost > 0 || report.Err != nil {
							t.Errorf("acknowledge: %+v", report)
						}
					}
				}
				flush(t, r, client)
			})
		}
		environments.Wait()
		want.check(t, NewReader(client))
	})
}

func (s *oracle) check(t *testing.T, r *Reader) {
	t.Helper()
	from, to := noon.Add(-time.Hour), noon.Add(time.Hour)
	overview, err := r.Overview(t.Context(), from, to, time.Minute)
	checkPoints(t, "overview", overview, s.total, err)
	var all, byHour Counts
	for _, c := range s.total {
		all = all.Plus(c)
	}
	hours, err := r.Overview(t.Context(), from, to, time.Hour)
	if byHour = Sum(hours); err != nil || byHour != all || len(hours) != 2 {
		t.Errorf("by hour: got %+v in %d points, %v; want %+v in 2", byHour, len(hours), err, all)
	}
	for subject, minutes := range s.subjects {
		points, err := r.Series(t.Context(), subject, from, to, time.Minute)
		checkPoints(t, subject, points, minutes, err)
		hours, err := r.Series(t.Context(), subject, from, to, time.Hour)
		if sum := Sum(points); err != nil || Sum(hours) != sum {
			t.Errorf("%s: got %+v by hour, %v; want %+v as by minute", subject, Sum(hours), err, sum)
		}
	}
	for rule, want := range s.rules {
		points, err := r.Rule(t.Context(), rule, from, to, time.Hour)
		if err != nil || Sum(points) != want {
			t.Errorf("%s: got %+v, %v; want %+v", rule, Sum(points), err, want)
		}
	}
}

func checkPoints(t *testing.T, what string, points []Point, want map[time.Time]Counts, err error) {
	t.Helper()
	got := map[time.Time]Counts{}
	for _, p := range points {
		if p.Counts != (Counts{}) {
			got[p.Start] = p.Counts
		}
	}
	if diff := cmp.Diff(want, got); err != nil || diff != "" {
		t.Errorf("%s: %v (-want +got):\n%s", what, err, diff)
	}
}

// A call at the last instant of a minute, hour and day counts there, and a call one
// nanosecond later in the next.
func TestRollOver(t *testing.T) {
	onEveryServer(t, func(t *testing.T, client valkey.Client) {
		midnight := noon.Add(12 * time.Hour)
		clock := clock{now: midnight.Add(-time.Nanosecond)}
		r := NewRecorder(Options{}, clock.Now)
		r.Record(Outcome{Subject: "a", Time: clock.Now()})
		clock.set(midnight)
		r.Record(Outcome{Subject: "a", Time: clock.Now(), Verdict: Denied})
		r.Record(Outcome{Subject: "a", Time: clock.Now().Add(59*time.Minute + 59*time.Second)})
		r.Record(Outcome{Subject: "a", Time: clock.Now().Add(time.Hour), Cost: 7})
		flush(t, r, client)
		read := NewReader(client)
		oneAllowed, oneDenied := Counts{Allowed: 1, Cost: 1}, Counts{Denied: 1}
		for _, c := range []struct {
			step time.Duration
			want map[time.Time]Counts
		}{
			{time.Minute, map[time.Time]Counts{
				midnight.Add(-time.Minute): oneAllowed, midnight: oneDenied,
				midnight.Add(59 * time.Minute): oneAllowed, midnight.Add(time.Hour): {Allowed: 1, Cost: 7},
			}},
			{time.Hour, map[time.Time]Counts{
				midnight.Add(-time.Hour): oneAllowed, midnight: oneAllowed.Plus(oneDenied),
				midnight.Add(time.Hour): {Allowed: 1, Cost: 7},
			}},
		} {
			points, err := read.Series(t.Context(), "a", midnight.Add(-2*time.Hour),
				midnight.Add(3*time.Hour), c.step)
			checkPoints(t, c.step.String(), points, c.want, err)
			points, err = read.Overview(t.Context(), midnight.Add(-2*time.Hour),
				midnight.Add(3*time.Hour), c.step)
			checkPoints(t, "total "+c.step.String(), points, c.want, err)
		}
	})
}

// Points begin at multiples of the step, which is any number of whole minutes, and cover
// the requested span.
func TestSteps(t *testing.T) {
	client := connect(t, valkeytest.Embedded(t))
	r := recorderAt(noon)
	for i := range 60 {
		r.Record(Outcome{Subject: "a", Time: noon.Add(time.Duration(i) * time.Minute)})
	}
	flush(t, r, client)
	for _, c := range []struct {
		from, to, step time.Duration
		first          time.Duration
		counts         []int64
	}{
		{0, time.Hour, 15 * time.Minute, 0, []int64{15, 15, 15, 15}},
		{time.Second, 16 * time.Minute, 15 * time.Minute, 0, []int64{15, 15}},
		{0, 15*time.Minute + time.Nanosecond, 15 * time.Minute, 0, []int64{15, 15}},
		{-time.Minute, 5 * time.Minute, 5 * time.Minute, -5 * time.Minute, []int64{0, 5}},
		{59 * time.Minute, 61 * time.Minute, time.Minute, 59 * time.Minute, []int64{1, 0}},
		{30 * time.Minute, 31 * time.Minute, time.Hour, 0, []int64{60}},
		{0, 24 * time.Hour, 24 * time.Hour, -12 * time.Hour, []int64{60, 0}},
	} {
		points, err := NewReader(client).Series(t.Context(), "a", noon.Add(c.from), noon.Add(c.to), c.step)
		if err != nil || len(points) != len(c.counts) || !points[0].Start.Equal(noon.Add(c.first)) {
			t.Errorf("%+v: got %d points, %v, %v; want %d", c, len(points), points, err, len(c.counts))
			continue
		}
		for i, want := range c.counts {
			if points[i].Allowed != want ||
				!points[i].Start.Equal(points[0].Start.Add(time.Duration(i)*c.step)) {
				t.Errorf("%+v: point %d: got %+v, want %d allowed", c, i, points[i], want)
			}
		}
	}
}

// newSpan refuses spans for which no counts are kept, and steps that are not whole
// minutes.
func TestInvalidSpans(t *testing.T) {
	for name, c := range map[string]struct {
		from, to time.Time
		step     time.Duration
	}{
		"no step":         {noon, noon.Add(time.Hour), 0},
		"seconds":         {noon, noon.Add(time.Hour), 90 * time.Second},
		"backwards":       {noon, noon.Add(-time.Second), time.Minute},
		"empty":           {noon, noon, time.Minute},
		"before 1970":     {time.Unix(-1, 0), noon, time.Minute},
		"minutes expired": {noon, noon.Add(26 * time.Hour), time.Minute},
		"hours expired":   {noon, noon.Add(32 * 24 * time.Hour), time.Hour},
		"negative step":   {noon, noon.Add(time.Hour), -time.Minute},
		"the zero times":  {time.Time{}, time.Time{}, time.Minute},
	} {
		if s, err := newSpan(c.from, c.to, c.step); err == nil {
			t.Errorf("%s: got %+v, want an error", name, s)
		}
	}
}
