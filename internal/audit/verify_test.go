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

// Chains that nobody touched verify, however many subjects they are about.
func TestUntouchedChainsVerify(t *testing.T) {
	onEveryServer(t, func(t *testing.T, c *chains) {
		if v := c.verified(t); !v.Good() || v.Entries != 0 {
			t.Errorf("nothing was recorded yet: %+v", v)
		}
		for i := range 300 {
			c.record(t, about(fmt.Sprintf("subject%d", i%90), i))
		}
		if v := c.verified(t); !v.Good() || v.Entries != 300 {
			t.Errorf("%+v, want 300 good entries", v)
		}
	})
}

// forgery is a chain about to be tampered with: its entries as they are stored, oldest
// first.
type forgery struct {
	*chains
	t       *testing.T
	bucket  keyspace.Bucket
	stream  string
	entries []valkey.XRangeEntry
	heads   []string // after each entry
}

const forgedEntries = 5

// forge records some entries about one subject, and one of another chain.
func (c *chains) forge(t *testing.T) *forgery {
	t.Helper()
	c.do(t, "FLUSHALL", "SYNC")
	f := &forgery{chains: c, t: t, bucket: keyspace.BucketOf("victim")}
	f.stream = Stream(f.bucket)
	for n := range forgedEntries {
		c.record(t, about("victim", n))
		head, err := c.Head(t.Context(), f.bucket)
		if err != nil {
			t.Fatal(err)
		}
		f.heads = append(f.heads, string(head))
	}
	c.record(t, about("other", 1))
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

// rewrite puts other entries in the place of the stream's.
func (f *forgery) rewrite(entries ...valkey.XRangeEntry) {
	f.t.Helper()
	f.do(f.t, "DEL", f.stream)
	for i, x := range entries {
		f.do(f.t, "XADD", f.stream, fmt.Sprintf("1000-%d", i+1), "e", x.FieldValues["e"], "h",
			x.FieldValues["h"])
	}
}

// forged is an entry with other words under a hash made with another key.
func (f *forgery) forged(i int) valkey.XRangeEntry {
	f.t.Helper()
	sealed, err := NewKey([]byte("a guess")).Seal(f.bucket, []byte(f.heads[max(0, i-1)]), about("victim", 99))
	if err != nil {
		f.t.Fatal(err)
	}
	return valkey.XRangeEntry{FieldValues: map[string]string{"e": string(sealed.Body),
		"h": string(sealed.Hash)}}
}

// Whatever is done to a chain without the key is found, and where it was done is named.
func TestTamperingIsFoundAndNamed(t *testing.T) {
	c := open(t, valkeytest.Start(t))
	words := func(x valkey.XRangeEntry, words string) valkey.XRangeEntry {
		return valkey.XRangeEntry{FieldValues: map[string]string{"e": words, "h": x.FieldValues["h"]}}
	}
	for name, tamper := range map[string]struct {
		with   func(f *forgery, at int)
		broken func(at int) []int // places, from 1, of the entries that are named; 0 is none
		cut    func(at int) (last int, missing int64)
	}{
		"an entry's words are changed": {
			with: func(f *forgery, at int) {
				f.entries[at] = words(f.entries[at],
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
		"an entry is there twice": {
			with:   func(f *forgery, at int) { f.rewrite(slices.Insert(f.entries, at, f.entries[at])...) },
			broken: func(at int) []int { return []int{at + 2} },
		},
		"an entry comes before the one before it": {
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
		"the newest entries are removed and the head is an older one's": {
			with: func(f *forgery, at int) {
				f.rewrite(f.entries[:at]...)
				f.do(f.t, "SET", HeadKey(f.bucket), f.heads[max(0, at-2)])
			},
			cut: func(at int) (int, int64) {
				if at == 1 {
					return 0, 0 // and that is what the head says: both were set back
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

// atTheEnd is the cut of a chain whose newest entry is another than its head says.
func atTheEnd(at int) (last int, missing int64) {
	if at == forgedEntries-1 {
		return forgedEntries, 0
	}
	return 0, 0
}

// wants compares what Verify finds to what was done at a place. A cut without entries and
// missing ones is none; -1 stands for a number nobody knows.
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
		f.t.Errorf("at %d: %+v, want %+v", at, got, want)
	}
}

// What is recorded behind entries that were taken out does not hide that.
func TestLaterEntriesHideNothing(t *testing.T) {
	c := open(t, valkeytest.Start(t))
	for name, tamper := range map[string]func(*forgery){
		"the newest are gone":     func(f *forgery) { f.rewrite(f.entries[:2]...) },
		"all are gone":            func(f *forgery) { f.do(t, "DEL", f.stream) },
		"the head is gone":        func(f *forgery) { f.do(t, "DEL", HeadKey(f.bucket)) },
		"the head is no head":     func(f *forgery) { f.do(t, "SET", HeadKey(f.bucket), "x") },
		"the head is an old one":  func(f *forgery) { f.do(t, "SET", HeadKey(f.bucket), f.heads[1]) },
		"the newest is something": func(f *forgery) { f.do(t, "XADD", f.stream, "*", "x", "y") },
	} {
		t.Run(name, func(t *testing.T) {
			f := c.forge(t)
			tamper(f)
			if v := c.verified(t); v.Good() {
				t.Errorf("at once: %+v", v)
			}
			for n := range 3 {
				c.record(t, about("victim", 10+n))
				if v := c.verified(t); len(v.Broken) == 0 {
					t.Errorf("%d entries later: %+v", n+1, v)
				}
			}
		})
	}
}

// The limit of what can be seen: a chain and its head, both as they were once.
func TestSettingBackBothIsNotSeen(t *testing.T) {
	f := open(t, valkeytest.Start(t)).forge(t)
	f.rewrite(f.entries[:2]...)
	f.do(t, "SET", HeadKey(f.bucket), f.heads[1])
	if v := f.verified(t); !v.Good() {
		t.Errorf("%+v: say so in the package's comment", v)
	}
}

// However many write to a chain at once, every entry is in it once, and Verify meanwhile
// finds nothing wrong.
func TestWritersOfOneChain(t *testing.T) {
	onEveryServer(t, func(t *testing.T, c *chains) {
		const writers, each = 8, 25
		var writing, verifying sync.WaitGroup
		done := make(chan struct{})
		for range 2 {
			verifying.Go(func() {
				for {
					if v := c.verified(t); !v.Good() {
						t.Errorf("while entries are written: %+v", v)
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
					c.record(t, about("busy", w*each+i))
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
			t.Errorf("%+v, %d versions; want %d entries", v, len(versions), writers*each)
		}
	})
}

// What was sealed for a head that is no longer the chain's leaves nothing.
func TestSealedForAnOldHead(t *testing.T) {
	onSingleServers(t, func(t *testing.T, c *chains) {
		b := keyspace.BucketOf("late")
		sealed, err := c.Key().Seal(b, nil, about("late", 1))
		if err != nil {
			t.Fatal(err)
		}
		if !c.try(t, b, sealed) || c.try(t, b, sealed) {
			t.Error("an entry is there twice, or not at all")
		}
		before, err := c.Head(t.Context(), b)
		if err != nil {
			t.Fatal(err)
		}
		c.try(t, b, sealed)
		if after, err := c.Head(t.Context(), b); err != nil || !bytes.Equal(after, before) {
			t.Errorf("the head moved: %v", err)
		}
		if v := c.verified(t); !v.Good() || v.Entries != 1 {
			t.Errorf("%+v, want one entry", v)
		}
	})
}
