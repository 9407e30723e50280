package audit

import (
	"encoding/hex"
	"errors"
	"fmt"
	"math/rand/v2"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/valkey-io/valkey-go"
	"pgregory.net/rapid"

	"tidegate/internal/store/keyspace"
	"tidegate/internal/testing/valkeytest"
)

// List and Get return an entry as it was recorded, with its hash and the previous one.
func TestEntriesAreReadAsRecorded(t *testing.T) {
	onSingleServers(t, func(t *testing.T, c *chains) {
		var recorded []Entry
		for n := range 4 {
			recorded = append(recorded, entryOf("subject", n))
			c.record(t, recorded[n])
		}
		entries := c.all(t, Query{Subject: "subject"})
		slices.Reverse(entries)
		if len(entries) != len(recorded) {
			t.Fatalf("got %d entries, want %d", len(entries), len(recorded))
		}
		previous := ""
		for i, e := range entries {
			want := recorded[i]
			want.ID, want.Previous, want.Hash = e.ID, previous, e.Hash
			if previous = e.Hash; len(e.Hash) != hex.EncodedLen(32) || !reflect.DeepEqual(e, want) {
				t.Errorf("listed: got %+v, want %+v", e, want)
			}
			if got, found, err := c.Get(t.Context(), e.ID); err != nil || !found ||
				!reflect.DeepEqual(got, e) {
				t.Errorf("by id: got %+v, %t, %v; want %+v", got, found, err, e)
			}
		}
		for _, id := range []string{"1-1-7", "99999999999999-0-7",
			strings.Replace(entries[0].ID, "-", "-9", 1)} {
			if _, found, err := c.Get(t.Context(), id); found || err != nil {
				t.Errorf("%s: got found %t, %v; want false", id, found, err)
			}
		}
	})
}

// A folded page has one entry of each job and every other entry.
func TestFoldedList(t *testing.T) {
	onSingleServers(t, func(t *testing.T, c *chains) {
		for n := range 6 {
			e := entryOf(fmt.Sprint("subject-", n), n)
			if n%2 == 1 {
				e.Job = "job"
			}
			c.record(t, e)
		}
		end := entryOf("job", 6)
		end.Action = JobEnd
		c.record(t, end)
		page, err := c.List(t.Context(), Query{Fold: true})
		ofNone := func(e Entry) bool { return e.BulkJob() == "" }
		ofJobs := slices.DeleteFunc(slices.Clone(page.Entries), ofNone)
		if err != nil || page.Next != "" || len(page.Entries) != 4 || len(ofJobs) != 1 {
			t.Errorf("got %d entries, %d of the job, %v, want 4 and 1", len(page.Entries), len(ofJobs), err)
		}
		if all := c.all(t, Query{}); len(all) != 7 {
			t.Errorf("unfolded: got %d entries, want 7", len(all))
		}
	})
}

// planted replaces all chains by some with random entries and ids, and returns the
// entries.
func (c *chains) planted(t tester, random *rand.Rand, chains, most int) (all []Entry) {
	t.Helper()
	c.do(t, "FLUSHALL", "SYNC")
	var commands valkey.Commands
	for _, chain := range random.Perm(keyspace.Buckets)[:chains] {
		at, sequence, b := 1000, 0, keyspace.Bucket(chain)
		for n := range random.IntN(most + 1) {
			sequence++
			if step := random.IntN(5); step > 1 {
				at, sequence = at+step, random.IntN(3)
			}
			e := entryOf(fmt.Sprint("subject", random.IntN(2)), n)
			sealed, err := c.key.Seal(b, nil, e)
			if err != nil {
				t.Fatal(err)
			}
			id := fmt.Sprintf("%d-%d", at, sequence)
			e.ID = fmt.Sprintf("%s-%d", id, b)
			all = append(all, e)
			commands = append(commands, c.client.B().Xadd().Key(Stream(b)).Id(id).FieldValue().
				FieldValue("e", string(sealed.Body)).FieldValue("h", string(sealed.Hash)).Build())
		}
	}
	for _, result := range c.client.DoMulti(t.Context(), commands...) {
		if err := result.Error(); err != nil {
			t.Fatal(err)
		}
	}
	slices.SortFunc(all, func(a, b Entry) int { return older(positionOf(a.ID), positionOf(b.ID)) })
	return all
}

// Pages of any size have every entry that matches the query once, newest first over all
// chains, also if chains have entries of the same millisecond.
func TestPagesHaveEveryEntryOnce(t *testing.T) {
	c := open(t, valkeytest.Start(t))
	rapid.Check(t, func(t *rapid.T) {
		random := rand.New(rand.NewPCG(rapid.Uint64().Draw(t, "seed"), 0))
		chains := rapid.SampledFrom([]int{1, 2, 7, 256}).Draw(t, "chains")
		all := c.planted(t, random, chains, max(1, 120/chains))
		q := Query{
			Action: rapid.SampledFrom([]string{"", "", "key.override", "key.create"}).Draw(t, "action"),
			By:     rapid.SampledFrom([]string{"", "", "user 1"}).Draw(t, "by"),
			Count:  rapid.SampledFrom([]int{0, 7, 19, 50, 500, 10_000}).Draw(t, "count"),
		}
		if len(all) < 30 {
			q.Count = 1
		}
		var want, got []string
		for _, e := range all {
			if q.matches(e) {
				want = append(want, e.ID)
			}
		}
		for _, e := range c.all(t, q) {
			got = append(got, e.ID)
		}
		if !slices.Equal(got, want) {
			t.Fatalf("%+v of %d entries of %d chains: got %v, want %v", q, len(all), chains, got, want)
		}
	})
}

// A page has at most Count entries. Entries recorded meanwhile do not change the pages
// after it.
func TestPagesAreStable(t *testing.T) {
	onEveryServer(t, func(t *testing.T, c *chains) {
		for n := range 40 {
			c.record(t, entryOf(fmt.Sprintf("subject%d", n%7), n))
		}
		first, err := c.List(t.Context(), Query{Count: 15})
		if err != nil || len(first.Entries) != 15 || first.Next == "" {
			t.Fatalf("first page: got %d entries, next %q, %v; want 15", len(first.Entries), first.Next, err)
		}
		for n := range 40 {
			c.record(t, entryOf(fmt.Sprintf("subject%d", n%7), 100+n))
		}
		rest := c.all(t, Query{Count: 10, After: first.Next})
		if len(rest) != 25 {
			t.Fatalf("other pages: got %d entries, want 25", len(rest))
		}
		for _, e := range rest {
			if e.Version >= 100 || slices.ContainsFunc(first.Entries, func(f Entry) bool {
				return f.ID == e.ID
			}) {
				t.Errorf("got entry %s of version %d on a later page", e.ID, e.Version)
			}
		}
	})
}

// An entry that cannot be decoded hides no other.
func TestUnreadableEntryHidesNoOther(t *testing.T) {
	onSingleServers(t, func(t *testing.T, c *chains) {
		c.record(t, entryOf("subject", 1))
		stream := Stream(keyspace.BucketOf("subject"))
		c.do(t, "XADD", stream, "*", "e", "{not JSON", "h", "x")
		c.do(t, "XADD", stream, "*", "other", "fields")
		c.record(t, entryOf("subject", 2))
		entries := c.all(t, Query{})
		if len(entries) != 4 || entries[0].Version != 2 || entries[3].Version != 1 {
			t.Fatalf("got %+v, want 4 entries", entries)
		}
		for _, e := range entries[1:3] {
			if e.ID == "" || e.Action != "" || e.Subject != "" || time.Since(e.Time) > time.Hour {
				t.Errorf("got %+v, want only an id and a time", e)
			}
		}
		if v := c.verified(t); len(v.Broken) != 3 {
			t.Errorf("verify: got %+v, want both broken, and the entry after them", v)
		}
	})
}

// List and Get refuse texts that are not a position.
func TestInvalidPositions(t *testing.T) {
	c := open(t, valkeytest.Embedded(t))
	for _, text := range []string{
		"x", "1-1", "1-1-256", "-1-1-1", "1--1-1", "1-1-1-1", "1-1-", "+", "99999999999999999999-0-0",
		"1-1-0x1", " 1-1-1", "1-1-1\n",
	} {
		if _, err := c.List(t.Context(), Query{After: text}); !errors.Is(err, ErrPosition) {
			t.Errorf("list after %q: got %v, want ErrPosition", text, err)
		}
		if _, _, err := c.Get(t.Context(), text); !errors.Is(err, ErrPosition) {
			t.Errorf("get %q: got %v, want ErrPosition", text, err)
		}
	}
	if _, _, err := c.Get(t.Context(), ""); !errors.Is(err, ErrPosition) {
		t.Errorf("get of an empty id: got %v, want ErrPosition", err)
	}
}

// A Key prints as "audit key" with every verb. It depends only on the secret.
func TestKeyHidesItself(t *testing.T) {
	key := NewKey([]byte("a secret"))
	for _, printed := range []string{fmt.Sprint(key), fmt.Sprintf("%v %+v %#v %s", key, key, key, key)} {
		if strings.Trim(strings.ReplaceAll(printed, "audit key", ""), " ") != "" {
			t.Errorf("got %q, want only audit key", printed)
		}
	}
	if NewKey([]byte("a secret")) != key || NewKey([]byte("another")) == key {
		t.Error("keys of one secret differ, or keys of two secrets are equal")
	}
}

// A query finds a subject's entry behind thousands of entries of others in its chain,
// also with pages of one entry.
func TestSubjectBehindManyOthers(t *testing.T) {
	c := open(t, valkeytest.Start(t))
	c.record(t, entryOf("rare", 1))
	b := keyspace.BucketOf("rare")
	var commands valkey.Commands
	for n := range 3000 {
		sealed, err := c.key.Seal(b, nil, entryOf("rare-not", n))
		if err != nil {
			t.Fatal(err)
		}
		commands = append(commands, c.client.B().Xadd().Key(Stream(b)).Id("*").FieldValue().
			FieldValue("e", string(sealed.Body)).FieldValue("h", string(sealed.Hash)).Build())
	}
	for _, result := range c.client.DoMulti(t.Context(), commands...) {
		if err := result.Error(); err != nil {
			t.Fatal(err)
		}
	}
	page, err := c.List(t.Context(), Query{Subject: "rare", Count: 1})
	if err != nil || len(page.Entries) != 1 || page.Entries[0].Version != 1 {
		t.Errorf("got %+v, %v; want the one entry of rare", page, err)
	}
}
