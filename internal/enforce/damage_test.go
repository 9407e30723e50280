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
	"tidegate/internal/testing/registrytest"
	"tidegate/internal/testing/valkeytest"
)

// With a damaged record or a damaged copy of the plans, a wrong secret is never allowed,
// and a revoked key is unknown. A check returns a result or an error, and never panics.
func TestDamagedRecordsAllowNobody(t *testing.T) {
	w := open(t, valkeytest.Start(t))
	w.plan(t, "free", hourly(1_000_000))
	k, secret := w.create(t, "damaged", "free")
	k = must(
		registrytest.Override(t.Context(), w, k.ID, k.Version,
			&policy.Override{Limits: []limiter.Limit{hourly(1_000_000), hourly(9)}, Reason: "long"}, byTest),
	)
	wrongSecret := call(must(apikey.Renew("test", k.ID)))
	names := []string{keyspace.Record(k.ID), policyset.CopyKey(keyspace.BucketOf(k.ID))}
	var intact [2]string
	for i, name := range names {
		intact[i] = must(w.client.Do(t.Context(), w.client.B().Get().Key(name).Build()).ToString())
	}
	rapid.Check(t, func(t *rapid.T) {
		random := rand.New(rand.NewPCG(rapid.Uint64().Draw(t, "seed"), 0))
		which := random.IntN(3)
		for i, name := range names {
			bytes := intact[i]
			if which != i {
				// The copy keeps its version: a newer one would only make checks reload.
				bytes = bytes[:5*i] + corrupt(random, bytes[5*i:])
			}
			w.client.Do(t.Context(), w.client.B().Set().Key(name).Value(bytes).Build())
			if i == 0 {
				w.checkReadable(t, k.ID, bytes)
			}
		}
		if c, err := w.checker.Check(t.Context(), wrongSecret, nil); err == nil || c.Allowed {
			t.Fatalf("wrong secret: got %s, %v, want an error", describe(c), err)
		}
		if c, err := w.checker.Check(t.Context(), call(secret), nil); err != nil && c.Allowed {
			t.Fatalf("got an allowed call with an error: %s, %v", describe(c), err)
		}
	})
	w.client.Do(t.Context(), w.client.B().Set().Key(names[1]).Value(intact[1]).Build())
	revoked := []byte(intact[0])
	revoked[1] = 0
	for range 200 {
		bytes := corrupt(rand.New(rand.NewPCG(rand.Uint64(), 0)), string(revoked[2:]))
		w.client.Do(t.Context(), w.client.B().Set().Key(names[0]).Value(string(revoked[:2])+bytes).Build())
		if c, err := w.checker.Check(t.Context(), call(secret), nil); !errors.Is(err,
			policy.ErrUnknownKey) || c.Allowed {
			t.Fatalf("revoked key: got %v, allowed %t, want ErrUnknownKey", err, c.Allowed)
		}
	}
}

// checkReadable requires that DecodeRecord succeeds or fails with ErrUnreadable.
func (w *world) checkReadable(t *rapid.T, id, bytes string) {
	t.Helper()
	if _, _, err := policyset.DecodeRecord(id, []byte(bytes)); err != nil &&
		!errors.Is(err, policy.ErrUnreadable) {
		t.Fatalf("record %q: got %v, want ErrUnreadable", bytes, err)
	}
}

// corrupt changes, clears or removes up to 24 bytes of text, or cuts it off.
func corrupt(random *rand.Rand, text string) string {
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

// FuzzDecode checks that decoding arbitrary bytes never panics. A decoded record can be
// encoded and decoded again. A decoded policy set that is valid compiles.
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
					t.Fatalf("%+v cannot be decoded after it was encoded: %v", k, err)
				}
			}
		} else if !errors.Is(err, policy.ErrUnreadable) {
			t.Fatalf("got %v, want ErrUnreadable", err)
		}
		if s, err := policyset.DecodeSet(bytes); err == nil && s.Validate() == nil {
			if _, err := compiled.New(s); err != nil {
				t.Fatalf("valid set %+v does not compile: %v", s, err)
			}
		}
	})
}
