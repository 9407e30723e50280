//go:build unix

package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"
)

// The parameters of the calibration, which finds the rate that a target sustains.
const (
	calibrationRate    = 1_000 // calls a second for which keys are created
	calibrationWorkers = 32
	warmUp             = time.Second
	calibration        = 4 * time.Second
	measurement        = 8 * time.Second
	measurements       = 12
	slower             = 0.92 // rate of a measurement relative to the one before
	maxLateness        = 5 * time.Millisecond
)

// capacity warms up the target. It returns the highest rate that the target sustains, in
// calls a second, or 0 if -rate is not in percent. The measurements begin at the rate of
// a closed loop, which is higher, since no queue can grow in a closed loop.
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
	closedRate, err := s.closed(ctx, calibration)
	if err != nil {
		return 0, err
	}
	return sustained(closedRate, func(perSecond float64) (bool, error) { return s.keepsUp(ctx, perSecond) })
}

// sustained tries decreasing rates, beginning with first. It returns the first rate that
// the target keeps up with.
func sustained(first float64, keepsUp func(perSecond float64) (bool, error)) (float64, error) {
	perSecond := first
	for range measurements {
		ok, err := keepsUp(perSecond)
		if ok || err != nil {
			return perSecond, err
		}
		perSecond *= slower
	}
	return 0, fmt.Errorf("calibration: the target does not keep up with %.0f calls a second: set -rate "+
		"to a number", perSecond/slower)
}

// closed runs a closed loop: each worker calls again as soon as it has its answer. It
// returns the rate in calls a second.
func (s *session) closed(ctx context.Context, duration time.Duration) (float64, error) {
	began := s.clock.Now()
	t := newTally(began, duration, s.target.expects)
	// a call is due as soon as a worker is free
	whenFree := func(int64) time.Duration { return min(s.clock.Now()-began, duration) }
	a := s.attack(whenFree, duration, t, s.picker())
	a.workers, a.drain = min(calibrationWorkers, s.workers), 0
	a.run(ctx)
	if err := s.endCalibration(ctx, t); err != nil {
		return 0, err
	}
	return float64(len(t.outcomes)) / (s.clock.Now() - began).Seconds(), nil
}

// keepsUp makes calls at a rate for one measurement. It reports whether no queue grew.
func (s *session) keepsUp(ctx context.Context, perSecond float64) (bool, error) {
	s.output.log("trying %.0f calls a second for %s", perSecond, measurement)
	began := s.clock.Now()
	t := newTally(began, measurement, s.target.expects)
	a := s.attack(constant(perSecond), measurement, t, s.picker())
	a.drain = 0
	unsent := a.run(ctx)
	if err := s.endCalibration(ctx, t); err != nil {
		return false, err
	}
	return unsent == 0 && !queued(t.outcomes, began+measurement/2), nil
}

// queued reports whether most of the calls that were due after from were sent late, or no
// call was due.
func queued(outcomes []outcome, from time.Duration) bool {
	var lateness []time.Duration
	for _, o := range outcomes {
		if o.intended >= from {
			lateness = append(lateness, o.sent-o.intended)
		}
	}
	slices.Sort(lateness)
	return len(lateness) == 0 || lateness[len(lateness)/2] > maxLateness
}

// endCalibration keeps the calls to a target for the proof, since they have the load's
// keys. It returns an error if the program was stopped or most of the calls failed.
func (s *session) endCalibration(ctx context.Context, t *tally) error {
	if s.local == nil {
		s.earlier = append(s.earlier, t.outcomes...)
	}
	if ctx.Err() != nil {
		return errors.New("stopped before the load began")
	}
	if n := t.counts[failed] + t.counts[broken]; n > len(t.outcomes)/2 {
		return fmt.Errorf("calibration: %d of %d calls failed", n, len(t.outcomes))
	}
	return nil
}
