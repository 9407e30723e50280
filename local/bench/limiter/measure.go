package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"runtime"
	"runtime/debug"
	"time"

	"tidegate/local/bench/figures"
)

// maxLibrarySubjects is the maximum number of subjects of calls through libraries.
const maxLibrarySubjects = 1_000

// scenario is a kind of checks to measure.
type scenario struct {
	name    string // prefix of the names of its figures
	check   func(*measuredLimiter) *check
	purpose byte // of its subjects
	allowed bool // the expected verdict
}

func allowedCheck(c *measuredLimiter) *check { return c.allowed }
func deniedCheck(c *measuredLimiter) *check  { return c.denied }

var (
	spread = scenario{"", allowedCheck, allowedSubjects, true}
	denied = scenario{"denied_", deniedCheck, deniedSubjects, false}

	scenarios = []scenario{spread, denied}
)

// slice is one turn of a limiter on a saturated server. Times are microseconds per
// check.
type slice struct {
	limiter   *measuredLimiter
	scenario  string
	rate      float64 // checks per second
	command   float64 // time of the commands by the server's statistics
	processor float64 // processor time of the server
	probe     int     // index of the probe before the turn; the next probe follows it
}

// trips is one turn of a limiter with one call in flight.
type trips struct {
	limiter      *measuredLimiter
	scenario     string
	calls, pings []time.Duration
	probe        int // index of the probe before the turn
}

// measurement has everything that was measured.
type measurement struct {
	options
	version     string
	window      time.Duration
	limiters    []*measuredLimiter
	slices      []slice
	trips       []trips
	probes      []float64                    // PINGs per second between turns
	bytes       map[*measuredLimiter]float64 // of a full subject
	allocations map[*measuredLimiter]float64 // of the client, per check
}

// bench is a measurement in progress.
type bench struct {
	*measurement
	server   *server
	pipes    *pipes
	turn     time.Time // when a window of all limiters begins
	pings    *load
	load     load
	fresh    int      // number of subjects used once
	subjects []string // of calls through libraries
	progress io.Writer
}

func measure(ctx context.Context, o options, progress io.Writer) (*measurement, error) {
	server, err := start(ctx, o.server)
	if err != nil {
		return nil, err
	}
	defer server.stop()
	// The client collects garbage less often, so that the server remains the bottleneck.
	defer debug.SetGCPercent(debug.SetGCPercent(400))
	for lead := o.lead; ; lead *= 2 {
		m, err := attempt(ctx, server, o, lead, progress)
		if !errors.Is(err, errLate) {
			return m, err
		}
		if err := server.empty(ctx); err != nil {
			return nil, err
		}
	}
}

var errLate = errors.New("the new windows began before the previous windows were filled")

// attempt measures with windows that begin after the lead. It returns errLate if the lead
// is too short.
func attempt(ctx context.Context, server *server, o options, lead time.Duration,
	progress io.Writer) (*measurement, error) {
	window, turn := windowFrom(time.Now().Add(lead))
	m := &measurement{options: o, version: server.version, window: window,
		bytes: map[*measuredLimiter]float64{}, allocations: map[*measuredLimiter]float64{}}
	b := &bench{measurement: m, server: server, turn: turn, pings: pingLoad(), progress: progress}
	h := &harness{address: server.Address(), window: window, keys: o.keys}
	defer h.close()
	var err error
	if m.limiters, err = choose(h, o); err != nil {
		return nil, err
	}
	for i := range min(maxLibrarySubjects, o.keys) {
		b.subjects = append(b.subjects, subject(librarySubjects, i))
	}
	if b.pipes, err = openPipes(server.Address()); err != nil {
		return nil, err
	}
	defer b.pipes.close()
	return m, b.run(ctx)
}

func (b *bench) run(ctx context.Context) error {
	if err := b.prepare(ctx); err != nil {
		return err
	}
	if err := b.probe(); err != nil {
		return err
	}
	for round := range b.repeats {
		_, _ = fmt.Fprintf(b.progress, "round %d of %d\n", round+1, b.repeats)
		if err := b.round(ctx, round); err != nil {
			return err
		}
	}
	for _, c := range b.limiters {
		if err := b.countAllocations(ctx, c); err != nil {
			return fmt.Errorf("%s, allocations: %w", c.name, err)
		}
	}
	return nil
}

// round gives every limiter a turn in every scenario.
func (b *bench) round(ctx context.Context, round int) error {
	for _, s := range scenarios {
		for _, c := range b.limiters {
			if err := b.saturate(ctx, c, s, round); err != nil {
				return fmt.Errorf("%s, %schecks: %w", c.name, s.name, err)
			}
		}
	}
	for _, c := range b.limiters {
		for _, s := range scenarios {
			if err := b.callOneByOne(ctx, c, s, round); err != nil {
				return fmt.Errorf("%s, %scalls one by one: %w", c.name, s.name, err)
			}
		}
	}
	return nil
}

// probe measures the current speed of the machine.
func (b *bench) probe() error {
	o, err := b.pipes.send(b.pings, nil)
	b.probes = append(b.probes, float64(len(b.pings.ends))/o.elapsed.Seconds())
	return err
}

func pingLoad() *load {
	const pings = 8192
	l := &load{}
	for range pings {
		l.add(template{bytes: []byte("*1\r\n$4\r\nPING\r\n"), commands: []string{"ping"}}, "")
	}
	return l
}

var errVerdict = errors.New("unexpected verdict")

// saturate sends a slice of checks as fast as the server answers them.
func (b *bench) saturate(ctx context.Context, c *measuredLimiter, s scenario, round int) error {
	check := s.check(c)
	if check == nil {
		return nil
	}
	commands, err := b.encode(ctx, c, s, round)
	if err != nil {
		return err
	}
	if err := b.pipes.choose(c.database); err != nil {
		return err
	}
	var o outcome
	work, err := b.server.during(ctx, func() (err error) {
		o, err = b.pipes.send(&b.load, check.verdict)
		return err
	})
	if err != nil {
		return err
	}
	if s.allowed && o.denied > 0 || !s.allowed && o.allowed > 0 {
		return fmt.Errorf("%w: %d sampled checks were allowed and %d denied", errVerdict, o.allowed, o.denied)
	}
	n := float64(len(b.load.ends))
	b.slices = append(b.slices, slice{
		limiter: c, scenario: s.name, probe: len(b.probes) - 1,
		rate: n / o.elapsed.Seconds(), command: meanOf(work, commands),
		processor: figures.Micros(work.Processor) / n,
	})
	return b.probe()
}

// encode makes the load of a slice from checks of the library that it records now. It
// returns the names of a check's commands.
func (b *bench) encode(ctx context.Context, c *measuredLimiter, s scenario, round int) ([]string, error) {
	recordings := 1
	if c.stamped && s.allowed {
		recordings = (b.slice + c.keys - 1) / c.keys
	}
	templates := make([]template, recordings)
	for i := range templates {
		var err error
		if templates[i], err = b.recordCheck(ctx, c, s, round*recordings+i); err != nil {
			return nil, err
		}
	}
	b.load.reset()
	for i := range b.slice {
		b.load.add(templates[min(i/c.keys, recordings-1)], subject(s.purpose, (round*b.slice+i)%c.keys))
	}
	return templates[0].commands, nil
}

// recordCheck records check i of a limiter, with a subject that gets the scenario's
// verdict.
func (b *bench) recordCheck(ctx context.Context, c *measuredLimiter, s scenario, i int) (template, error) {
	name := b.librarySubject(c, s, i)
	return c.recorder.record(name, c.keyless, func() error {
		_, err := s.check(c).take(ctx, name)
		return err
	})
}

// librarySubject returns the subject of call i through the library.
func (b *bench) librarySubject(c *measuredLimiter, s scenario, i int) string {
	if !s.allowed {
		return subject(libraryDenied, 0)
	}
	return b.subjects[i%b.librarySubjects(c)]
}

func (b *bench) freshSubject() string {
	b.fresh++
	return subject(freshSubjects, b.fresh)
}

func (b *bench) librarySubjects(c *measuredLimiter) int { return min(len(b.subjects), c.keys) }

// callOneByOne measures calls one by one through the library, each followed by a PING.
func (b *bench) callOneByOne(ctx context.Context, c *measuredLimiter, s scenario, round int) error {
	check := s.check(c)
	if check == nil {
		return nil
	}
	t := trips{limiter: c, scenario: s.name, probe: len(b.probes) - 1}
	for i := range b.pairs {
		if err := t.pair(ctx, check, b.librarySubject(c, s, round*b.pairs+i), s.allowed); err != nil {
			return err
		}
	}
	b.trips = append(b.trips, t)
	return b.probe()
}

func (t *trips) pair(ctx context.Context, check *check, subject string, want bool) error {
	begin := time.Now()
	allowed, err := check.take(ctx, subject)
	t.calls = append(t.calls, time.Since(begin))
	if err != nil {
		return err
	}
	if allowed != want {
		return fmt.Errorf("%w: allowed is %v", errVerdict, allowed)
	}
	begin = time.Now()
	err = t.limiter.ping(ctx)
	t.pings = append(t.pings, time.Since(begin))
	return err
}

// countAllocations measures the client's allocations per call, in all its goroutines.
func (b *bench) countAllocations(ctx context.Context, c *measuredLimiter) error {
	var before, after runtime.MemStats
	const calls = 1_000
	runtime.ReadMemStats(&before)
	for i := range calls {
		if _, err := c.allowed.take(ctx, b.subjects[i%b.librarySubjects(c)]); err != nil {
			return err
		}
	}
	runtime.ReadMemStats(&after)
	b.allocations[c] = float64(after.Mallocs-before.Mallocs) / calls
	return nil
}
