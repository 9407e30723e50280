package audit

import (
	"bytes"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/valkey-io/valkey-go"

	"tidegate/internal/store/keyspace"
	"tidegate/internal/testing/valkeytest"
)

// Verify finds unaltered chains good, of any number of subjects.
func TestUntouchedChainsVerify(t *testing.T) {
	onEveryServer(t, func(t *testing.T, c *chains) {
		if v := c.verified(t); !v.Good() || v.Entries != 0 {
			t.Errorf("without entries: got %+v, want none and good", v)
		}
		for i := range 300 {
			c.record(t, entryOf(fmt.Sprintf("subject%d", i%90), i))
		}
		if v := c.verified(t); !v.Good() || v.Entries != 300 {
			t.Errorf("got %+v, want 300 good entries", v)
		}
	})
}

// forgery is a chain that a test tampers with.
type forgery struct {
	*chains
	t       *testing.T
	bucket  keyspace.Bucket
	stream  string
	entries []valkey.XRangeEntry // stored entries, oldest first
	heads   []string             // after each entry
}

const forgedEntries = 5

// forge records forgedEntries entries of one subject, and one in another chain.
func (c *chains) forge(t *testing.T) *forgery {
	t.Helper()
	c.do(t, "FLUSHALL", "SYNC")
	f := &forgery{chains: c, t: t, bucket: keyspace.BucketOf("victim")}
	f.stream = Stream(f.bucket)
	for n := range forgedEntries {
		c.record(t, entryOf("victim", n))
		head, err := c.Head(t.Context(), f.bucket)
		if err != nil {
			t.Fatal(err)
		}
		f.heads = append(f.heads, string(head))
	}
	c.record(t, entryOf("other", 1))
	if keyspace.BucketOf("other") == f.bucket {
		t.Fatal("both subjects have one chain")
	}
	f.entries = f.stored(f.stream)
	return f
}

func (f *forgery) stored(stream string) []valkey.XRangeEntry {
	f.t.Helper()
	entries, err := f.client.Do(f.t.Context(),
		f.client.B().Xrange().Key(stream).Start("-").End("+").Build()).AsXRange()
	if err != nil {
		f.t.Fatal(err)
	}
	return entries
}

// rewrite replaces the entries of the stream.
func (f *forgery) rewrite(entries ...valkey.XRangeEntry) {
	f.t.Helper()
	f.do(f.t, "DEL", f.stream)
	for i, x := range entries {
		f.do(f.t, "XADD", f.stream, fmt.Sprintf("1000-%d", i+1), "e", x.FieldValues["e"], "h",
			x.FieldValues["h"])
	}
}

// forged returns an entry with another body and a hash that was made with another key.
func (f *forgery) forged(i int) valkey.XRangeEntry {
	f.t.Helper()
	head := []byte(f.heads[max(0, i-1)])
	sealed, err := NewKey([]byte("a guess")).Seal(f.bucket, head, entryOf("victim", 99))
	if err != nil {
		f.t.Fatal(err)
	}
	return valkey.XRangeEntry{FieldValues: map[string]string{"e": string(sealed.Body),
		"h": string(sealed.Hash)}}
}

// Verify finds every change of a chain that was made without the key, and names its
// place.
func TestTamperingIsFoundAndNamed(t *testing.T) {
	c := open(t, valkeytest.Start(t))
	withBody := func(x valkey.XRangeEntry, body string) valkey.XRangeEntry {
		return valkey.XRangeEntry{FieldValues: map[string]string{"e": body, "h": x.FieldValues["h"]}}
	}
	for name, tamper := range map[string]struct {
		with func(f *forgery, at int) // tampers with the entry at, from 0
		// expected places of broken entries, from 1; places without an entry are ignored
		broken func(at int) []int
		cut    func(at int) (last int, missing int64) // expected Cut; see wants
	}{
		"an entry's body is changed": {
			with: func(f *forgery, at int) {
				f.entries[at] = withBody(f.entries[at],
					strings.Replace(f.entries[at].FieldValues["e"], "victim", "nobody", 1))
				f.rewrite(f.entries...)
			},
			broken: func(at int) []int { return []int{at + 1} },
		},
		"an entry's hash is changed": {
			with: func(f *forgery, at int) {
				f.entries[at].FieldValues["h"] = strings.Repeat("h", 32)
				f.rewrite(f.entries...)
			},
			broken: func(at int) []int { return []int{at + 1, at + 2} },
			cut:    atTheEnd,
		},
		"an entry is forged with another key": {
			with: func(f *forgery, at int) {
				f.entries[at] = f.forged(at)
				f.rewrite(f.entries...)
			},
			broken: func(at int) []int { return []int{at + 1, at + 2} },
			cut:    atTheEnd,
		},
		"an entry is removed": {
			with:   func(f *forgery, at int) { f.rewrite(slices.Delete(f.entries, at, at+1)...) },
			broken: func(at int) []int { return []int{at + 1} },
			cut: func(at int) (int, int64) {
				if at == forgedEntries-1 {
					return forgedEntries - 1, 1
				}
				return 0, 0
			},
		},
		"an entry is inserted": {
			with:   func(f *forgery, at int) { f.rewrite(slices.Insert(f.entries, at, f.forged(at))...) },
			broken: func(at int) []int { return []int{at + 1, at + 2} },
		},
		"an entry is duplicated": {
			with:   func(f *forgery, at int) { f.rewrite(slices.Insert(f.entries, at, f.entries[at])...) },
			broken: func(at int) []int { return []int{at + 2} },
		},
		"an entry is swapped with the one before it": {
			with: func(f *forgery, at int) {
				before := (at + forgedEntries - 1) % forgedEntries
				f.entries[at], f.entries[before] = f.entries[before], f.entries[at]
				f.rewrite(f.entries...)
			},
			broken: func(at int) []int {
				if at == 0 {
					return []int{1, 2, forgedEntries}
				}
				return []int{at, at + 1, at + 2}
			},
			cut: func(at int) (int, int64) {
				if at == 0 {
					return forgedEntries, 0
				}
				return atTheEnd(at)
			},
		},
		"another chain's entry is added": {
			with: func(f *forgery, at int) {
				f.rewrite(slices.Insert(f.entries, at, f.stored(Stream(keyspace.BucketOf("other")))[0])...)
			},
			broken: func(at int) []int { return []int{at + 1, at + 2} },
		},
		"the newest entries are removed": {
			with: func(f *forgery, at int) { f.rewrite(f.entries[:at]...) },
			cut:  func(at int) (int, int64) { return at, int64(forgedEntries - at) },
		},
		"the oldest entries are trimmed": {
			with: func(f *forgery, at int) {
				f.do(f.t, "XTRIM", f.stream, "MAXLEN", fmt.Sprint(forgedEntries-at))
			},
			broken: func(at int) []int {
				if at == 0 {
					return nil
				}
				return []int{1}
			},
		},
		"the newest entries are removed and the head is an older one": {
			with: func(f *forgery, at int) {
				f.rewrite(f.entries[:at]...)
				f.do(f.t, "SET", HeadKey(f.bucket), f.heads[max(0, at-2)])
			},
			cut: func(at int) (int, int64) {
				if at == 1 {
					return 0, 0 // the head matches: chain and head were both reset
				}
				if at == 0 {
					return 0, 1
				}
				return at, 0
			},
		},
		"the head is forged": {
			with: func(f *forgery, at int) {
				f.rewrite(f.entries[:at]...)
				var newest []byte
				if at > 0 {
					newest = []byte(f.entries[at-1].FieldValues["h"])
				}
				forged := NewKey([]byte("a guess")).head(f.bucket, uint64(at),
					append(newest, make([]byte, 32-len(newest))...))
				f.do(f.t, "SET", HeadKey(f.bucket), string(forged))
			},
			cut: func(at int) (int, int64) { return at, -1 },
		},
		"the head is removed": {
			with: func(f *forgery, _ int) { f.do(f.t, "DEL", HeadKey(f.bucket)) },
			cut:  func(int) (int, int64) { return forgedEntries, -1 },
		},
		"the head is another chain's": {
			with: func(f *forgery, _ int) {
				head, err := f.Head(t.Context(), keyspace.BucketOf("other"))
				if err != nil {
					t.Fatal(err)
				}
				f.do(f.t, "SET", HeadKey(f.bucket), string(head))
			},
			cut: func(int) (int, int64) { return forgedEntries, -1 },
		},
	} {
		t.Run(name, func(t *testing.T) {
			for at := range forgedEntries {
				f := c.forge(t)
				tamper.with(f, at)
				f.wants(at, tamper.broken, tamper.cut)
			}
		})
	}
}

// atTheEnd returns the expected cut if the newest entry is another than the head says.
func atTheEnd(at int) (last int, missing int64) {
	if at == forgedEntries-1 {
		return forgedEntries, 0
	}
	return 0, 0
}

// wants compares the result of Verify with the expected one after a change at a place. A
// cut of (0, 0) means none. A missing of -1 means that the number is unknown.
func (f *forgery) wants(at int, broken func(int) []int, cut func(int) (int, int64)) {
	f.t.Helper()
	after := f.stored(f.stream)
	id := func(place int) string {
		if place < 1 || place > len(after) {
			return ""
		}
		return idOf(f.bucket, after[place-1])
	}
	var want Verified
	want.Entries = int64(len(after)) + 1
	if broken != nil {
		for _, place := range broken(at) {
			if id(place) != "" {
				want.Broken = append(want.Broken, id(place))
			}
		}
	}
	if cut != nil {
		if last, missing := cut(at); last != 0 || missing != 0 {
			want.Cut = []Cut{{f.bucket, id(last), max(0, missing)}}
		}
	}
	if got := f.verified(f.t); fmt.Sprintf("%+v", got) != fmt.Sprintf("%+v", want) || got.Good() &&
		(broken != nil && broken(at) != nil) {
		f.t.Errorf("at %d: got %+v, want %+v", at, got, want)
	}
}

// Later entries do not hide that earlier ones, or the head, were removed or altered.
func TestLaterEntriesHideNothing(t *testing.T) {
	c := open(t, valkeytest.Start(t))
	for name, tamper := range map[string]func(*forgery){
		"the newest are removed":  func(f *forgery) { f.rewrite(f.entries[:2]...) },
		"all are removed":         func(f *forgery) { f.do(t, "DEL", f.stream) },
		"the head is removed":     func(f *forgery) { f.do(t, "DEL", HeadKey(f.bucket)) },
		"the head is malformed":   func(f *forgery) { f.do(t, "SET", HeadKey(f.bucket), "x") },
		"the head is an old one":  func(f *forgery) { f.do(t, "SET", HeadKey(f.bucket), f.heads[1]) },
		"the newest is malformed": func(f *forgery) { f.do(t, "XADD", f.stream, "*", "x", "y") },
	} {
		t.Run(name, func(t *testing.T) {
			f := c.forge(t)
			tamper(f)
			if v := c.verified(t); v.Good() {
				t.Errorf("immediately: got %+v, want it found", v)
			}
			for n := range 3 {
				c.record(t, entryOf("victim", 10+n))
				if v := c.verified(t); len(v.Broken) == 0 {
					t.Errorf("%d entries later: got %+v, want a broken entry", n+1, v)
				}
			}
		})
	}
}

// Verify does not find a chain that was reset with its head to an earlier state, as the
// package comment says.
func TestResetOfChainAndHeadIsNotFound(t *testing.T) {
	f := open(t, valkeytest.Start(t)).forge(t)
	f.rewrite(f.entries[:2]...)
	f.do(t, "SET", HeadKey(f.bucket), f.heads[1])
	if v := f.verified(t); !v.Good() {
		t.Errorf("got %+v, want it good: correct the package comment", v)
	}
}

// Concurrent writers of a chain each append their entries once, and Verify meanwhile
// finds the chain good.
func TestWritersOfOneChain(t *testing.T) {
	onEveryServer(t, func(t *testing.T, c *chains) {
		const writers, each = 8, 25
		var writing, verifying sync.WaitGroup
		done := make(chan struct{})
		for range 2 {
			verifying.Go(func() {
				for {
					if v := c.verified(t); !v.Good() {
						t.Errorf("while entries are written: got %+v, want it good", v)
						return
					}
					select {
					case <-done:
						return
					default:
					}
				}
			})
		}
		for w := range writers {
			writing.Go(func() {
				for i := range each {
					c.record(t, entryOf("busy", w*each+i))
				}
			})
		}
		writing.Wait()
		close(done)
		verifying.Wait()
		versions := map[int64]bool{}
		for _, e := range c.all(t, Query{Subject: "busy"}) {
			versions[e.Version] = true
		}
		if v := c.verified(t); !v.Good() || v.Entries != writers*each || len(versions) != writers*each {
			t.Errorf("got %+v, %d versions; want %d entries", v, len(versions), writers*each)
		}
	})
}

// An entry that was sealed for an old head is not appended.
func TestSealedForAnOldHead(t *testing.T) {
	onSingleServers(t, func(t *testing.T, c *chains) {
		b := keyspace.BucketOf("late")
		sealed, err := c.key.Seal(b, nil, entryOf("late", 1))
		if err != nil {
			t.Fatal(err)
		}
		if !c.tryAppend(t, b, sealed) || c.tryAppend(t, b, sealed) {
			t.Error("the entry was appended twice, or never")
		}
		before, err := c.Head(t.Context(), b)
		if err != nil {
			t.Fatal(err)
		}
		c.tryAppend(t, b, sealed)
		if after, err := c.Head(t.Context(), b); err != nil || !bytes.Equal(after, before) {
			t.Errorf("the head changed, %v", err)
		}
		if v := c.verified(t); !v.Good() || v.Entries != 1 {
			t.Errorf("got %+v, want one entry", v)
		}
	})
}
