//go:build unix

package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"
)

// How the calibration finds what a target can do.
const (
	calibrationRate    = 1_000 // for which its keys are made
	calibrationWorkers = 32
	warmUp             = time.Second
	calibration        = 4 * time.Second
	trial              = 8 * time.Second
	trials             = 12
	slower             = 0.92 // a trial's rate to that of the one before
	atMostLate         = 5 * time.Millisecond
)

// capacity warms the target up, and returns how many calls a second it answers for as
// long as they come; 0 unless that matters. What it answers when some callers come back
// at once is more than that, since they never let a queue grow: it is only where the
// trials begin.
func (s *session) capacity(ctx context.Context) (float64, error) {
	if s.world != nil {
		p := s.scenario.population(calibrationRate, calibration)
		for i := range p.groups {
			p.groups[i].plan.Name += " calibration"
		}
		callers, _, err := s.world.populate(ctx, p)
		if err != nil {
			return 0, err
		}
		s.target.callers = callers
	}
	if _, err := s.closed(ctx, warmUp); err != nil || s.rate.percent == 0 {
		return 0, err
	}
	s.output.say("calibrating for %s", calibration)
	most, err := s.closed(ctx, calibration)
	if err != nil {
		return 0, err
	}
	return sustained(most, func(perSecond float64) (bool, error) { return s.keepsUp(ctx, perSecond) })
}

// sustained returns the highest rate, of the first and ever slower ones, that is kept up
// with.
func sustained(first float64, keepsUp func(perSecond float64) (bool, error)) (float64, error) {
	perSecond := first
	for range trials {
		ok, err := keepsUp(perSecond)
		if ok || err != nil {
			return perSecond, err
		}
		perSecond *= slower
	}
	return 0, fmt.Errorf("calls queue at %.0f a second, and at every higher rate that was tried: give "+
		"-rate as a number", perSecond/slower)
}

// closed calls as fast as the callers come back, and returns the rate.
func (s *session) closed(ctx context.Context, lasts time.Duration) (float64, error) {
	began := s.clock.Now()
	t := newTally(began, lasts, s.target.expects)
	a := s.attack(atOnce, lasts, t, s.picker())
	a.workers, a.drain = min(calibrationWorkers, s.workers), 0
	// due when somebody is there to make it
	a.schedule = func(int64) time.Duration { return min(s.clock.Now()-began, lasts) }
	a.run(ctx)
	if err := s.calibrated(ctx, t); err != nil {
		return 0, err
	}
	return float64(len(t.outcomes)) / (s.clock.Now() - began).Seconds(), nil
}

// keepsUp calls at the rate for the length of a trial, and reports whether no queue grew.
func (s *session) keepsUp(ctx context.Context, perSecond float64) (bool, error) {
	s.output.say("trying %.0f calls a second for %s", perSecond, trial)
	began := s.clock.Now()
	t := newTally(began, trial, s.target.expects)
	a := s.attack(constant(perSecond), trial, t, s.picker())
	a.drain = 0
	unsent := a.run(ctx)
	if err := s.calibrated(ctx, t); err != nil {
		return false, err
	}
	return unsent == 0 && !queued(t.outcomes, began+trial/2), nil
}

// queued reports whether most of the calls that were due from then on were sent late.
func queued(outcomes []outcome, from time.Duration) bool {
	var late []time.Duration
	for _, o := range outcomes {
		if o.intended >= from {
			late = append(late, o.sent-o.intended)
		}
	}
	slices.Sort(late)
	return len(late) == 0 || late[len(late)/2] > atMostLate
}

// calibrated notes the calls that a target got, and fails when they say nothing.
func (s *session) calibrated(ctx context.Context, t *tally) error {
	if s.world == nil {
		s.perhaps = append(s.perhaps, t.outcomes...)
	}
	if ctx.Err() != nil {
		return errors.New("stopped before the load began")
	}
	if n := t.counts[failed] + t.counts[broken]; n > len(t.outcomes)/2 {
		return fmt.Errorf("%d of %d calls of the calibration failed", n, len(t.outcomes))
	}
	return nil
}
