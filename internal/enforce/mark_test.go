package enforce

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"tidegate/internal/cause"
	"tidegate/internal/policy"
	"tidegate/internal/store/keyspace"
	"tidegate/internal/testing/storetest"
	"tidegate/internal/testing/valkeytest"
)

// mark puts a mark on a key, until an instant; the zero time revokes it.
func (w *world) mark(name, id string, until time.Time) {
	w.t.Helper()
	text := fmt.Sprintf(`{"id":%q,"why":"\"until\":1","action":"key.ban"`, id)
	if !until.IsZero() {
		text += fmt.Sprintf(`,"until":%d`, until.UnixMicro())
	}
	subject := w.keys[name].ID
	w.do("HSET", keyspace.BucketOf(subject).Marks(), id, subject+"\n"+text+"}")
}

func (w *world) unmark(name, id string) {
	w.t.Helper()
	w.do("HDEL", keyspace.BucketOf(w.keys[name].ID).Marks(), id)
}

// A mark refuses its key alone, at once and in one round trip, and nothing stays taken,
// also in a bucket that lost its records. It ends when it is taken away, and a ban at its
// end.
func TestMarks(t *testing.T) {
	storetest.OnSingleServers(t, func(t *testing.T, url string) {
		w := newWorld(t, url)
		w.plan("free", "100 per hour", "100 per hour, together")
		w.key("one", "free")
		w.key("two", "free")
		w.check("one", "GET /x")
		w.mark("one", "a", time.Time{})
		refused := func(when string) (trips int) {
			t.Helper()
			return w.flushes(func() {
				_, err := w.Check(t.Context(), w.callOf("one", "GET /x"))
				refusal, is := errors.AsType[*policy.RefusedError](err)
				if !is || refusal.Cause != cause.Revoked || !refusal.Verified {
					t.Errorf("%s: got %v, want it revoked", when, err)
				}
			})
		}
		refused("a mark") // what its step on shared limits took is given back
		if trips := refused("again"); trips != 1 {
			t.Errorf("%d round trips, want 1", trips)
		}
		if terms, _ := w.Known(w.callOf("one", "GET /x"), time.Hour); terms == nil || terms.Refused == nil {
			t.Error("without Valkey: got no refusal")
		}
		w.check("two", "GET /x")
		until := w.serverNow().Add(time.Hour).Truncate(time.Second)
		w.mark("one", "b", until)
		w.unmark("one", "a")
		if r := w.check("one", "GET /x"); r.Allowed || !r.BannedUntil.Equal(until) {
			t.Errorf("a ban: got %+v, want it banned until %s", r, until)
		}
		w.mark("one", "b", w.serverNow().Add(-time.Second))
		if r := w.check("one", "GET /x"); !r.Allowed || r.Limits[0].Used() != 2 || r.Limits[1].Used() != 3 {
			t.Errorf("a ban that ended: got %+v, want its second call allowed, and the third of all", r)
		}
		w.unmark("one", "b")
		w.mark("one", "c", time.Time{})
		w.do("DEL", keyspace.BucketOf(w.keys["one"].ID).Records())
		refused("a lost bucket")
		w.unmark("one", "c")
		_, err := w.Check(t.Context(), w.callOf("one", "GET /x"))
		if !errors.Is(err, policy.ErrMissing) {
			t.Errorf("a lost bucket without a mark: got %v, want ErrMissing", err)
		}
	})
}

// A bucket that lost its records is an outage, never an unknown key. A bucket that is behind
// does not bring an older policy back.
func TestLostBucket(t *testing.T) {
	w := newWorld(t, valkeytest.Start(t))
	w.plan("free", "100 per hour")
	w.key("one", "free")
	w.check("one", "GET /x")
	bucket := keyspace.BucketOf(w.keys["one"].ID)
	w.plan("free", "7 per hour")
	w.check("one", "GET /x")
	w.do("HSET", bucket.Records(), keyspace.PolicyField, fmt.Sprint(w.policy.Version-1))
	if r := w.check("one", "GET /x"); r.Limits[0].Requests != 7 || r.SetVersion != w.policy.Version {
		t.Errorf("a bucket that is behind: got %+v, want the newest policy", r)
	}
	w.do("DEL", bucket.Records())
	fresh := NewChecker(w.client, pepper)
	for name, checker := range map[string]*Checker{"one that knows it": w.Checker, "another": fresh} {
		_, err := checker.Check(t.Context(), w.callOf("one", "GET /x"))
		if !errors.Is(err, policy.ErrMissing) || errors.Is(err, policy.ErrUnknownKey) {
			t.Errorf("%s: got %v, want ErrMissing", name, err)
		}
	}
	for _, b := range keyspace.PolicyBuckets {
		w.do("DEL", b.Records())
	}
	if err := NewChecker(w.client, pepper).Load(t.Context()); !errors.Is(err, policy.ErrMissing) ||
		!errors.Is(err, ErrStale) {
		t.Errorf("load: got %v, want ErrMissing", err)
	}
}

// While one of the two buckets with the policy lacks it or is behind, checks read the other.
func TestPolicyOfTheOtherBucket(t *testing.T) {
	for i, b := range keyspace.PolicyBuckets {
		w := newWorld(t, valkeytest.Start(t))
		w.plan("free", "50 per hour")
		w.plan("free", "100 per hour")
		w.key("one", "free")
		w.do("HSET", b.Records(), keyspace.RecordField(keyspace.PolicyID), `1 {"plans":null}`)
		w.check("one", "GET /x")
		w.plan("free", "7 per hour")
		w.do("HDEL", b.Records(), keyspace.RecordField(keyspace.PolicyID))
		if r := w.check("one", "GET /x"); r.Limits[0].Requests != 7 {
			t.Errorf("bucket %d lost: got %+v, want the newest policy", i, r)
		}
	}
}
