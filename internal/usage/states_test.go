package usage

import (
	"slices"
	"testing"
	"time"

	"github.com/valkey-io/valkey-go"

	"tidegate/internal/cause"
	"tidegate/internal/store/keyspace"
	"tidegate/internal/usage/denylog"
	"tidegate/internal/usage/statelist"
)

// listAll reads a whole list, count subjects at a time.
func listAll(t *testing.T, r *Reader, list statelist.List, now time.Time, count int) []string {
	t.Helper()
	var all []string
	for after := ""; ; {
		ids, more, err := r.InState(t.Context(), list, after, now, count)
		if err != nil || len(ids) > count || more && len(ids) == 0 {
			t.Fatalf("got %d ids of at most %d, more %t, %v", len(ids), count, more, err)
		}
		if all = append(all, ids...); !more {
			return all
		}
		after = ids[len(ids)-1]
	}
}

// A list has each subject that is denied now once, with pages of any size. Unregistered
// subjects, and those that may call within a second, are in no list.
func TestDeniedLists(t *testing.T) {
	onEveryServer(t, func(t *testing.T, client valkey.Client) {
		now, reader := time.Now(), NewReader(client)
		r := recorderAt(now)
		want := map[statelist.List][]string{}
		for i := range 140 {
			o := Outcome{Subject: id(i), Registered: i%7 != 0, Verdict: Denied, Time: now,
				Denial:      &denylog.Denial{Cause: cause.Limit},
				DeniedUntil: now.Add(time.Duration(i%5) * time.Minute)}
			list := statelist.OverLimit
			if i%3 == 0 {
				o.Denial.Cause, list = cause.Ban, statelist.Banned
			}
			r.Record(o)
			if i%7 != 0 && i%5 > 0 {
				want[list] = append(want[list], id(i))
			}
		}
		r.Record(Outcome{Subject: "nearly", Registered: true, Time: now,
			DeniedUntil: now.Add(900 * time.Millisecond)})
		r.Record(Outcome{Subject: "full", Registered: true, Time: now, DeniedUntil: now.Add(time.Minute)})
		want[statelist.OverLimit] = append(want[statelist.OverLimit], "full")
		flush(t, r, client)
		if len(r.pending.states) > 0 {
			t.Errorf("got %d pending states after a flush, want none", len(r.pending.states))
		}
		for list, ids := range want {
			for _, count := range []int{7, 50, 1000} {
				got := listAll(t, reader, list, now, count)
				if len(slices.Compact(slices.Sorted(slices.Values(got)))) != len(got) {
					t.Errorf("list %d: got an id twice", list)
				}
				slices.Sort(got)
				slices.Sort(ids)
				if !slices.Equal(got, ids) {
					t.Errorf("list %d, %d at a time: got %d ids, want %d", list, count, len(got), len(ids))
				}
			}
		}
		later := listAll(t, reader, statelist.OverLimit, now.Add(150*time.Second), 100)
		if n := len(later); n == 0 || n >= len(want[statelist.OverLimit]) {
			t.Errorf("after 150 s: got %d subjects, want some of %d", n, len(want[statelist.OverLimit]))
		}
	})
}

// A list keeps the 2,048 subjects that are denied longest, and expires.
func TestDeniedListsAreBounded(t *testing.T) {
	onEveryServer(t, func(t *testing.T, client valkey.Client) {
		now := time.Now()
		r := recorderAt(now)
		b, n := keyspace.BucketOf(id(0)), 0
		for i := 0; n < 2200; i++ {
			if keyspace.BucketOf(id(i)) != b {
				continue
			}
			r.Record(Outcome{Subject: id(i), Registered: true, Time: now,
				DeniedUntil: now.Add(time.Minute + time.Duration(n)*time.Second)})
			if n++; n%500 == 0 {
				flush(t, r, client)
			}
		}
		flush(t, r, client)
		name := statelist.Name(b, statelist.OverLimit)
		got, err := client.Do(t.Context(), client.B().Zrange().Key(name).Min("0").Max("-1").Withscores().
			Build()).AsZScores()
		if err != nil || len(got) != 2048 {
			t.Fatalf("got %d members, %v; want 2048", len(got), err)
		}
		if least := int64(got[0].Score); least != now.Add(time.Minute+152*time.Second).UnixMilli() {
			t.Errorf("got %d ms until the first end, want 212,000", least-now.UnixMilli())
		}
		ttl, err := client.Do(t.Context(), client.B().Ttl().Key(name).Build()).AsInt64()
		if err != nil || ttl < 2250 || ttl > 2265 {
			t.Errorf("got a time to live of %d s, %v; want 2250 to 2265", ttl, err)
		}
	})
}

// A state that the server did not execute is sent with the next flush, unless a newer one
// is pending.
func TestDeniedListsAfterScriptLoss(t *testing.T) {
	onEveryServer(t, func(t *testing.T, client valkey.Client) {
		now := time.Now()
		r := recorderAt(now)
		o := Outcome{Subject: "acme", Registered: true, Time: now, DeniedUntil: now.Add(time.Minute)}
		r.Record(o)
		first := r.Drain(now) // no server has the script
		results := client.DoMulti(t.Context(), first.Commands(client)...)
		o.DeniedUntil = now.Add(time.Hour)
		r.Record(o)
		first.Acknowledge(results)
		flush(t, r, client)
		got := listAll(t, NewReader(client), statelist.OverLimit, now.Add(30*time.Minute), 10)
		if !slices.Equal(got, []string{"acme"}) {
			t.Errorf("got %v, want acme until its later time", got)
		}
	})
}

// Subjects near a limit are listed for longer than necessary, so that few calls list them
// again. An entry that Valkey lost is added again after nearTrust.
func TestNearLimitIsListedSeldom(t *testing.T) {
	onEveryServer(t, func(t *testing.T, client valkey.Client) {
		now, reader := time.Now(), NewReader(client)
		c := &clock{now: now}
		r := NewRecorder(Options{Newcomers: newcomers}, c.Now)
		call := func(at time.Duration, subject string, registered bool, reset time.Duration) bool {
			c.set(now.Add(at))
			r.Record(Outcome{Subject: subject, Registered: registered, Time: c.Now(),
				NearUntil: c.Now().Add(reset)})
			lists := len(r.pending.states) > 0
			flush(t, r, client)
			return lists
		}
		near := func(at time.Duration) []string {
			return listAll(t, reader, statelist.NearLimit, now.Add(at), 10)
		}
		call(0, "short", true, 10*time.Second)
		call(0, "long", true, time.Hour)
		call(0, "anybody", false, time.Hour)
		for _, s := range []struct {
			at, reset time.Duration
			subject   string
			lists     bool
		}{
			{9 * time.Second, 10 * time.Second, "short", false},
			{40 * time.Second, 10 * time.Second, "long", false},
			{59 * time.Second, 10 * time.Second, "short", false},
			{61 * time.Second, 10 * time.Second, "short", true},
			{9 * time.Minute, time.Hour, "long", false},
		} {
			if got := call(s.at, s.subject, true, s.reset); got != s.lists {
				t.Errorf("%s after %s: got listed %t, want %t", s.subject, s.at, got, s.lists)
			}
		}
		if got := near(62 * time.Second); !slices.Equal(slices.Sorted(slices.Values(got)),
			[]string{"long", "short"}) {
			t.Errorf("near a limit: got %v, want long and short", got)
		}
		if got := near(70 * time.Minute); !slices.Equal(got, []string{"long"}) {
			t.Errorf("an hour later: got %v, want long", got)
		}
		list := statelist.Name(keyspace.BucketOf("long"), statelist.NearLimit)
		client.Do(t.Context(), client.B().Del().Key(list).Build())
		call(11*time.Minute, "other", true, time.Second)
		call(11*time.Minute+time.Second, "long", true, time.Minute)
		if got := near(12 * time.Minute); !slices.Contains(got, "long") {
			t.Errorf("after Valkey lost the list: got %v, want long", got)
		}
	})
}

// A flood of subjects near their limits leaves room for denied subjects.
func TestNearLimitLeavesRoom(t *testing.T) {
	now := time.Now()
	r := recorderAt(now)
	for i := range MaxSubjects {
		r.Record(Outcome{Subject: id(i), Registered: true, Time: now, NearUntil: now.Add(time.Hour)})
	}
	r.Record(Outcome{Subject: "denied", Registered: true, Time: now, DeniedUntil: now.Add(time.Hour)})
	if n := len(r.pending.states); n != maxNearWaiting+1 {
		t.Errorf("got %d pending states, want %d", n, maxNearWaiting+1)
	}
}
