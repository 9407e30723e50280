package enforce

import (
	"errors"
	"math/rand/v2"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"tidegate/internal/apikey"
	"tidegate/internal/enforce/compiled"
	"tidegate/internal/limiter"
	"tidegate/internal/policy"
	"tidegate/internal/policyset"
	"tidegate/internal/store/keyspace"
	"tidegate/internal/testing/valkeytest"
)

// However a key's record and the plans in its bucket are damaged, only its own secret is
// allowed under its id, a revoked key is refused, and every check ends with an answer or
// an error.
func TestDamagedRecordsLetNobodyIn(t *testing.T) {
	w := open(t, valkeytest.Start(t))
	w.plan(t, "free", hourly(1_000_000))
	w.save(t, func(s *policy.Set) { s.Plans[0].Candidate = perMinute(5) })
	k, secret := w.create(t, "damaged", "free")
	k = must(
		w.SetOverride(t.Context(), k.ID, k.Version,
			&policy.Override{Limits: []limiter.Limit{hourly(1_000_000), hourly(9)}, Reason: "long"}, byTest),
	)
	unregistered := call(must(apikey.Renew("test", k.ID)))
	names := []string{keyspace.Record(k.ID), policyset.CopyKey(keyspace.BucketOf(k.ID))}
	var whole [2]string
	for i, name := range names {
		whole[i] = must(w.client.Do(t.Context(), w.client.B().Get().Key(name).Build()).ToString())
	}
	rapid.Check(t, func(t *rapid.T) {
		random := rand.New(rand.NewPCG(rapid.Uint64().Draw(t, "seed"), 0))
		which := random.IntN(3)
		for i, name := range names {
			bytes := whole[i]
			if which != i {
				// a copy keeps its version: a newer one only makes checks look for it
				bytes = bytes[:5*i] + damaged(random, bytes[5*i:])
			}
			w.client.Do(t.Context(), w.client.B().Set().Key(name).Value(bytes).Build())
			if i == 0 {
				w.checkReadable(t, k.ID, bytes)
			}
		}
		if c, err := w.checker.Check(t.Context(), unregistered, nil); err == nil || c.Allowed {
			t.Fatalf("an unknown caller is let in: %s", describe(c))
		}
		if c, err := w.checker.Check(t.Context(), call(secret), nil); err != nil && c.Allowed {
			t.Fatalf("%s, %v", describe(c), err)
		}
	})
	w.client.Do(t.Context(), w.client.B().Set().Key(names[1]).Value(whole[1]).Build())
	revoked := []byte(whole[0])
	revoked[1] = 0
	for range 200 {
		bytes := damaged(rand.New(rand.NewPCG(rand.Uint64(), 0)), string(revoked[2:]))
		w.client.Do(t.Context(), w.client.B().Set().Key(names[0]).Value(string(revoked[:2])+bytes).Build())
		if c, err := w.checker.Check(t.Context(), call(secret), nil); !errors.Is(err,
			policy.ErrUnknownKey) || c.Allowed {
			t.Fatalf("revoked: %v, allowed %t", err, c.Allowed)
		}
	}
}

// checkReadable reads what may be no record.
func (w *world) checkReadable(t *rapid.T, id, bytes string) {
	t.Helper()
	if _, _, err := policyset.DecodeRecord(id, []byte(bytes)); err != nil &&
		!errors.Is(err, policy.ErrUnreadable) {
		t.Fatalf("%q: %v", bytes, err)
	}
}

// damaged is some text with a few bytes changed, cut out, repeated, or cut off.
func damaged(random *rand.Rand, text string) string {
	bytes := []byte(text)
	for range 1 + random.IntN(4) {
		if len(bytes) == 0 {
			break
		}
		at := random.IntN(len(bytes))
		end := min(len(bytes), at+1+random.IntN(6))
		switch random.IntN(5) {
		case 0:
			bytes[at] ^= 1 << random.IntN(8)
		case 1:
			bytes[at] = byte(random.IntN(256))
		case 2:
			clear(bytes[at:end])
		case 3:
			bytes = append(bytes[:at:at], bytes[end:]...)
		default:
			bytes = bytes[:at]
		}
	}
	return string(bytes)
}

// Any bytes are no record, no Set and no copy, or are read without a panic.
func FuzzDecode(f *testing.F) {
	k := policy.Key{
		ID:       "id",
		Kind:     policy.APIKey,
		Name:     "name",
		Env:      "test",
		Status:   policy.Active,
		Version:  1,
		Override: &policy.Override{Limits: perMinute(3), Reason: "r"},
	}
	record, err := policyset.EncodeRecord(k, policyset.Secrets{})
	if err != nil {
		f.Fatal(err)
	}
	f.Add(record)
	f.Add(
		policyset.EncodeSet(7, []byte(
			`{"plans":[{"number":1,"name":"free","limits":[{"requests":1,"window":"1m"}]}],"routes":[{"name":"r","cost":2}]}`)),
	)
	for i := range record {
		f.Add(record[:i])
		f.Add(slices.Concat(record[:i], []byte{0xff}, record[i+1:]))
	}
	f.Fuzz(func(t *testing.T, bytes []byte) {
		if k, s, err := policyset.DecodeRecord("id", bytes); err == nil {
			if again, err := policyset.EncodeRecord(k, s); err == nil {
				if _, _, err := policyset.DecodeRecord("id", again); err != nil {
					t.Fatalf("%+v is written as what cannot be read: %v", k, err)
				}
			}
		} else if !errors.Is(err, policy.ErrUnreadable) {
			t.Fatal(err)
		}
		if s, err := policyset.DecodeSet(bytes); err == nil && s.Validate() == nil {
			if _, err := compiled.New(s); err != nil {
				t.Fatalf("%+v is valid, but does not compile: %v", s, err)
			}
		}
	})
}
