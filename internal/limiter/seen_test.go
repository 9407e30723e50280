package limiter

import (
	"testing"
	"time"

	"github.com/valkey-io/valkey-go"

	"tidegate/internal/testing/valkeytest"
)

// seen plays a history on the model and on the script.
type seen struct {
	t      *testing.T
	client valkey.Client
	script *valkey.Lua
	model  Model
	now    time.Time
}

// step makes a call, or a look with a cost of 0, on the model and the script.
func (s *seen) step(limits, counted []Limit, cost int64) Decision {
	s.t.Helper()
	d := s.model.Step(Step{Now: s.now, Limits: limits, Counted: counted, Cost: cost})
	var programs [2]string
	for i, list := range [][]Limit{limits, counted} {
		if len(list) == 0 {
			continue
		}
		program, err := Compile(list, s.now)
		if err != nil {
			s.t.Fatal(err)
		}
		programs[i] = string(program)
	}
	reply, err := s.script.Exec(s.t.Context(), s.client, []string{s.t.Name()},
		[]string{programs[0], number(cost), "0", "0", programs[1], number(s.now.UnixMicro())}).ToString()
	if err != nil {
		s.t.Fatal(err)
	}
	got, err := ParseReply([]byte(reply), limits)
	if err != nil || got.Allowed != d.Allowed {
		s.t.Fatalf("script: got %+v, %v; model: %+v", got, err, d)
	}
	for i, u := range got.Limits {
		if u.Remaining != d.Limits[i].Remaining {
			s.t.Fatalf("script: got %+v, model: %+v", u, d.Limits[i])
		}
	}
	return d
}

// calls makes calls of cost 1. It returns how many were allowed.
func (s *seen) calls(n int, limits, counted []Limit) (allowed int) {
	s.t.Helper()
	for range n {
		if s.step(limits, counted, 1).Allowed {
			allowed++
		}
	}
	return allowed
}

// left checks what remains of a limit.
func (s *seen) left(limits []Limit, i int, want int64) {
	s.t.Helper()
	if got := s.step(limits, nil, 0).Limits[i].Remaining; got != want {
		s.t.Errorf("got %d left of %v, want %d", got, limits[i], want)
	}
}

// What was counted is not forgotten when the limits change.
func TestWhatWasSeen(t *testing.T) {
	client, script := connect(t, valkeytest.Start(t)), clockedScript(t)
	run := func(name string, play func(s *seen)) {
		t.Run(name, func(t *testing.T) {
			play(&seen{t: t, client: client, script: script, now: time.Unix(1_800_000_000, 0)})
		})
	}
	run("an override does not wipe the plan's quota", func(s *seen) {
		plan := []Limit{{Requests: 1000, Window: 24 * time.Hour}}
		s.calls(300, plan, nil)
		s.now = s.now.Add(11 * time.Second)
		s.calls(1, []Limit{{Requests: 5, Window: 10 * time.Second}}, plan)
		s.left(plan, 0, 699)
		s.calls(1, plan, nil)
		s.left(plan, 0, 698)
	})
	gold := []Limit{{Requests: 100, Window: time.Hour}}
	silver := []Limit{{Requests: 5, Window: 2 * time.Second}}
	run("two tokens do not lift a long limit", func(s *seen) {
		admitted := 0
		for range 4 {
			admitted += s.calls(100, gold, nil)
			s.now = s.now.Add(2 * time.Second)
			s.calls(1, silver, nil)
		}
		if admitted != 100 {
			s.t.Errorf("got %d calls admitted by gold, want 100", admitted)
		}
	})
	run("a look resets no counts", func(s *seen) {
		s.calls(100, gold, nil)
		s.now = s.now.Add(3 * time.Second)
		s.step(silver, nil, 0)
		s.left(gold, 0, 0)
	})
	limit := func(edit func(l *Limit)) Limit {
		l := Limit{Requests: 100, Window: time.Hour}
		edit(&l)
		return l
	}
	fixed := limit(func(l *Limit) { l.Algorithm = FixedWindow })
	day := Limit{Requests: 100, Algorithm: FixedWindow, Calendar: Day}
	bucket := limit(func(l *Limit) { l.Algorithm = TokenBucket })
	counter := limit(func(l *Limit) { l.Algorithm = Counter })
	for _, edit := range []struct {
		name     string
		from, to Limit
	}{
		{"countDenied off", limit(func(l *Limit) { l.CountDenied = true }), gold[0]},
		{"fixed to log", fixed, gold[0]},
		{"fixed to counter", fixed, counter},
		{"fixed hour to day", fixed, Limit{Requests: 100, Window: 24 * time.Hour, Algorithm: FixedWindow}},
		{"fixed to calendar day", fixed, day},
		{"calendar day to month", day, Limit{Requests: 100, Algorithm: FixedWindow, Calendar: Month}},
		{"counter to log", counter, gold[0]},
		{"bucket to log", bucket, gold[0]},
		{"bucket 1 h to 2 h", bucket, Limit{Requests: 100, Window: 2 * time.Hour, Algorithm: TokenBucket}},
	} {
		run("an edit forgets nothing: "+edit.name, func(s *seen) {
			burst := Limit{Requests: 50, Window: 2 * time.Second}
			before, after := []Limit{burst, edit.from}, []Limit{burst, edit.to}
			s.calls(50, before, nil)
			s.now = s.now.Add(2 * time.Second)
			s.calls(2, before, nil)
			s.left(after, 1, 48)
			s.left(after, 0, 48)
			s.now = s.now.Add(2 * time.Second)
			s.left(after, 1, 48)
			s.left(after, 0, 50)
		})
	}
}
