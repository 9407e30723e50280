package audit

import (
	"encoding/json"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/valkey-io/valkey-go"

	"tidegate/internal/store/keyspace"
	"tidegate/internal/testing/valkeytest"
)

// large returns a JSON text like a policy, of about this number of bytes.
func large(version, bytes int) json.RawMessage {
	var routes []string
	for i := range bytes/100 + 1 {
		routes = append(routes, fmt.Sprintf(
			`{"name":"route-%d","pattern":{"path":"/some/path-%d"},"perKey":[{"requests":%d,"window":"1m"}]}`,
			i, i, version))
	}
	return json.RawMessage(fmt.Sprintf(`{"version":%d,"routes":[%s]}`, version, strings.Join(routes, ",")))
}

// saved returns an entry of a large subject.
func saved(subject string, version, bytes int) Entry {
	e := entryOf(subject, version)
	e.Before, e.After = large(version-1, bytes), large(version, bytes)
	return e
}

// recorded returns an entry without its position and hashes, as it was recorded.
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

// Large states are read byte for byte as recorded, from lists and by id, also if only one
// is there. They are stored in a tenth of their size.
func TestLargeEntriesAreReadAsRecorded(t *testing.T) {
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
				t.Errorf("entry %d: got another, with states of %d and %d bytes; want %d and %d",
					want.Version, len(e.Before), len(e.After), len(want.Before), len(want.After))
			}
			if got, _, err := c.Get(t.Context(), e.ID); err != nil || !reflect.DeepEqual(got, e) {
				t.Errorf("entry %d by id: got another, %v", want.Version, err)
			}
		}
		for i, x := range c.stored(t, "set") {
			states, stored := len(all[i].Before)+len(all[i].After), len(x.FieldValues["e"])
			if states > 2*packFrom && stored > states/10 {
				t.Errorf("entry %d: got %d stored bytes for %d, want at most a tenth", i+1, stored, states)
			}
		}
		if v := c.verified(t); !v.Good() || v.Entries != 4 {
			t.Errorf("verify: got %+v, want 4 good entries", v)
		}
	})
}

// With KeepPacked, an entry has all fields but the states. Opened unpacks these.
func TestKeepPacked(t *testing.T) {
	c := open(t, valkeytest.Embedded(t))
	created := saved("set", 1, 40_000)
	created.Before = nil
	for _, e := range []Entry{created, saved("set", 2, 40_000), entryOf("set", 3)} {
		c.record(t, e)
	}
	full := c.all(t, Query{Subject: "set"})
	for i, packed := range c.all(t, Query{Subject: "set", KeepPacked: true}) {
		if i > 0 && (packed.Before != nil || packed.After != nil) {
			t.Errorf("entry %d: got states, want them packed", i)
		}
		if packed.Creates() != (i == 2) || full[i].Creates() != (i == 2) ||
			packed.Action != full[i].Action || !reflect.DeepEqual(packed.Opened(), full[i]) {
			t.Errorf("entry %d: got %+v opened, want %+v", i, packed.Opened(), full[i])
		}
	}
}

// Verify finds every change of a pack. An entry whose pack cannot be opened is listed
// without states.
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
			t.Errorf("%s: verify: got %+v, want one broken entry", name, v)
		}
		got := c.all(t, Query{})
		if len(got) != 1 {
			t.Fatalf("%s: got %d entries, want 1", name, len(got))
		}
		if name != "a byte" && (got[0].Before != nil || got[0].After != nil || got[0].ID == "") {
			t.Errorf("%s: got states of %d and %d bytes, want none", name, len(got[0].Before),
				len(got[0].After))
		}
		if _, err := json.Marshal(got[0]); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// Seal refuses a state that is not JSON, of any size.
func TestSealRefusesOtherThanJSON(t *testing.T) {
	for _, size := range []int{1, packFrom, maxPack + 1} {
		e := entryOf("set", 1)
		e.After = json.RawMessage(strings.Repeat("{", size))
		if _, err := (Key{}).Seal(0, nil, e); err == nil {
			t.Errorf("%d bytes: got no error", size)
		}
	}
}

// Since excludes exactly the entries from before it. A query after Before excludes
// exactly the later ones.
func TestSinceAndBefore(t *testing.T) {
	c := open(t, valkeytest.Start(t))
	b := keyspace.BucketOf("subject")
	at := time.UnixMilli(1_800_000_000_000)
	for n := range 40 {
		sealed, err := c.key.Seal(b, nil, entryOf("subject", n))
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
				t.Errorf("%+v: got %d entries, want %d", q, len(got), want)
			}
			q.Since, q.After = time.Time{}, Before(since)
			if got := c.all(t, q); len(got) != 40-want && since.Unix() > 0 || since.Unix() <= 0 &&
				len(got) != 0 {
				t.Errorf("%+v: got %d entries, want %d", q, len(got), 40-want)
			}
		}
	}
}
