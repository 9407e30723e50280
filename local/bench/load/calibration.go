//go:build unix

package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"
)

// How the calibration finds the rate that a target sustains.
const (
	calibrationRate    = 1_000 // calls a second for which its keys are made
	calibrationWorkers = 32
	warmUp             = time.Second
	calibration        = 4 * time.Second
	measurement        = 8 * time.Second
	measurements       = 12
	slower             = 0.92 // rate of a measurement, divided by that of the one before
	maxLateness        = 5 * time.Millisecond
)

// capacity warms the target up, and returns the highest rate in calls a second that it
// sustains; 0 if the load's rate does not depend on it. A closed loop reaches a higher
// rate, since it lets no queue grow. The measurements begin at that rate.
func (s *session) capacity(ctx context.Context) (float64, error) {
	if s.local != nil {
		p := s.scenario.population(calibrationRate, calibration)
		for i := range p.groups {
			p.groups[i].plan.Name += " calibration"
		}
		callers, _, err := s.local.populate(ctx, p)
		if err != nil {
			return 0, err
		}
		s.target.callers = callers
	}
	if _, err := s.closed(ctx, warmUp); err != nil || s.rate.percent == 0 {
		return 0, err
	}
	s.output.log("calibrating for %s", calibration)
	most, err := s.closed(ctx, calibration)
	if err != nil {
		return 0, err
	}
	return sustained(most, func(perSecond float64) (bool, error) { return s.keepsUp(ctx, perSecond) })
}

// sustained tries ever slower rates from first on, and returns the first one that the
// target keeps up with.
func sustained(first float64, keepsUp func(perSecond float64) (bool, error)) (float64, error) {
	perSecond := first
	for range measurements {
		ok, err := keepsUp(perSecond)
		if ok || err != nil {
			return perSecond, err
		}
		perSecond *= slower
	}
	return 0, fmt.Errorf("calls queue at %.0f a second, and at every higher rate that was tried: give "+
		"-rate as a number", perSecond/slower)
}

// closed runs a closed loop: each worker calls again as soon as it has its answer. It
// returns the rate in calls a second.
func (s *session) closed(ctx context.Context, lasts time.Duration) (float64, error) {
	began := s.clock.Now()
	t := newTally(began, lasts, s.target.expects)
	// a call is due when a worker is free to make it
	whenFree := func(int64) time.Duration { return min(s.clock.Now()-began, lasts) }
	a := s.attack(whenFree, lasts, t, s.picker())
	a.workers, a.drain = min(calibrationWorkers, s.workers), 0
	a.run(ctx)
	if err := s.calibrated(ctx, t); err != nil {
		return 0, err
	}
	return float64(len(t.outcomes)) / (s.clock.Now() - began).Seconds(), nil
}

// keepsUp calls at the rate for the length of a measurement, and reports whether no queue
// grew.
func (s *session) keepsUp(ctx context.Context, perSecond float64) (bool, error) {
	s.output.log("trying %.0f calls a second for %s", perSecond, measurement)
	began := s.clock.Now()
	t := newTally(began, measurement, s.target.expects)
	a := s.attack(constant(perSecond), measurement, t, s.picker())
	a.drain = 0
	unsent := a.run(ctx)
	if err := s.calibrated(ctx, t); err != nil {
		return false, err
	}
	return unsent == 0 && !queued(t.outcomes, began+measurement/2), nil
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
	return len(late) == 0 || late[len(late)/2] > maxLateness
}

// calibrated adds the calls to those that the proof counts. It returns an error if the
// load was stopped or most of the calls failed.
func (s *session) calibrated(ctx context.Context, t *tally) error {
	if s.local == nil {
		s.earlier = append(s.earlier, t.outcomes...)
	}
	if ctx.Err() != nil {
		return errors.New("stopped before the load began")
	}
	if n := t.counts[failed] + t.counts[broken]; n > len(t.outcomes)/2 {
		return fmt.Errorf("%d of %d calls of the calibration failed", n, len(t.outcomes))
	}
	return nil
}
