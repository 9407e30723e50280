package changes

import (
	"context"
	"maps"
	"slices"
	"strings"
	"time"

	"tidegate/internal/objects"
)

// fakeStore is a store of objects that goes away, and answers late, twice, or never.
type fakeStore struct {
	w        *world
	objects  map[string][]byte
	modified map[string]time.Time
	away     int // steps
	late     []func()
	read     map[string]int // how often objects were read; nil to count nothing
	lists    int
	fail     func() bool // no answer while it returns true; nil for never
}

// dumb reports whether nothing answers.
func (s *fakeStore) dumb() bool { return s.away > 0 || s.fail != nil && s.fail() }

func (s *fakeStore) land(name string, content []byte) bool {
	if _, taken := s.objects[name]; taken {
		return false
	}
	s.objects[name], s.modified[name] = slices.Clone(content), s.w.clock()
	s.w.landed(name)
	return true
}

func (s *fakeStore) roll() float64 {
	if s.w.quiet {
		return .9
	}
	return s.w.rnd.Float64()
}

func (s *fakeStore) Create(ctx context.Context, name string, content []byte) error {
	s.w.yield(ctx)
	if s.away > 0 {
		return errAway
	}
	if deadline, ok := ctx.Deadline(); ok && s.w.clock().After(deadline) { // as package objects does
		return context.DeadlineExceeded
	}
	if s.w.frozen(ctx) {
		s.w.fault("a PUT by a request that began more than 25 s ago")
	}
	x := s.roll()
	if x < .06 { // late
		s.late = append(s.late, func() { s.land(name, content) })
		return errAway
	}
	won := s.land(name, content)
	if x < .09 { // twice
		s.late = append(s.late, func() { s.land(name, content) })
	}
	if x > .97 { // the SDK tried again after a lost answer
		won = false
	}
	switch {
	case x < .12 || s.dumb(): // unanswered, or refused with 409
		return errAway
	case !won:
		return objects.ErrExists
	}
	return nil
}

func (s *fakeStore) Replace(ctx context.Context, name string, content []byte, keep func([]byte) bool) error {
	s.w.yield(ctx)
	if s.away > 0 || s.roll() < .01 {
		return errAway
	}
	if stored, found := s.objects[name]; !found || !keep(stored) {
		s.objects[name] = slices.Clone(content)
	}
	if s.roll() < .02 {
		return errAway
	}
	return nil
}

func (s *fakeStore) Read(ctx context.Context, name string) ([]byte, error) {
	s.w.yield(ctx)
	if s.dumb() || s.roll() < .001 {
		return nil, errAway
	}
	if s.read != nil {
		s.read[name]++
	}
	if content, found := s.objects[name]; found {
		return slices.Clone(content), nil
	}
	return nil, objects.ErrNotFound
}

func (s *fakeStore) List(ctx context.Context, prefix, after string) ([]objects.Object, error) {
	s.w.yield(ctx)
	if s.dumb() || s.roll() < .001 {
		return nil, errAway
	}
	s.lists++
	var found []objects.Object
	for _, name := range slices.Sorted(maps.Keys(s.objects)) {
		if strings.HasPrefix(name, prefix) && name > after {
			size := int64(len(s.objects[name]))
			found = append(found, objects.Object{Name: name, Size: size, Modified: s.modified[name]})
		}
	}
	return found, nil
}
