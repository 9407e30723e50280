package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"tidegate/local/bench/figures"
)

const (
	fillLevels    = 16      // number of levels to which subjects are filled
	maxFillBuffer = 8 << 20 // bytes of fills encoded at once
)

// minWindow is the minimum length of a window: none may end before the run does.
const minWindow = 8 * time.Minute

// windowFrom returns the length of windows, aligned to the epoch, of which one begins
// within half a second after an instant. turn is when that window begins.
func windowFrom(at time.Time) (window time.Duration, turn time.Time) {
	const tolerance = 500
	for millis := minWindow.Milliseconds(); ; millis++ {
		if wait := millis - at.UnixMilli()%millis; wait < tolerance {
			return time.Duration(millis) * time.Millisecond, at.Add(time.Duration(wait) * time.Millisecond)
		}
	}
}

// prepare fills every subject as its checks need it: one call, half full or full. It
// returns errLate if the new windows began too early.
func (b *bench) prepare(ctx context.Context) error {
	_, _ = fmt.Fprintf(b.progress, "preparing %d limiters with up to %d subjects each\n",
		len(b.limiters), b.keys)
	for _, c := range b.limiters {
		if err := b.warm(ctx, c); err != nil {
			return fmt.Errorf("%s, first call: %w", c.name, err)
		}
		if !c.windows {
			continue
		}
		if err := b.populate(ctx, c); err != nil {
			return fmt.Errorf("%s, previous window: %w", c.name, err)
		}
	}
	if time.Now().After(b.turn) {
		return errLate
	}
	select {
	case <-time.After(time.Until(b.turn)):
	case <-ctx.Done():
		return ctx.Err()
	}
	for _, c := range b.limiters {
		if err := errors.Join(b.populate(ctx, c), b.populateLibrary(ctx, c)); err != nil {
			return fmt.Errorf("%s: %w", c.name, err)
		}
	}
	return nil
}

// warm makes one call of each check, so that no later call has to load a script.
func (b *bench) warm(ctx context.Context, c *measuredLimiter) error {
	for _, check := range []*check{c.allowed, c.denied} {
		if check == nil {
			continue
		}
		if _, err := check.take(ctx, b.freshSubject()); err != nil {
			return err
		}
	}
	return nil
}

// populate fills all subjects and records the bytes of a subject, in the scenario with
// the larger subjects.
func (b *bench) populate(ctx context.Context, c *measuredLimiter) error {
	if c.keyless {
		return nil
	}
	most := 0.0
	for _, s := range scenarios {
		check := s.check(c)
		if check == nil {
			continue
		}
		before, err := figures.Memory(ctx, b.server.admin)
		if err != nil {
			return err
		}
		if err := b.fill(ctx, c, check, s.purpose); err != nil {
			return err
		}
		after, err := figures.Memory(ctx, b.server.admin)
		if err != nil {
			return err
		}
		most = max(most, float64(after-before)/float64(c.keys))
	}
	b.bytes[c] += most
	return nil
}

// fill fills each subject to its level with raw commands.
func (b *bench) fill(ctx context.Context, c *measuredLimiter, check *check, purpose byte) error {
	if err := b.pipes.choose(c.database); err != nil {
		return err
	}
	levels, err := b.recordFills(ctx, c, check)
	if err != nil {
		return err
	}
	b.load.reset()
	for i := range c.keys {
		b.load.add(levels[i%len(levels)], subject(purpose, i))
		if len(b.load.bytes) < maxFillBuffer && i < c.keys-1 {
			continue
		}
		if _, err := b.pipes.send(&b.load, nil); err != nil {
			return err
		}
		b.load.reset()
	}
	return nil
}

// recordFills records the commands that fill a subject to each level.
func (b *bench) recordFills(ctx context.Context, c *measuredLimiter, check *check) ([]template, error) {
	levels := fillLevels
	if check.from == check.to {
		levels = 1
	}
	templates := make([]template, levels)
	for i := range templates {
		name := b.freshSubject()
		var err error
		if templates[i], err = c.recorder.record(name, c.keyless, func() error {
			return check.fillOnce(ctx, name, i)
		}); err != nil {
			return nil, err
		}
	}
	return templates, nil
}

// populateLibrary fills the subjects of the calls through the library.
func (b *bench) populateLibrary(ctx context.Context, c *measuredLimiter) error {
	for i := range b.librarySubjects(c) {
		if err := c.allowed.fillOnce(ctx, b.subjects[i], i%fillLevels); err != nil {
			return err
		}
	}
	if c.denied == nil {
		return nil
	}
	return c.denied.fillOnce(ctx, subject(libraryDenied, 0), 0)
}
