package audit

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/valkey-io/valkey-go"

	"tidegate/internal/store/keyspace"
	"tidegate/internal/testing/valkeytest"
)

// large is a JSON text of about so many bytes that looks like a policy.
func large(version, bytes int) json.RawMessage {
	var routes []string
	for i := range bytes/100 + 1 {
		routes = append(routes, fmt.Sprintf(
			`{"name":"route-%d","pattern":{"path":"/some/path-%d"},"perKey":[{"requests":%d,"window":"1m"}]}`,
			i, i, version))
	}
	return json.RawMessage(fmt.Sprintf(`{"version":%d,"routes":[%s]}`, version, strings.Join(routes, ",")))
}

// saved is an entry about a large subject.
func saved(subject string, version, bytes int) Entry {
	e := about(subject, version)
	e.Before, e.After = large(version-1, bytes), large(version, bytes)
	return e
}

// recorded is what was recorded, without where it lies.
func recorded(e Entry) Entry {
	e.ID, e.Previous, e.Hash = "", "", ""
	return e
}

func (c *chains) stored(t tester, subject string) []valkey.XRangeEntry {
	t.Helper()
	all, err := c.do(t, "XRANGE", Stream(keyspace.BucketOf(subject)), "-", "+").AsXRange()
	if err != nil {
		t.Fatal(err)
	}
	return all
}

// read is how many bytes the server sends while f runs.
func (c *chains) read(t tester, f func()) (bytes int64) {
	t.Helper()
	sent := func() (n int64) {
		info, err := c.client.Do(t.Context(), c.client.B().Info().Section("stats").Build()).ToString()
		if err != nil {
			t.Fatal(err)
		}
		_, after, _ := strings.Cut(info, "total_net_output_bytes:")
		if _, err := fmt.Sscan(after, &n); err != nil {
			t.Fatal(err)
		}
		return n
	}
	before := sent()
	f()
	return sent() - before
}

// Large states come back to the byte, from lists and alone, whatever of them there is,
// and take a tenth of the room.
func TestLargeEntriesComeBackAsRecorded(t *testing.T) {
	onSingleServers(t, func(t *testing.T, c *chains) {
		all := []Entry{saved("set", 1, 40_000), saved("set", 2, 1_000), saved("set", 3, packFrom),
			saved("set", 4, 1<<20)}
		all[0].Before, all[3].After = nil, nil
		for _, e := range all {
			c.record(t, e)
		}
		for i, e := range slices.Backward(c.all(t, Query{Subject: "set", Count: 3})) {
			want := all[len(all)-1-i]
			if !reflect.DeepEqual(recorded(e), want) {
				t.Errorf("entry %d came back as another, with %d and %d bytes", want.Version,
					len(e.Before), len(e.After))
			}
			if got, _, err := c.Get(t.Context(), e.ID); err != nil || !reflect.DeepEqual(got, e) {
				t.Errorf("entry %d alone is another, %v", want.Version, err)
			}
		}
		for i, x := range c.stored(t, "set") {
			states, takes := len(all[i].Before)+len(all[i].After), len(x.FieldValues["e"])
			if states > 2*packFrom && takes > states/10 {
				t.Errorf("entry %d: %d bytes for %d", i+1, takes, states)
			}
		}
		if v := c.verified(t); !v.Good() || v.Entries != 4 {
			t.Errorf("%+v", v)
		}
	})
}

// With KeepPacked an entry has everything but the states, which Opened unpacks.
func TestKeepPacked(t *testing.T) {
	c := open(t, valkeytest.Embedded(t))
	created := saved("set", 1, 40_000)
	created.Before = nil
	for _, e := range []Entry{created, saved("set", 2, 40_000), about("set", 3)} {
		c.record(t, e)
	}
	full := c.all(t, Query{Subject: "set"})
	for i, head := range c.all(t, Query{Subject: "set", KeepPacked: true}) {
		if i > 0 && (head.Before != nil || head.After != nil) {
			t.Errorf("head %d has states", i)
		}
		if head.Creates() != (i == 2) || full[i].Creates() != (i == 2) || head.Action != full[i].Action ||
			!reflect.DeepEqual(head.Opened(), full[i]) {
			t.Errorf("head %d opens as another", i)
		}
	}
}

// Unpacked entries of older releases are read and verified like packed ones.
func TestEntriesOfOlderReleases(t *testing.T) {
	c := open(t, valkeytest.Embedded(t))
	b := keyspace.BucketOf("set")
	plain := saved("set", 1, 40_000)
	head, err := c.Head(t.Context(), b)
	if err != nil {
		t.Fatal(err)
	}
	text, err := json.Marshal(map[string]any{
		"t": plain.Time, "by": plain.By, "a": plain.Action, "s": plain.Subject, "n": plain.Name,
		"r": plain.Reason, "v": 1,
		"b": plain.Before, "c": plain.After,
	})
	if err != nil {
		t.Fatal(err)
	}
	hash := c.Key().hash(b, nil, text)
	if !c.try(t, b, Sealed{Head: head, Body: text, Hash: hash, Next: c.Key().head(b, 1, hash)}) {
		t.Fatal("not appended")
	}
	c.record(t, saved("set", 2, 40_000))
	for _, heads := range []bool{false, true} {
		got := c.all(t, Query{Subject: "set", KeepPacked: heads})
		if len(got) != 2 || !reflect.DeepEqual(recorded(got[1]), plain) ||
			!reflect.DeepEqual(recorded(got[0].Opened()), saved("set", 2, 40_000)) {
			t.Errorf("heads %t: %d entries, not as recorded", heads, len(got))
		}
	}
	if v := c.verified(t); !v.Good() || v.Entries != 2 {
		t.Errorf("%+v", v)
	}
}

// A change of one byte of what is packed is found, and what cannot be unpacked hides no
// other entry.
func TestTamperedPack(t *testing.T) {
	c := open(t, valkeytest.Embedded(t))
	c.record(t, saved("set", 1, 40_000))
	genuine := c.stored(t, "set")[0]
	var b body
	if err := json.Unmarshal([]byte(genuine.FieldValues["e"]), &b); err != nil {
		t.Fatal(err)
	}
	for name, tamper := range map[string]func(p *pack){
		"a byte":         func(p *pack) { p.Deflated[len(p.Deflated)/2] ^= 1 },
		"cut":            func(p *pack) { p.Deflated = p.Deflated[:len(p.Deflated)/2] },
		"empty":          func(p *pack) { p.Deflated = nil },
		"shorter":        func(p *pack) { p.After-- },
		"longer":         func(p *pack) { p.Before++ },
		"other division": func(p *pack) { p.Before, p.After = p.Before-1, p.After+1 },
		"negative":       func(p *pack) { p.Before = -1 },
		"huge":           func(p *pack) { p.Before = maxPack + 1 },
		"bomb":           func(p *pack) { p.Before, p.Deflated = maxPack/2, p.Deflated[:100] },
		"overflow":       func(p *pack) { p.Before, p.After = 1<<62, 1<<62 },
	} {
		bad, p := b, *b.Packed
		p.Deflated = slices.Clone(p.Deflated)
		tamper(&p)
		bad.Packed = &p
		text, err := json.Marshal(bad)
		if err != nil {
			t.Fatal(err)
		}
		stream := Stream(keyspace.BucketOf("set"))
		c.do(t, "DEL", stream)
		c.do(t, "XADD", stream, genuine.ID, "e", string(text), "h", genuine.FieldValues["h"])
		if v := c.verified(t); len(v.Broken) != 1 {
			t.Errorf("%s: not found: %+v", name, v)
		}
		got := c.all(t, Query{})
		if len(got) != 1 {
			t.Fatalf("%s: %d entries", name, len(got))
		}
		if name != "a byte" && (got[0].Before != nil || got[0].After != nil || got[0].ID == "") {
			t.Errorf("%s: %d and %d bytes came of it", name, len(got[0].Before), len(got[0].After))
		}
		if _, err := json.Marshal(got[0]); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// Of two long states that have little in common with themselves but all with each other
// the second takes next to nothing.
func TestStatesAlikeTakeTheRoomOfOne(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	var words []string
	for range 5_000 {
		words = append(words, fmt.Sprintf("%x", random.Uint64()))
	}
	one, err := json.Marshal(words)
	if err != nil {
		t.Fatal(err)
	}
	words[2_500] = "changed"
	other, err := json.Marshal(words)
	if err != nil {
		t.Fatal(err)
	}
	alone, err := newPack(one, nil)
	if err != nil {
		t.Fatal(err)
	}
	both, err := newPack(one, other)
	if err != nil || len(both.Deflated) > len(alone.Deflated)*11/10 {
		t.Errorf("%d bytes for both, %d for one, %v", len(both.Deflated), len(alone.Deflated), err)
	}
	if before, after, ok := both.open(); !ok || string(before) != string(one) ||
		string(after) != string(other) {
		t.Error("they came back as others")
	}
}

// What is no JSON is not sealed, be it small or large.
func TestSealOfNoJSON(t *testing.T) {
	for _, size := range []int{1, packFrom, maxPack + 1} {
		e := about("set", 1)
		e.After = json.RawMessage(strings.Repeat("{", size))
		if _, err := (Key{}).Seal(0, nil, e); err == nil {
			t.Errorf("%d bytes are sealed", size)
		}
	}
}

// To read the newest entries of a subject takes as much as they have, however many there
// are; more is read only as far as others are between.
func TestNewestOfMany(t *testing.T) {
	c := open(t, valkeytest.Start(t))
	random := rand.New(rand.NewPCG(1, 2))
	for version := range 60 {
		e := saved("set", version, 20_000)
		e.Reason = fmt.Sprint(random.Uint64()) // so that no two are alike
		c.record(t, e)
	}
	entry := int64(len(c.stored(t, "set")[59].FieldValues["e"]))
	for _, q := range []Query{{Count: 1}, {Count: 5}, {Count: 5, KeepPacked: true},
		{Count: 50, Since: time.Now().Add(time.Hour)}, {Count: 7, By: "user 1"}} {
		q.Subject = "set"
		most := (2*int64(q.Count) + 2) * (entry + 200)
		if !q.Since.IsZero() {
			most = 1000
		}
		if q.By != "" {
			most = 40 * (entry + 200) // every third: 8 entries, then 15 behind them
		}
		if got := c.read(t, func() { _ = must(c.List(t.Context(), q)) }); got > most+4000 {
			t.Errorf("%+v: %d bytes, want %d at most, an entry having %d", q, got, most, entry)
		}
	}
}

// Since leaves out what was recorded before, a query after Before what came later, and
// nothing else.
func TestSinceAndBefore(t *testing.T) {
	c := open(t, valkeytest.Start(t))
	b := keyspace.BucketOf("subject")
	at := time.UnixMilli(1_800_000_000_000)
	for n := range 40 {
		sealed, err := c.Key().Seal(b, nil, about("subject", n))
		if err != nil {
			t.Fatal(err)
		}
		id := fmt.Sprint(at.Add(time.Duration(n) * time.Second).UnixMilli())
		c.do(t, "XADD", Stream(b), id, "e", string(sealed.Body), "h", string(sealed.Hash))
	}
	for since, want := range map[time.Time]int{at: 40, at.Add(10 * time.Second): 30,
		at.Add(10*time.Second + time.Millisecond): 29, at.Add(time.Hour): 0,
		{}: 40, time.Unix(-5, 0): 40} {
		for _, q := range []Query{{Since: since, Subject: "subject"}, {Since: since},
			{Since: since, Subject: "subject", Count: 3}} {
			if got := c.all(t, q); len(got) != want || want > 0 && got[want-1].Version != int64(40-want) {
				t.Errorf("%+v: %d entries, want %d", q, len(got), want)
			}
			q.Since, q.After = time.Time{}, Before(since)
			if got := c.all(t, q); len(got) != 40-want && since.Unix() > 0 || since.Unix() <= 0 &&
				len(got) != 0 {
				t.Errorf("%+v: %d entries, want %d", q, len(got), 40-want)
			}
		}
	}
}

func must[T any](value T, err error) T {
	if err != nil {
		panic(err)
	}
	return value
}
