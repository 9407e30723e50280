//go:build unix

// Command load calls a gateway at a rate that does not depend on its answers. It measures
// latency from the time at which each call was due, and checks by the answers that no
// rolling window admitted more than its limit. ./scripts/load builds the programs that it
// needs and passes on its flags.
//
// The scheduler is our own. The library vegeta does not fit: it measures latency from the
// time at which a worker sends a call, so its bounded workers hide a stalled target; and
// its pacers cannot make bursts at given instants.
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"os"
	"os/signal"
	"regexp"
	"strconv"
	"syscall"
	"time"

	"tidegate/internal/limiter"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	context.AfterFunc(ctx, stop) // a second signal ends the program at once
	os.Exit(run(ctx, os.Args[1:], os.Stdout, os.Stderr))
}

// run returns the exit status. The gateway also writes to errOut.
func run(ctx context.Context, args []string, out, errOut io.Writer) int {
	o, err := parseOptions(args)
	if err != nil {
		_, _ = fmt.Fprintf(errOut, "load: %v (-h shows all flags)\n", err)
		return 2
	}
	r, err := measure(ctx, o, errOut)
	if err == nil {
		err = r.write(o, out)
	}
	if err != nil {
		_, _ = fmt.Fprintf(errOut, "load: %v\n", err)
		return 1
	}
	if !r.good() {
		return 1
	}
	return 0
}

// session is one load from its start to its result.
type session struct {
	options
	clock   clock
	local   *localGateway // nil with -target
	target  *target
	earlier []outcome // calls of probe, which count in the windows of the load's keys
	output  progress
}

func measure(ctx context.Context, o options, errOut io.Writer) (*result, error) {
	s := &session{options: o, clock: clock{time.Now()}, output: progress{errOut}}
	if err := s.open(ctx, errOut); err != nil {
		return nil, err
	}
	defer s.close()
	return s.load(ctx)
}

func (s *session) open(ctx context.Context, errOut io.Writer) error {
	address := s.options.target
	if address == "" {
		s.output.log("starting a gateway")
		var err error
		if s.local, err = startLocalGateway(ctx, s.options, errOut); err != nil {
			return err
		}
		address = map[string]string{"rest": s.local.api.REST, "http": s.local.api.HTTP}[s.api] + "/orders"
	}
	s.target = newTarget(address, s.api == "http", s.workers, s.timeout)
	if s.local == nil {
		return s.probe(ctx)
	}
	return nil
}

func (s *session) close() {
	s.target.close()
	if s.local != nil {
		s.local.Close()
	}
}

// probe makes one call to the target with each key. It reads the limits from the answers,
// unless -limit has them.
func (s *session) probe(ctx context.Context) error {
	for i, key := range s.keys {
		c := caller{name: fmt.Sprintf("key %d", i+1), credential: key, plan: "-key", limits: s.limits}
		sent := s.clock.now()
		a, err := s.target.get(ctx, key)
		if err != nil {
			return err
		}
		k := s.target.read(a)
		if k != admitted && k != denied {
			return fmt.Errorf("the target answers %d to key %d: the key must be valid, and its calls "+
				"allowed or over a limit", a.status, i+1)
		}
		if len(c.limits) == 0 {
			c.limits = policiesIn(a.header)
		}
		s.target.callers = append(s.target.callers, c)
		s.earlier = append(s.earlier, outcome{caller: int32(i), kind: k, sent: sent, received: s.clock.now()})
	}
	return nil
}

var policyItem = regexp.MustCompile(`;q=(\d+);w=(\d+)`)

// policiesIn returns the valid limits in a RateLimit-Policy field.
func policiesIn(h http.Header) []limiter.Limit {
	var limits []limiter.Limit
	for _, item := range policyItem.FindAllStringSubmatch(h.Get("RateLimit-Policy"), -1) {
		requests, _ := strconv.ParseInt(item[1], 10, 64) // digits; ValidateAll refuses a value out of range
		seconds, _ := strconv.ParseInt(item[2], 10, 64)
		l := per(requests, time.Duration(seconds)*time.Second)
		if limiter.ValidateAll([]limiter.Limit{l}) == nil {
			limits = append(limits, l)
		}
	}
	return limits
}

// picker returns a function that returns the caller of call n, by its index.
func (s *session) picker() func(int64) int {
	random := rand.New(rand.NewPCG(s.seed, 0)) //nolint:gosec // must be the same for the same seed
	return s.scenario.population(s.rate, s.duration).pick(len(s.target.callers), random)
}

func (s *session) attack(when schedule, t *tally) *attack {
	pick := s.picker()
	return &attack{
		clock: s.clock, schedule: when, duration: s.duration, drain: s.timeout, workers: s.workers,
		call: func(ctx context.Context, n int64) outcome { return s.target.call(ctx, pick(n)) },
		done: t.add,
	}
}

// load makes the calls and returns the result.
func (s *session) load(ctx context.Context) (*result, error) {
	p := s.scenario.population(s.rate, s.duration)
	if s.local != nil {
		s.output.log("creating keys")
		var err error
		if s.target.callers, err = s.local.populate(ctx, p); err != nil {
			return nil, err
		}
	}
	limits := limitsOf(s.target.callers)
	if len(limits) == 0 && s.scenario.name == "boundary" {
		return nil, errors.New("the answers do not have the limits of the keys: set -limit")
	}
	when := p.schedule(s.rate, time.Now(), limits)
	t := newTally(s.clock.now(), s.target.expects)
	unsent := s.run(ctx, s.attack(when, t), t)
	r := newResult(s, t)
	r.Unsent, r.Interrupted = unsent, ctx.Err() != nil
	return r, nil
}

// run makes the calls and shows the progress. It returns the number of calls never sent.
func (s *session) run(ctx context.Context, a *attack, t *tally) int64 {
	meanwhile, stop := context.WithCancel(ctx)
	shown := make(chan struct{})
	go func() {
		defer close(shown)
		s.output.follow(meanwhile, s.scenario.name, s.duration, s.clock, t)
	}()
	unsent := a.run(ctx)
	stop()
	<-shown
	return unsent
}
