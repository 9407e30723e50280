package token

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/valkey-io/valkey-go"

	"tidegate/functions/admin/auth"
	"tidegate/internal/apikey"
	"tidegate/internal/audit"
	"tidegate/internal/store"
	"tidegate/internal/store/acl"
	"tidegate/internal/testing/valkeytest"
)

var byAda = audit.Actor{Kind: "user", Name: "ada (password:ada)"}

// fixture is a token store whose clock a test moves.
type fixture struct {
	*Store
	client valkey.Client
	clock  time.Time
}

func newFixture(t *testing.T, url string) *fixture {
	t.Helper()
	client, err := store.Open(t.Context(), url,
		store.Options{Dial: 5 * time.Second, Write: 5 * time.Second, Pooled: true})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(client.Close)
	pepper, err := apikey.NewPepper(strings.Repeat("p", 32))
	if err != nil {
		t.Fatal(err)
	}
	f := &fixture{Store: NewStore(client, pepper), client: client,
		clock: time.Date(2026, 11, 21, 10, 0, 42, 0, time.UTC)}
	f.now = func() time.Time { return f.clock }
	return f
}

func (f *fixture) create(t *testing.T, name string, scope Scope, life time.Duration) (Token, string) {
	t.Helper()
	token, secret, err := f.Create(t.Context(),
		New{Name: name, Scope: scope, Expires: f.clock.Add(life), By: byAda})
	if err != nil {
		t.Fatal(err)
	}
	return token, secret.Reveal()
}

// A token lives from its creation to its revocation, on miniredis and, with the rights of
// the admin function, in one slot of a cluster.
func TestLife(t *testing.T) {
	for name, url := range map[string]string{"embedded": valkeytest.Embedded(t),
		"cluster": valkeytest.StartCluster(t, 1, 0)[0] + "?cluster=true"} {
		t.Run(name, func(t *testing.T) {
			url := valkeytest.As(t, url, "admin", acl.Rules(acl.Admin()))
			f := newFixture(t, url)
			created, secret := f.create(t, "deploy ünïcode", Write, time.Hour)
			got, err := f.Authenticate(t.Context(), secret)
			created.Used = time.Date(2026, 11, 21, 10, 0, 0, 0, time.UTC)
			if diff := cmp.Diff(created, got); err != nil || diff != "" {
				t.Fatalf("%v (-created +found):\n%s", err, diff)
			}
			if got.Actor().Role != auth.Editor || got.Actor().Kind != auth.Token ||
				got.Actor().ID != "token:"+created.ID {
				t.Errorf("acts as %+v", got.Actor())
			}
			all, err := f.List(t.Context())
			if diff := cmp.Diff([]Token{created}, all); err != nil || diff != "" {
				t.Errorf("%v (-created +listed):\n%s", err, diff)
			}
			if err := f.Revoke(t.Context(), created.ID, byAda); err != nil {
				t.Fatal(err)
			}
			if _, err := f.Authenticate(t.Context(), secret); !errors.Is(err, ErrUnknown) {
				t.Errorf("after its revocation: %v", err)
			}
			if err := f.Revoke(t.Context(), created.ID, byAda); !errors.Is(err, ErrNotFound) {
				t.Errorf("a second revocation: %v", err)
			}
			if n, err := f.client.Do(t.Context(),
				f.client.B().Exists().Key(recordsKey, usedKey).Build()).AsInt64(); err != nil || n != 0 {
				t.Errorf("%d keys are left, %v", n, err)
			}
		})
	}
}

// A token ends with the second of its expiry; until somebody revokes it, it is listed as
// expired.
func TestExpiry(t *testing.T) {
	f := newFixture(t, valkeytest.Embedded(t))
	created, secret := f.create(t, "short", Read, time.Minute)
	f.clock = f.clock.Add(time.Minute - time.Nanosecond)
	if _, err := f.Authenticate(t.Context(), secret); err != nil {
		t.Fatalf("before its expiry: %v", err)
	}
	f.clock = f.clock.Add(time.Nanosecond)
	if _, err := f.Authenticate(t.Context(), secret); !errors.Is(err, ErrUnknown) {
		t.Errorf("at its expiry: %v", err)
	}
	if all, err := f.List(t.Context()); err != nil || len(all) != 1 || !all[0].Expired(f.clock) ||
		created.Expired(f.clock.Add(-1)) {
		t.Errorf("%v, %v", all, err)
	}
}

// The last use is known to the minute, and is written once a minute.
func TestLastUse(t *testing.T) {
	f := newFixture(t, valkeytest.Embedded(t))
	_, secret := f.create(t, "busy", Read, time.Hour)
	minute := f.clock.Truncate(time.Minute)
	for _, step := range []time.Duration{0, 17 * time.Second, time.Second, 10 * time.Minute} {
		f.clock = f.clock.Add(step)
		if got, err := f.Authenticate(t.Context(), secret); err != nil ||
			!got.Used.Equal(f.clock.Truncate(time.Minute)) {
			t.Fatalf("%v, %v", got.Used, err)
		}
	}
	all, err := f.List(t.Context())
	if err != nil || !all[0].Used.Equal(minute.Add(11*time.Minute)) {
		t.Errorf("listed as used at %v, %v", all[0].Used, err)
	}
}

// What is no token is refused without a word to Valkey: here there is none.
func TestMalformedAsksNobody(t *testing.T) {
	f := newFixture(t, valkeytest.Embedded(t))
	_, secret := f.create(t, "real", Read, time.Hour)
	f.client.Close()
	if _, err := f.Authenticate(t.Context(), secret); err == nil || errors.Is(err, ErrUnknown) {
		t.Fatalf("a good token without a store: %v", err)
	}
	flipped := []byte(secret)
	flipped[20] ^= 1
	for _, text := range []string{"", "tga_", secret[:len(secret)-1], secret + "x", string(flipped),
		"Bearer " + secret, strings.Repeat("x", 1<<20)} {
		if _, err := f.Authenticate(t.Context(), text); !errors.Is(err, ErrUnknown) || WellFormed(text) {
			t.Errorf("%.60q: %v", text, err)
		}
	}
}

// A well-formed token that nobody made, or that has the id of another, is refused.
func TestMadeUp(t *testing.T) {
	f := newFixture(t, valkeytest.Embedded(t))
	_, secret := f.create(t, "real", Read, time.Hour)
	other := apikey.GeneratePlain(prefix)
	if _, err := f.Authenticate(t.Context(), other.Reveal()); !errors.Is(err, ErrUnknown) {
		t.Errorf("made up: %v", err)
	}
	f.pepper = apikey.Pepper(strings.Repeat("q", 32))
	if _, err := f.Authenticate(t.Context(), secret); !errors.Is(err, ErrUnknown) {
		t.Errorf("under another pepper: %v", err)
	}
}

// The store holds no secret.
func TestSecretIsNotStored(t *testing.T) {
	f := newFixture(t, valkeytest.Embedded(t))
	created, secret := f.create(t, "real", Read, time.Hour)
	record, err := f.client.Do(t.Context(),
		f.client.B().Hget().Key(recordsKey).Field(created.ID).Build()).ToString()
	if err != nil || strings.Contains(record, secret[len(prefix)+apikey.IDLen:]) ||
		strings.Contains(record, secret) {
		t.Errorf("stored: %q, %v", record, err)
	}
}

func TestInvalid(t *testing.T) {
	f := newFixture(t, valkeytest.Embedded(t))
	good := New{Name: "n", Scope: Read, Expires: f.clock.Add(time.Hour)}
	for field, spoil := range map[string][]func(*New){
		"name": {
			func(n *New) { n.Name = " " }, func(n *New) {
				n.Name = strings.Repeat("ü", MaxName+1)
			}, func(n *New) { n.Name = "a\nb" },
			func(n *New) { n.Name = "\u202egnp" }, func(n *New) { n.Name = "\xff" },
		},
		"scope": {func(n *New) { n.Scope = "" }, func(n *New) { n.Scope = "admin" }},
		"expires": {
			func(n *New) { n.Expires = f.clock.Add(time.Second - 1) }, func(n *New) {
				n.Expires = f.clock.Add(MaxLife + time.Second)
			},
			func(n *New) { n.Expires = time.Time{} },
		},
	} {
		for i, spoil := range spoil {
			bad := good
			spoil(&bad)
			_, _, err := f.Create(t.Context(), bad)
			var invalid *InvalidError
			if !errors.As(err, &invalid) || invalid.Field != field {
				t.Errorf("%s %d: %v", field, i, err)
			}
		}
	}
	if all, err := f.List(t.Context()); err != nil || len(all) != 0 {
		t.Errorf("stored all the same: %v, %v", all, err)
	}
}

// There are never more tokens than the bound, and they come in the order of their
// creation.
func TestTooMany(t *testing.T) {
	f := newFixture(t, valkeytest.Embedded(t))
	for i := range MaxCount {
		f.clock = f.clock.Add(time.Second)
		f.create(t, fmt.Sprintf("%03d", i), Read, time.Hour)
	}
	if _, _, err := f.Create(t.Context(),
		New{Name: "n", Scope: Read, Expires: f.clock.Add(time.Hour)}); !errors.Is(err, ErrTooMany) {
		t.Errorf("one more: %v", err)
	}
	all, err := f.List(t.Context())
	if err != nil || len(all) != MaxCount || !slices.IsSortedFunc(all, func(a, b Token) int {
		return strings.Compare(a.Name, b.Name)
	}) {
		t.Errorf("%d tokens, %v", len(all), err)
	}
}

// A damaged record opens nothing and hides no other.
func TestDamagedRecord(t *testing.T) {
	f := newFixture(t, valkeytest.Embedded(t))
	created, secret := f.create(t, "real", Read, time.Hour)
	f.create(t, "other", Read, time.Hour)
	for _, record := range []string{"", "x", strings.Repeat("x", 42), strings.Repeat("x", 60)} {
		set := f.client.B().Hset().Key(recordsKey).FieldValue().FieldValue(created.ID, record).Build()
		if err := f.client.Do(t.Context(), set).Error(); err != nil {
			t.Fatal(err)
		}
		if _, err := f.Authenticate(t.Context(), secret); err == nil {
			t.Errorf("%q lets in", record)
		}
		if all, err := f.List(t.Context()); err != nil || len(all) != 2 {
			t.Errorf("%q: listed %v, %v", record, all, err)
		}
	}
}
