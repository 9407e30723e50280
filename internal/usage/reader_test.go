package usage

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/valkey-io/valkey-go"
	"pgregory.net/rapid"

	"tidegate/internal/store/keyspace"
	"tidegate/internal/testing/valkeytest"
)

// Pages of any size list every seen subject exactly once, latest first, also when many
// share a minute or a bucket.
func TestActiveListsEverySubjectOnce(t *testing.T) {
	onEveryServer(t, func(t *testing.T, client valkey.Client) {
		random := rand.New(rand.NewPCG(1, 2))
		r, want := recorderAt(noon), map[string]time.Time{}
		for i := range 200 {
			at := noon.Add(time.Duration(random.IntN(3)) * time.Minute)
			subject := id(i)
			if i%2 == 0 {
				subject = inBucket(7, i)
			}
			want[subject] = at
			r.Record(Outcome{Subject: subject, Registered: true, Time: at})
			// a call recorded later with an earlier time does not move the subject back
			r.Record(Outcome{Subject: subject, Registered: true, Time: noon.Add(-time.Hour)})
		}
		flush(t, r, client)
		read := NewReader(client)
		for _, size := range []int{13, 50, 199, 200, 500} {
			checkPages(t, read, size, want)
		}
		for since, n := range map[time.Duration]int{0: 200, time.Minute: seenSince(want, time.Minute),
			3 * time.Minute: 0} {
			got, err := read.ActiveCount(t.Context(), noon.Add(since), noon)
			if err != nil || got != int64(n) {
				t.Errorf("active since noon+%s: got %d, %v; want %d", since, got, err, n)
			}
		}
		day, n := noon.Add(24*time.Hour), seenSince(want, time.Minute)
		if got, err := read.ActiveCount(t.Context(), noon, day); err != nil || got != int64(n) {
			t.Errorf("active within 24 hours: got %d, %v; want %d", got, err, n)
		}
	})
}

// inBucket returns the i-th id of a bucket.
func inBucket(b keyspace.Bucket, i int) string {
	for n := 0; ; n++ {
		if s := fmt.Sprintf("b%d-%d", i, n); keyspace.BucketOf(s) == b {
			return s
		}
	}
}

func seenSince(seen map[string]time.Time, since time.Duration) int {
	n := 0
	for _, at := range seen {
		if !at.Before(noon.Add(since)) {
			n++
		}
	}
	return n
}

func checkPages(t *testing.T, read *Reader, size int, want map[string]time.Time) {
	t.Helper()
	got := map[string]time.Time{}
	last, cursor := noon.Add(time.Hour), ""
	for {
		page, err := read.Active(t.Context(), cursor, size)
		if err != nil {
			t.Fatal(err)
		}
		for _, s := range page.Subjects {
			if _, twice := got[s.ID]; twice || s.Last.After(last) || !s.Last.Equal(want[s.ID]) {
				t.Fatalf("pages of %d: got %+v after %s, repeated %t; want %s", size, s, last, twice,
					want[s.ID])
			}
			got[s.ID], last = s.Last, s.Last
		}
		if cursor = page.Next; cursor == "" {
			break
		}
		if len(page.Subjects) != size {
			t.Fatalf("got %d subjects on a page that is not the last, want %d", len(page.Subjects), size)
		}
	}
	if len(got) != len(want) {
		t.Errorf("pages of %d: got %d subjects, want %d", size, len(got), len(want))
	}
}

func TestBadCursors(t *testing.T) {
	read := NewReader(connect(t, valkeytest.Embedded(t)))
	for _, cursor := range []string{"%", "YQ", "MTI6", "LTE6YQ", "OTk5OTk5OTk5OTk5OTk5OTk5OTk6YQ"} {
		if page, err := read.Active(t.Context(), cursor, 10); err == nil {
			t.Errorf("cursor %s: got %+v, want an error", cursor, page)
		}
	}
	page, err := read.Active(t.Context(), "", 10)
	if err != nil || len(page.Subjects) != 0 || page.Next != "" {
		t.Errorf("without calls: got %+v, %v; want an empty page", page, err)
	}
}

// Rank is exact within an hour, and over a day if a subject ranks high
// in the day too.
func TestRank(t *testing.T) {
	onEveryServer(t, func(t *testing.T, client valkey.Client) {
		random := rand.New(rand.NewPCG(3, 4))
		r := recorderAt(noon)
		hour, day := map[string]int64{}, map[string]int64{}
		denied := map[string]int64{}
		for i := range 150 {
			subject := inBucket(keyspace.Bucket(i%2), i)
			for h := range 2 {
				for range random.IntN(40) {
					o := Outcome{Subject: subject, Registered: true,
						Time: noon.Add(time.Duration(-8*h) * time.Hour)}
					if random.IntN(4) == 0 {
						o.Verdict = Denied
						denied[subject]++
					}
					if day[subject]++; h == 0 {
						hour[subject]++
					}
					r.Record(o)
				}
			}
			if i%50 == 49 {
				flush(t, r, client)
			}
		}
		read, to := NewReader(client), noon.Add(time.Hour)
		got, err := read.Rank(t.Context(), noon, to, time.Minute, 10, Busiest)
		checkTalkers(t, "hour", got[Busiest], err, hour, Counts.Calls)
		got, err = read.Rank(t.Context(), to.Add(-24*time.Hour), to, time.Hour, 10, Busiest, MostDenied)
		checkTalkers(t, "day", got[Busiest], err, day, Counts.Calls)
		checkTalkers(t, "denied", got[MostDenied], err, denied, func(c Counts) int64 { return c.Denied })
		got, err = read.Rank(t.Context(), to, to.Add(time.Hour), time.Minute, 10, Busiest, MostDenied)
		if err != nil || len(got[Busiest])+len(got[MostDenied]) != 0 {
			t.Errorf("an hour without calls: got %+v, %v; want none", got, err)
		}
	})
}

func checkTalkers(t *testing.T, what string, got []Talker, err error, want map[string]int64,
	by func(Counts) int64) {
	t.Helper()
	var most []int64
	for _, n := range want {
		most = append(most, n)
	}
	slices.Sort(most)
	slices.Reverse(most)
	if err != nil || len(got) != 10 {
		t.Fatalf("%s: got %d talkers, %v; want 10", what, len(got), err)
	}
	for i, talker := range got {
		if n := by(talker.Counts); n != want[talker.ID] || n != most[i] {
			t.Errorf("%s: place %d: got %s with %d calls; it made %d, and place %d has %d", what, i+1,
				talker.ID, n, want[talker.ID], i+1, most[i])
		}
	}
}

// Calls add up to the counts of each minute. After a subject's first eight calls in an
// hour, they have the second.
func TestCalls(t *testing.T) {
	onEveryServer(t, func(t *testing.T, client valkey.Client) {
		r := recorderAt(noon)
		type second struct {
			at     int
			denied bool
		}
		noted := map[second]int64{}
		record := func(at, n int, o Outcome) {
			for range n {
				o.Subject, o.Time = "a", noon.Add(time.Duration(at)*time.Second)
				r.Record(o)
			}
			flush(t, r, client)
		}
		record(65, 8, Outcome{}) // only later calls are noted
		record(65, 8, Outcome{Verdict: Denied})
		for _, at := range []int{130, 131, 170, 171, 3599, 3600 + 1} {
			n := at % 5
			record(at, 3+n, Outcome{Verdict: Denied})
			record(at, 2, Outcome{Cost: 4})
			if at < 3600 {
				noted[second{at, true}] += int64(3 + n)
				noted[second{at, false}] += 2
			}
		}
		record(3000, 1, Outcome{Cost: 1000})
		noted[second{3000, false}]++
		calls, err := NewReader(client).Calls(t.Context(), "a", noon, noon.Add(2*time.Hour))
		if err != nil || !slices.IsSortedFunc(calls, func(a, b Call) int { return a.Time.Compare(b.Time) }) {
			t.Fatalf("got %+v, %v; want calls in order of time", calls, err)
		}
		sums := map[time.Time]Counts{}
		for _, c := range calls {
			if c.Noted {
				noted[second{int(c.Time.Sub(noon) / time.Second), c.Denied}] -= c.Calls
			}
			minute := c.Time.Truncate(time.Minute)
			if c.Denied {
				sums[minute] = sums[minute].Plus(Counts{Denied: c.Calls})
			} else {
				sums[minute] = sums[minute].Plus(Counts{Allowed: c.Calls, Cost: c.Cost})
			}
		}
		for at, n := range noted {
			if n > 0 {
				t.Errorf("second %d: %d calls are not noted", at.at, n)
			}
		}
		points, err := NewReader(client).Series(t.Context(), "a", noon, noon.Add(2*time.Hour), time.Minute)
		checkPoints(t, "minutes", points, sums, err)
	})
}

// A subject's notes are bounded, and are those of its latest calls.
func TestNotesAreBounded(t *testing.T) {
	client := connect(t, valkeytest.Start(t))
	r := recorderAt(noon)
	for i := range 3000 {
		r.Record(Outcome{Subject: "a", Time: noon.Add(time.Duration(i) * time.Second)})
		flush(t, r, client)
	}
	length, err := client.Do(t.Context(),
		client.B().Strlen().Key(callsName(keyspace.BucketOf("a"), "a",
			noon.Unix()/secondsPerHour)).Build()).AsInt64()
	if err != nil || length > 2400 || length < 512*noteLen {
		t.Errorf("got %d bytes of notes, %v; want %d to 2400", length, err, 512*noteLen)
	}
	calls, err := NewReader(client).Calls(t.Context(), "a", noon, noon.Add(time.Hour))
	if err != nil {
		t.Fatal(err)
	}
	var n, known int64
	for _, c := range calls {
		n += c.Calls
		if c.Noted {
			known += c.Calls
		} else if known > secondsPerMinute { // the first noted minute may have both
			t.Errorf("a call without a note follows %d noted ones: %+v", known, c)
		}
	}
	if n != 3000 || known < 512 || !calls[len(calls)-1].Noted {
		t.Errorf("got %d calls, %d noted, last %+v; want 3000, at least 512", n, known, calls[len(calls)-1])
	}
}

// Calls of the current minute are spread over the past part of it, so that a preview that
// ends now has them all.
func TestCallsOfThisMinute(t *testing.T) {
	client, now := connect(t, valkeytest.Start(t)), time.Now()
	r := recorderAt(now)
	for range 8 { // later ones would be noted
		r.Record(Outcome{Subject: "a", Time: now})
	}
	flush(t, r, client)
	to := time.Now()
	calls, err := NewReader(client).Calls(t.Context(), "a", to.Add(-time.Hour), to)
	var n int64
	for _, c := range calls {
		n += c.Calls
	}
	if err != nil || n != 8 {
		t.Errorf("got %d calls, %v; want 8", n, err)
	}
}

// Stored notes have all calls, and as much of the extra cost as fits in them.
func TestNotesAreReadAsWritten(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		want := note{
			second: rapid.IntRange(0, 3599).Draw(t, "second"), denied: rapid.Bool().Draw(t, "denied"),
			calls: rapid.Int64Range(1, 1000).Draw(t, "calls"),
			extra: rapid.Int64Range(0, 1000).Draw(t, "extra"),
		}
		got := note{second: want.second, denied: want.denied}
		stored := appendNotes(nil, want)
		for _, n := range parseNotes(stored) {
			if n.second != want.second || n.denied != want.denied {
				t.Fatalf("got note %+v, want the second and outcome of %+v", n, want)
			}
			got.calls += n.calls
			got.extra += n.extra
		}
		if room := int64(len(stored) / noteLen * maxNoteExtra); got.calls != want.calls ||
			got.extra != min(want.extra, room) {
			t.Fatalf("got %+v, want %+v", got, want)
		}
	})
}

// Any bytes are parsed to notes in range, which encode to the same bytes again.
func FuzzNotes(f *testing.F) {
	f.Add([]byte("\x00\x00\x20\xff\xff\xff\x01"))
	f.Fuzz(func(t *testing.T, b []byte) {
		var again []byte
		for _, n := range parseNotes(b) {
			if n.second < 0 || n.second > 4095 || n.calls < 0 || n.extra < 0 {
				t.Fatalf("note out of range: %+v", n)
			}
			if n.calls == 0 {
				return // appendNotes never writes it
			}
			again = appendNotes(again, n)
		}
		if !bytes.HasPrefix(b, again) {
			t.Fatalf("got %x after parsing and encoding %x", again, b)
		}
	})
}
