package usage

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/valkey-io/valkey-go"

	"tidegate/internal/cause"
	"tidegate/internal/store"
	"tidegate/internal/store/keyspace"
	"tidegate/internal/testing/tier"
	"tidegate/internal/testing/valkeytest"
	"tidegate/internal/usage/denylog"
)

// statOf returns the value of a line "name:value", or of a command's statistics.
func statOf(info, name string) string {
	for line := range strings.Lines(info) {
		if key, value, ok := strings.Cut(strings.TrimSpace(line), ":"); ok &&
			(key == name || key == "cmdstat_"+name) {
			return value
		}
	}
	return ""
}

// usedMemory returns how much memory the server has allocated.
func usedMemory(t testing.TB, client valkey.Client) int64 {
	t.Helper()
	info, err := client.Do(t.Context(), client.B().Info().Section("memory").Build()).ToString()
	if err != nil {
		t.Fatal(err)
	}
	var used int64
	if _, err := fmt.Sscan(statOf(info, "used_memory"), &used); err != nil {
		t.Fatal(err)
	}
	return used
}

// everyKey calls do for each key of the key space. Only tests may scan it.
func everyKey(t *testing.T, client valkey.Client, do func(node valkey.Client, key string)) {
	t.Helper()
	for _, node := range client.Nodes() {
		var cursor uint64
		for {
			e, err := node.Do(t.Context(), node.B().Scan().Cursor(cursor).Count(1000).Build()).AsScanEntry()
			if err != nil {
				t.Fatal(err)
			}
			for _, key := range e.Elements {
				do(node, key)
			}
			if cursor = e.Cursor; cursor == 0 {
				break
			}
		}
	}
}

// Every key has the time to live that the package comment states.
func TestEverythingExpires(t *testing.T) {
	lives := map[byte][2]time.Duration{
		'm': {24 * time.Hour, 25 * time.Hour}, 'h': {30 * 24 * time.Hour, 31 * 24 * time.Hour},
		't': {time.Hour, 2 * time.Hour},
		's': {24 * time.Hour, 25 * time.Hour}, 'a': {24 * time.Hour, 25 * time.Hour},
		'd': {24 * time.Hour, 25 * time.Hour},
		'A': {30 * 24 * time.Hour, 31 * 24 * time.Hour}, 'D': {30 * 24 * time.Hour, 31 * 24 * time.Hour},
		'n': {24 * time.Hour, 48 * time.Hour}, 'l': {24 * time.Hour, 25 * time.Hour},
	}
	onEveryServer(t, func(t *testing.T, client valkey.Client) {
		r := recorderAt(noon)
		for i := range 40 {
			for range 12 {
				r.Record(Outcome{Subject: id(i), Verdict: Verdict(i % 2),
					Rules: []string{"rule"}, Time: noon, Denial: &denylog.Denial{Cause: cause.Limit}})
			}
		}
		flush(t, r, client)
		found := map[byte]int{}
		everyKey(t, client, func(node valkey.Client, key string) {
			name := key[strings.LastIndexByte(key, ':')+1:]
			kind := strings.TrimPrefix(name, "usage-")[0]
			found[kind]++
			ms, err := node.Do(t.Context(), node.B().Pttl().Key(key).Build()).AsInt64()
			life := time.Duration(ms) * time.Millisecond
			if want := lives[kind]; err != nil || want == [2]time.Duration{} || life <= want[0] ||
				life > want[1] {
				t.Errorf("%s: got a time to live of %s, %v; want %v", key, life, err, want)
			}
		})
		if len(found) != len(lives) {
			t.Errorf("got %d kinds of keys, want %d: %v", len(found), len(lives), found)
		}
	})
}

// A server that lost its scripts gets them again, and no count is lost meanwhile.
func TestServersWithoutScriptsGetThem(t *testing.T) {
	onEveryServer(t, func(t *testing.T, client valkey.Client) {
		now := noon
		r := NewRecorder(Options{}, func() time.Time { return now })
		const subjects, turns = 300, 12
		forget := func() {
			for _, node := range client.Nodes() {
				if err := node.Do(t.Context(), node.B().ScriptFlush().Build()).Error(); err != nil {
					t.Fatal(err)
				}
			}
		}
		for turn := range turns {
			if turn%6 == 3 {
				forget()
			}
			if turn == 0 || turn == 6 {
				for i := range subjects {
					r.Record(Outcome{Subject: id(i), Registered: true, Time: noon})
				}
			}
			r.Record(Outcome{Time: noon})
			b := r.Batch(now)
			if b == nil {
				t.Fatal("no batch: an unknown script must not extend the interval")
			}
			if report := b.Acknowledge(client.DoMulti(t.Context(), b.Commands(client)...)); report.Lost > 0 ||
				report.Err != nil {
				t.Fatalf("turn %d: %+v", turn, report)
			}
			now = now.Add(time.Second)
		}
		if n := r.pending.subjects; n > 0 {
			t.Errorf("got %d pending subjects after %d batches, want none", n, turns)
		}
		flush(t, r, client)
		overview, err := NewReader(client).Overview(t.Context(), noon, noon.Add(time.Minute), time.Minute)
		if want := int64(2*subjects + turns); err != nil || overview[0].Allowed != want {
			t.Errorf("overview: got %+v, %v; want %d allowed", overview[0], err, want)
		}
		for i := range subjects {
			points, err := NewReader(client).Series(t.Context(), id(i), noon,
				noon.Add(time.Minute), time.Minute)
			if err != nil || points[0].Allowed != 2 {
				t.Fatalf("%s: got %+v, %v; want 2 allowed", id(i), points[0], err)
			}
		}
	})
}

// Counts whose reply is lost may have been stored. They are not sent again, and reported
// as lost.
func TestLostReplyCountsAtMostOnce(t *testing.T) {
	url := valkeytest.Start(t)
	proxy := valkeytest.StartProxy(t, url, nil)
	broken, err := store.Open(t.Context(), proxy.URL(), patient)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(broken.Close)
	r := recorderAt(noon)
	r.Record(Outcome{Subject: "warm", Time: noon})
	flush(t, r, broken)
	for range 3 {
		r.Record(Outcome{Subject: "a", Time: noon})
	}
	proxy.DropReplies("EVALSHA", 1)
	b := r.Drain(noon)
	report := b.Acknowledge(broken.DoMulti(t.Context(), b.Commands(broken)...))
	if report.Lost != 3 || report.Err == nil || report.Returned+report.Stored != 0 {
		t.Errorf("got %+v, want 3 lost calls and an error", report)
	}
	flush(t, r, broken)
	points, err := NewReader(connect(t, url)).Series(t.Context(), "a", noon,
		noon.Add(time.Minute), time.Minute)
	if err != nil || points[0].Allowed > 3 {
		t.Errorf("got %+v, %v; want at most 3 allowed", points, err)
	}
}

// Counts that a server refused before it executed anything are sent again.
func TestRefusedCountsAreSentAgain(t *testing.T) {
	client := connect(t, valkeytest.Start(t))
	set := func(name, value string) {
		if err := client.Do(t.Context(),
			client.B().ConfigSet().ParameterValue().ParameterValue(name, value).Build()).Error(); err != nil {
			t.Fatal(err)
		}
	}
	r := recorderAt(noon)
	r.Record(Outcome{Subject: "warm", Time: noon})
	flush(t, r, client)
	set("maxmemory", "1")
	for range 3 {
		r.Record(Outcome{Subject: "a", Registered: true, Time: noon, Cost: 5, Rules: []string{"rule"}})
	}
	if report := r.Flush(t.Context(), client); report.Returned != 3 || report.Err == nil ||
		report.Lost+report.Stored != 0 {
		t.Errorf("out of memory: got %+v, want 3 returned calls and an error", report)
	}
	set("maxmemory", "0")
	flush(t, r, client)
	read := NewReader(client)
	points, err := read.Series(t.Context(), "a", noon, noon.Add(time.Minute), time.Minute)
	if want := (Counts{Allowed: 3, Cost: 15}); err != nil || points[0].Counts != want {
		t.Errorf("subject: got %+v, %v; want %+v", points, err, want)
	}
	rule, err := read.Rule(t.Context(), "rule", noon, noon.Add(time.Minute), time.Minute)
	if want := (Counts{Allowed: 3, Cost: 15}); err != nil || rule[0].Counts != want {
		t.Errorf("rule: got %+v, %v; want %+v", rule, err, want)
	}
	overview, err := read.Overview(t.Context(), noon, noon.Add(time.Minute), time.Minute)
	if want := (Counts{Allowed: 4, Cost: 16}); err != nil || overview[0].Counts != want {
		t.Errorf("total: got %+v, %v; want %+v", overview, err, want)
	}
}

// When a shard dies, the counts of other shards are stored. The report counts each call
// once, as stored, returned or lost.
func TestDeadShard(t *testing.T) {
	urls := valkeytest.StartCluster(t, 3, 0)
	client := connectWith(t, urls[0]+"?cluster=true",
		store.Options{Dial: time.Second, Write: time.Second, Pooled: true})
	const subjects = 500
	r := recorderAt(noon)
	record := func() {
		for i := range subjects {
			r.Record(Outcome{Subject: id(i), Registered: true, Time: noon})
		}
	}
	record()
	flush(t, r, client)
	dead := connect(t, urls[2])
	_ = dead.Do(t.Context(), dead.B().Arbitrary("SHUTDOWN", "NOSAVE").Build()).Error() // the connection ends
	record()
	b := r.Drain(noon)
	report := b.Acknowledge(client.DoMulti(t.Context(), b.Commands(client)...))
	if report.Stored+report.Returned+report.Lost != subjects || report.Stored < subjects/2 ||
		report.Stored == subjects || report.Err == nil {
		t.Errorf("got %+v, want %d calls in all, most of them stored, and an error", report, subjects)
	}
	var pendingCalls int64
	for i := range r.pending.entries {
		if e := &r.pending.entries[i]; e.scope == subject {
			pendingCalls += e.tally.calls()
		}
	}
	if pendingCalls != report.Returned {
		t.Errorf("got %d pending calls, want %d as returned", pendingCalls, report.Returned)
	}
	var stored int64
	for i := range subjects {
		points, err := NewReader(client).Series(t.Context(), id(i), noon, noon.Add(time.Minute), time.Minute)
		if err == nil {
			stored += points[0].Allowed - 1
		}
	}
	if stored != report.Stored {
		t.Errorf("got %d calls on the live shards, want %d as reported", stored, report.Stored)
	}
}

// A Batch can be sent in one DoMulti with a check, and does not change its answer.
func TestBatchInTheFlushOfACheck(t *testing.T) {
	onEveryServer(t, func(t *testing.T, client valkey.Client) {
		r := recorderAt(noon)
		for range 3 {
			r.Record(Outcome{Subject: "a", Time: noon})
			b := r.Drain(noon)
			commands := append(valkey.Commands{client.B().Incr().Key(keyspace.State("a")).Build()},
				b.Commands(client)...)
			results := client.DoMulti(t.Context(), commands...)
			if n, err := results[0].AsInt64(); err != nil || n == 0 {
				t.Errorf("check: got %d, %v; want a count", n, err)
			}
			b.Acknowledge(results[1:])
		}
		flush(t, r, client)
		points, err := NewReader(client).Series(t.Context(), "a", noon, noon.Add(time.Minute), time.Minute)
		if err != nil || points[0].Allowed != 3 {
			t.Errorf("got %+v, %v; want 3 allowed", points, err)
		}
	})
}

// flood records unregistered callers from to to-1, in many flushes.
func flood(t *testing.T, client valkey.Client, r *Recorder, from, to int, at time.Time) {
	t.Helper()
	for i := from; i < to; i++ {
		r.Record(Outcome{Subject: fmt.Sprintf("flood%07d", i), Time: at})
		if i%maxUnregistered == maxUnregistered-1 {
			flush(t, r, client)
		}
	}
	flush(t, r, client)
}

// A flood of unique subjects uses no more memory than the newcomers that buckets accept a
// day. Registered subjects, and subjects from before the flood, are still counted, and
// the totals count every call.
func TestFloodIsBoundedInTheStore(t *testing.T) {
	client := connect(t, valkeytest.Start(t))
	r := NewRecorder(Options{Newcomers: 16}, func() time.Time { return noon })
	const accepted, all = 16 * keyspace.Buckets, 100_000
	r.Record(Outcome{Subject: "early", Time: noon})
	flush(t, r, client)
	flood(t, client, r, 0, all/10, noon)
	after := usedMemory(t, client)
	flood(t, client, r, all/10, all, noon)
	r.Record(Outcome{Subject: "early", Time: noon})
	r.Record(Outcome{Subject: "late", Registered: true, Time: noon})
	flush(t, r, client)
	if grown := usedMemory(t, client) - after; grown > 512<<10 {
		t.Errorf("the rest of the flood took %d bytes, want at most 512 KiB", grown)
	}
	read := NewReader(client)
	count, err := read.ActiveCount(t.Context(), noon, noon)
	if err != nil || count > accepted+1 || count < accepted {
		t.Errorf("got %d subjects, %v; want %d or one more", count, err, accepted)
	}
	overview, err := read.Overview(t.Context(), noon, noon.Add(time.Minute), time.Minute)
	if want := int64(all - accepted + 1); err != nil || overview[0].Allowed != all+3 ||
		overview[0].Unlisted < want-1 || overview[0].Unlisted > want {
		t.Errorf("got %+v, %v; want %d unlisted or one less", overview[0], err, want)
	}
	for subject, want := range map[string]int64{"early": 2, "late": 1} {
		points, err := read.Series(t.Context(), subject, noon, noon.Add(time.Minute), time.Minute)
		if err != nil || points[0].Allowed != want {
			t.Errorf("%s: got %+v, %v; want %d allowed", subject, points, err, want)
		}
	}
}

// The lists of a bucket stay within their bounds.
func TestListsAreBounded(t *testing.T) {
	client := connect(t, valkeytest.Start(t))
	const subjects = keyspace.Buckets * maxSeen * 9 / 8
	one := keyspace.BucketOf("one")
	r := recorderAt(noon)
	recorded := 0
	for i := 0; recorded < maxSeen*9/8; i++ {
		if s := fmt.Sprintf("s%07d", i); keyspace.BucketOf(s) == one {
			at := noon.Add(time.Duration(recorded) * time.Minute / maxSeen)
			r.Record(Outcome{Subject: s, Registered: true, Time: at, Verdict: Verdict(recorded % 2)})
			if recorded++; recorded%500 == 0 {
				flush(t, r, client)
			}
		}
		if i > 2*subjects {
			t.Fatalf("only %d subjects are in the bucket", recorded)
		}
	}
	flush(t, r, client)
	day := noon.Unix() / secondsPerHour / hoursPerDay
	for name, want := range map[string]int64{
		seenName(one): maxSeen,
		rankingName(one, admittedInHour, noon.Unix()/secondsPerHour): MaxTalkers,
		rankingName(one, deniedInHour, noon.Unix()/secondsPerHour):   MaxTalkers,
		rankingName(one, admittedInDay, day):                         MaxTalkers,
		rankingName(one, deniedInDay, day):                           MaxTalkers,
	} {
		if n, err := client.Do(t.Context(), client.B().Zcard().Key(name).Build()).AsInt64(); err !=
			nil || n != want {
			t.Errorf("%s: got %d members, %v; want %d", name, n, err, want)
		}
	}
}

// The memory of an active subject, with its share of lists and rankings, stays within the
// published figures. The bucket has as many subjects as with 100,000 active ones in all.
func TestMemoryOfASubject(t *testing.T) {
	tier.Two(t, "fills a server")
	const subjects = 390 // of one bucket
	var ids []string
	for i := 0; len(ids) < subjects; i++ {
		if s := fmt.Sprintf("k%011d", i); keyspace.BucketOf(s) == 0 {
			ids = append(ids, s)
		}
	}
	for _, c := range []struct {
		name           string
		minutes, calls int
		denied         bool
		bytes          int64
	}{
		{"seen once", 1, 1, false, 700},
		{"a call a minute for an hour", 60, 1, false, 1600},
		{"10 calls a minute for an hour", 60, 10, false, 6000},
		{"20 calls a minute for an hour, half of them denied", 60, 20, true, 7000},
	} {
		client := connect(t, valkeytest.Start(t))
		r := recorderAt(noon)
		r.Record(Outcome{Subject: ids[0], Time: noon.Add(-24 * time.Hour)})
		flush(t, r, client)
		before := usedMemory(t, client)
		for call := range c.minutes * c.calls {
			for _, id := range ids {
				o := Outcome{Subject: id, Registered: true,
					Time: noon.Add(time.Duration(call*60/c.calls) * time.Second)}
				if c.denied {
					o.Verdict = Verdict(call % 2)
				}
				r.Record(o)
			}
			flush(t, r, client)
		}
		bytes := (usedMemory(t, client) - before) / subjects
		if bytes > c.bytes {
			t.Errorf("%s: got %d bytes a subject, want at most %d", c.name, bytes, c.bytes)
		}
		t.Logf("%s: %d bytes a subject", c.name, bytes)
	}
}

// Flush ends when its context does.
func TestFlushEnds(t *testing.T) {
	client := connect(t, valkeytest.Start(t))
	r := recorderAt(noon)
	r.Record(Outcome{Subject: "a", Time: noon})
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if report := r.Flush(ctx, client); report.Err == nil || report.Stored > 0 {
		t.Errorf("got %+v, want an error and nothing stored", report)
	}
}
