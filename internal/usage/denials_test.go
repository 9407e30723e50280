package usage

import (
	"cmp"
	"fmt"
	"math/rand/v2"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"time"

	gocmp "github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"github.com/valkey-io/valkey-go"

	"tidegate/internal/cause"
	"tidegate/internal/store/keyspace"
	"tidegate/internal/testing/valkeytest"
	"tidegate/internal/usage/denylog"
)

var samePrefix = cmpopts.EquateComparable(netip.Prefix{})

// denialOf returns a denied call of a key.
func denialOf(subject string, at time.Time, d denylog.Denial) Outcome {
	return Outcome{Subject: subject, Registered: true, Verdict: Denied, Cost: 1, Time: at, Denial: &d}
}

// sorted sorts denials in the order of the log.
func sorted(all []denylog.Entry) []denylog.Entry {
	slices.SortStableFunc(all, func(a, b denylog.Entry) int {
		return cmp.Or(b.Time.Compare(a.Time), cmp.Compare(a.Subject, b.Subject),
			cmp.Compare(a.Request, b.Request))
	})
	return all
}

// everyPage reads all pages of a query.
func everyPage(t *testing.T, reader *Reader, q denylog.Query) []denylog.Entry {
	t.Helper()
	var all []denylog.Entry
	for range 10_000 {
		page, err := reader.Denials(t.Context(), q)
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, page.Denials...)
		if q.After = page.Next; q.After == "" {
			return all
		}
	}
	t.Fatal("got 10,000 pages and no end")
	return nil
}

// While a caller is denied at most 4 times a minute by a limit, every denial has an entry
// of its own. Filters and pages of any size return what a list in memory has.
func TestDenialsAreRead(t *testing.T) {
	onEveryServer(t, func(t *testing.T, client valkey.Client) {
		random := rand.New(rand.NewPCG(1, 2))
		reader, from := NewReader(client), noon.Add(-23*time.Hour)
		var want []denylog.Entry
		perMinute := map[string]int{}
		calls := 400
		if strings.HasSuffix(t.Name(), "embedded") {
			calls = 20 // this server compiles the script each time
		}
		for len(want) < calls {
			at := from.Add(time.Duration(random.Int64N(int64(24 * time.Hour)))).Truncate(time.Millisecond)
			caller := id(random.IntN(20))
			slot := fmt.Sprint(caller, at.Unix()/60)
			if perMinute[slot]++; perMinute[slot] > denylog.MaxOccurrences {
				continue
			}
			d := denylog.Denial{
				Cause: cause.Limit, Plan: "free", Limit: fmt.Sprintf("%d per 10 s", random.IntN(3)),
				Group: []string{"", "acme", "zebra"}[random.IntN(3)],
				Rule:  "orders", Method: "GET", Path: "/orders/{id}", API: "abcdef1234", Stage: "prod",
				Network:    denylog.NetworkOf(netip.MustParseAddr("192.0.2.77")),
				RetryAfter: time.Duration(random.Int64N(1e6)) * time.Millisecond,
				Request:    fmt.Sprintf("%08x-0000-4000-8000-%012x", random.Uint32(), random.Uint32()),
			}
			if random.IntN(2) == 0 {
				d.Network = denylog.NetworkOf(netip.MustParseAddr("2001:db8:7:8::9"))
				d.Request = "JKJaXmPLvHcESHA="
				d.Cause, d.Rule, d.Limit = cause.Ban, "", ""
			}
			r := recorderAt(at) // each in another environment
			r.Record(denialOf(caller, at, d))
			flush(t, r, client)
			want = append(want, denylog.Entry{Denial: d, Time: at, Subject: caller, Calls: 1})
		}
		for name, q := range map[string]denylog.Query{
			"all":     {},
			"subject": {Subject: id(3)},
			"limit":   {Limit: "1 per 10 s"},
			"cause":   {Cause: cause.Ban},
			"rule":    {Rule: "orders", Plan: "free"},
			"none":    {Plan: "pro"},
			"group":   {Group: "acme"},
			"route":   {Route: "GET /orders/{id}", Group: "zebra"},
			"nowhere": {Route: "GET /orders"},
			"time":    {From: noon.Add(-3 * time.Hour), To: noon.Add(-30 * time.Minute)},
		} {
			q.From, q.To = later(q.From, from), earlier(q.To, noon.Add(time.Hour))
			expected := sorted(slices.DeleteFunc(slices.Clone(want), func(d denylog.Entry) bool {
				return q.Subject != "" && d.Subject != q.Subject || q.Limit != "" && d.Limit != q.Limit ||
					q.Cause != 0 && d.Cause != q.Cause || q.Rule != "" && d.Rule != q.Rule ||
					q.Group != "" && d.Group != q.Group || q.Plan != "" && d.Plan != q.Plan ||
					q.Route != "" && !strings.HasSuffix(q.Route, "{id}") ||
					d.Time.Before(q.From) || !d.Time.Before(q.To)
			}))
			for _, q.Count = range []int{7, 500} {
				if diff := gocmp.Diff(expected, everyPage(t, reader, q), samePrefix,
					cmpopts.EquateEmpty()); diff != "" {
					t.Errorf("%s, pages of %d (-want +got):\n%s", name, q.Count, diff)
				}
			}
			var streamed []denylog.Entry
			for d, err := range reader.EveryDenial(t.Context(), q) {
				if err != nil {
					t.Fatal(err)
				}
				streamed = append(streamed, d)
			}
			if diff := gocmp.Diff(expected, streamed, samePrefix, cmpopts.EquateEmpty()); diff != "" {
				t.Errorf("%s, streamed (-want +got):\n%s", name, diff)
			}
			checkSummary(t, name, reader, q, expected)
		}
	})
}

// checkSummary compares the summary of a query with the sums of the list that it selects.
func checkSummary(t *testing.T, name string, reader *Reader, q denylog.Query, list []denylog.Entry) {
	t.Helper()
	const step = 15 * time.Minute
	got, err := reader.SumDenials(t.Context(), q, step)
	if err != nil {
		t.Fatal(err)
	}
	want := denylog.Summary{Since: got.Since, Begin: q.From.Truncate(step),
		Steps: make([]int64, len(got.Steps)), Limits: map[string]int64{}, Subjects: map[string]int64{},
		Routes: map[string]int64{}}
	for _, d := range list {
		if d.Time.Before(got.Since) {
			continue // the summary stopped before
		}
		want.Calls++
		want.Steps[d.Time.Sub(want.Begin)/step]++
		want.Subjects[d.Subject]++
		want.Routes["GET /orders/{id}"]++
		if d.Limit != "" {
			want.Limits[d.Limit]++
		}
	}
	if diff := gocmp.Diff(want, got); diff != "" {
		t.Errorf("%s, summary (-want +got):\n%s", name, diff)
	}
}

func later(a, b time.Time) time.Time {
	if a.After(b) {
		return a
	}
	return b
}

func earlier(a, b time.Time) time.Time {
	if a.IsZero() || a.After(b) {
		return b
	}
	return a
}

// Many environments record a flood of denials of registered and unregistered callers. The
// bucket's log stays within its bound, and logged and unlogged denials add up to all. A
// registered key that is first denied during the flood has an entry.
func TestFloodOfDenialsIsBounded(t *testing.T) {
	client := connect(t, valkeytest.Start(t))
	reader := NewReader(client)
	bucket := keyspace.BucketOf(id(0))
	var keys []string
	for i := 0; len(keys) < 12; i++ {
		if keyspace.BucketOf(id(i)) == bucket {
			keys = append(keys, id(i))
		}
	}
	quiet, keys := keys[len(keys)-1], keys[:len(keys)-1]
	var recorded int64
	for third := range 20 {
		minute := 3 * third
		at := noon.Add(time.Duration(minute) * time.Minute)
		for env := range 3 {
			r := recorderAt(at)
			for call := range 300 {
				caller, registered := keys[call%len(keys)], true
				if call%3 == 0 {
					caller, registered = fmt.Sprintf("made-up-%d-%d-%d", minute, env, call), false
				}
				o := denialOf(caller, at, denylog.Denial{
					Cause: cause.Limit, Limit: "10 per 10 s", Path: fmt.Sprintf("/route/%d", call%40),
					Request: fmt.Sprintf("%08x-0000-4000-8000-%012x", call, env),
				})
				o.Registered = registered
				r.Record(o)
				recorded++
			}
			flush(t, r, client)
		}
		if minute == 54 {
			r := recorderAt(at)
			r.Record(denialOf(quiet, at, denylog.Denial{Cause: cause.Limit, Limit: "once"}))
			flush(t, r, client)
			recorded++
		}
	}
	q := denylog.Query{From: noon, To: noon.Add(time.Hour), Count: denylog.MaxPage}
	var logged int64
	for _, d := range everyPage(t, reader, q) {
		logged += d.Calls
	}
	points, err := reader.Overview(t.Context(), noon, noon.Add(time.Hour), time.Hour)
	if err != nil {
		t.Fatal(err)
	}
	refusals, err := reader.Refusals(t.Context(), "", noon, noon.Add(time.Hour), time.Minute)
	if err != nil {
		t.Fatal(err)
	}
	unlogged := refusals.Unlogged
	if n := Sum(points).Denied; n != recorded || logged+unlogged != recorded || unlogged == 0 {
		t.Errorf("got %d denials, %d logged and %d unlogged; want %d", n, logged, unlogged, recorded)
	}
	q.Subject = quiet
	if got := everyPage(t, reader, q); len(got) != 1 || got[0].Limit != "once" {
		t.Errorf("the quiet key: got %+v, want its one denial", got)
	}
	var size int64
	everyKey(t, client, func(node valkey.Client, key string) {
		if strings.HasSuffix(key, fmt.Sprint(":usage-l", noon.Unix()/3600)) {
			used, err := node.Do(t.Context(), node.B().MemoryUsage().Key(key).Samples(0).Build()).AsInt64()
			if err != nil {
				t.Fatal(err)
			}
			size = max(size, used)
		}
	})
	if size > maxLogMemory || size < maxLogMemory/4 {
		t.Errorf("got %d bytes for the largest log, want %d to %d", size, maxLogMemory/4, maxLogMemory)
	}
}

// A flood of calls that limits on trial would have denied takes no room from denials, in
// the Recorder or in Valkey, for registered callers and others. The log of denials does
// not list them. Logged and unlogged ones add up to all of them.
func TestTrialsTakeNoRoomFromDenials(t *testing.T) {
	client := connect(t, valkeytest.Start(t))
	reader := NewReader(client)
	var keys []string // in one bucket
	for i := 0; len(keys) < 12; i++ {
		if keyspace.BucketOf(id(i)) == keyspace.BucketOf(id(0)) {
			keys = append(keys, id(i))
		}
	}
	var passed int64
	for minute := range 20 {
		at := noon.Add(time.Duration(minute) * time.Minute)
		r := recorderAt(at)
		for call := range 2 * maxKinds {
			r.Record(Outcome{Subject: keys[call%len(keys)], Registered: call%3 > 0, Verdict: ShadowDenied,
				Cost: 1, Time: at, Trials: []denylog.Denial{{Cause: cause.Shadow, Limit: "9 per 1 min",
					Path: fmt.Sprint("/", minute, "/", call)}}})
			passed++
		}
		for i, caller := range keys {
			limit := fmt.Sprint(i, " per 1 min")
			r.Record(denialOf(caller, at, denylog.Denial{Cause: cause.Limit, Limit: limit}))
		}
		flush(t, r, client)
	}
	sum := func(q denylog.Query) (calls int64) {
		q.From, q.To, q.Count = noon, noon.Add(time.Hour), denylog.MaxPage
		for _, d := range everyPage(t, reader, q) {
			if d.Cause.OnTrial() != q.OnTrial {
				t.Fatalf("the log has an entry with cause %s", d.Cause)
			}
			calls += d.Calls
		}
		return calls
	}
	counted, err := reader.Refusals(t.Context(), "", noon, noon.Add(time.Hour), time.Minute)
	if err != nil {
		t.Fatal(err)
	}
	if n := sum(denylog.Query{}); n != int64(20*len(keys)) || counted.Unlogged != 0 {
		t.Errorf("got %d logged denials and %d unlogged, want %d and 0", n, counted.Unlogged, 20*len(keys))
	}
	logged := sum(denylog.Query{OnTrial: true})
	if logged == 0 || counted.UnloggedTrials == 0 || logged+counted.UnloggedTrials != passed {
		t.Errorf("got %d logged and %d unlogged of limits on trial, want %d in all", logged,
			counted.UnloggedTrials, passed)
	}
	if n := sum(denylog.Query{OnTrial: true, Cause: cause.Shadow}); n != logged {
		t.Errorf("got %d by cause, want %d", n, logged)
	}
}

// An entry with a cause of a later version is skipped and counted.
func TestUnknownCausesAreSkipped(t *testing.T) {
	client := connect(t, valkeytest.Embedded(t))
	r := recorderAt(noon)
	r.Record(denialOf(id(1), noon, denylog.Denial{Cause: 200, Limit: "x"}))
	r.Record(denialOf(id(1), noon, denylog.Denial{Cause: cause.Limit, Limit: "y"}))
	flush(t, r, client)
	got, err := NewReader(client).Denials(t.Context(), denylog.Query{From: noon, To: noon.Add(time.Hour),
		Count: 9})
	if err != nil || len(got.Denials) != 1 || got.Denials[0].Limit != "y" || got.Unreadable != 1 {
		t.Errorf("got %+v, %v; want the entry by limit y, and 1 unreadable", got, err)
	}
}

// maxLogMemory is the bound in the package comment for a bucket's log of an hour, in
// bytes.
const maxLogMemory = 20 << 10

// A Recorder counts denials of kinds beyond its bound as unlogged, exactly for a caller
// too.
func TestDenialsBeyondTheRecorder(t *testing.T) {
	client := connect(t, valkeytest.Start(t))
	r := recorderAt(noon)
	for i := range maxKinds + 50 {
		r.Record(denialOf(id(1), noon, denylog.Denial{Cause: cause.Limit, Path: fmt.Sprint("/", i)}))
	}
	if len(r.pending.denials.list) != maxKinds {
		t.Errorf("got %d pending kinds, want %d", len(r.pending.denials.list), maxKinds)
	}
	flush(t, r, client)
	own, err := NewReader(client).Refusals(t.Context(), id(1), noon, noon.Add(time.Minute), time.Minute)
	if err != nil {
		t.Fatal(err)
	}
	got := everyPage(t, NewReader(client), denylog.Query{Subject: id(1), From: noon,
		To: noon.Add(time.Minute)})
	if len(got) != 16 || own.Unlogged != maxKinds+50-16 {
		t.Errorf("got %d logged, %d unlogged; want 16, %d", len(got), own.Unlogged, maxKinds+50-16)
	}
}

// The 4th entry of a minute counts further denials, also those of other environments.
func TestDenialsOfAMinuteAreJoined(t *testing.T) {
	onEveryServer(t, func(t *testing.T, client valkey.Client) {
		for env := range 3 {
			r := recorderAt(noon)
			for i := range 7 {
				at := noon.Add(time.Duration(env*10+i) * time.Second)
				r.Record(denialOf(id(1), at, denylog.Denial{Cause: cause.Limit, Limit: "a"}))
			}
			flush(t, r, client)
		}
		q := denylog.Query{From: noon, To: noon.Add(time.Hour)}
		var calls []int64
		for _, d := range everyPage(t, NewReader(client), q) {
			calls = append(calls, d.Calls)
		}
		if want := []int64{18, 1, 1, 1}; !slices.Equal(calls, want) { // newest first
			t.Errorf("got calls %v, want %v", calls, want)
		}
	})
}

// Refused credentials count by cause, in total and for a proven key. Credentials that
// prove no key take no memory each and cause a flush a minute, and are not in the log.
func TestRefusalsByCause(t *testing.T) {
	onEveryServer(t, func(t *testing.T, client valkey.Client) {
		r, reader := recorderAt(noon), NewReader(client)
		refuse := func(subject string, c cause.Cause) {
			r.Record(Outcome{Subject: subject, Registered: subject != "", Time: noon,
				Denial: &denylog.Denial{Cause: c}})
		}
		for range 1000 {
			refuse("", cause.Unknown)
			refuse("", cause.Malformed)
		}
		if n := len(r.pending.entries) + len(r.pending.denials.list); n != 1 {
			t.Errorf("got %d entries of callers without a proven key, want 1", n)
		}
		r.lastBatch = noon.UnixNano()
		if soon := noon.Add(maxWait - 1); r.Due(soon) || r.early(soon) != nil {
			t.Error("callers without a proven key cause a flush within a minute")
		}
		if !r.Due(noon.Add(maxWait)) {
			t.Error("refusals of callers without a proven key are not due after a minute")
		}
		for range 3 {
			refuse(id(1), cause.Revoked)
		}
		refuse(id(1), cause.OldSecret)
		flush(t, r, client)
		until := noon.Add(time.Hour)
		all, err := reader.Refusals(t.Context(), "", noon, until, time.Hour)
		if want := ([8]int64{0, 1000, 1000, 3, 0, 1}); err != nil || all.ByCause != want ||
			all.Sum() != 2004 {
			t.Errorf("total: got %v, %v; want %v", all, err, want)
		}
		own, err := reader.Refusals(t.Context(), id(1), noon, until, time.Minute)
		if want := ([8]int64{3: 3, 5: 1}); err != nil || own.ByCause != want || own.Of(cause.Revoked) != 3 {
			t.Errorf("of one key: got %v, %v; want %v", own, err, want)
		}
		overview, err := reader.Overview(t.Context(), noon, until, time.Hour)
		if err != nil || Sum(overview).Calls() != 0 {
			t.Errorf("got %+v, %v; want no calls", Sum(overview), err)
		}
		logged := everyPage(t, reader, denylog.Query{From: noon, To: until})
		if len(logged) != 4 || logged[0].Subject != id(1) {
			t.Errorf("log: got %+v, want the 4 refusals of the key", logged)
		}
	})
}

func TestBadDenialCursors(t *testing.T) {
	client := connect(t, valkeytest.Embedded(t))
	for _, cursor := range []string{"x", "eA", "MS4tMQ", "LTEuMA", strings.Repeat("A", 90)} {
		q := denylog.Query{From: noon, To: noon.Add(time.Hour), After: cursor}
		if _, err := NewReader(client).Denials(t.Context(), q); err == nil {
			t.Errorf("cursor %s: got no error", cursor)
		}
	}
}

// A refused credential with a reason is in the log, one kind for each reason, and causes
// no flush before a minute has passed.
func TestReasonsAreLogged(t *testing.T) {
	onEveryServer(t, func(t *testing.T, client valkey.Client) {
		r := recorderAt(noon)
		r.lastBatch = noon.UnixNano()
		for range 1000 {
			for _, reason := range []string{"claim aud is wrong", "no key fits"} {
				r.Record(Outcome{Time: noon, Denial: &denylog.Denial{Cause: cause.Malformed, Reason: reason}})
			}
		}
		if soon := noon.Add(maxWait - 1); r.Due(soon) || r.early(soon) != nil {
			t.Error("refusals with a reason cause a flush within a minute")
		}
		flush(t, r, client)
		calls := map[string]int64{}
		hour := denylog.Query{From: noon, To: noon.Add(time.Hour)}
		for _, d := range everyPage(t, NewReader(client), hour) {
			if d.Cause != cause.Malformed || d.Subject != "" {
				t.Errorf("got %+v", d)
			}
			calls[d.Reason] += d.Calls
		}
		if calls["claim aud is wrong"] != 1000 || calls["no key fits"] != 1000 || len(calls) != 2 {
			t.Errorf("got calls %v, want 1000 of each reason", calls)
		}
	})
}
