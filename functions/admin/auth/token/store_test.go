package token

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/valkey-io/valkey-go"

	"tidegate/functions/admin/auth"
	"tidegate/internal/apikey"
	"tidegate/internal/registry"
	"tidegate/internal/store/acl"
	"tidegate/internal/testing/registrytest"
	"tidegate/internal/testing/storetest"
	"tidegate/internal/testing/valkeytest"
)

var byAda = registry.Actor{Kind: "user", Name: "ada (password:ada)"}

// fixture is a token store with a clock that the test sets.
type fixture struct {
	*Store
	client valkey.Client
	clock  time.Time
}

func newFixture(t *testing.T, url string) *fixture {
	t.Helper()
	client := storetest.Connect(t, url)
	pepper, err := apikey.NewPepper(strings.Repeat("p", 32))
	if err != nil {
		t.Fatal(err)
	}
	f := &fixture{Store: NewStore(registrytest.New(t, client, pepper), client, pepper), client: client,
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

// A token is valid from its creation to its revocation, on miniredis and on a cluster,
// with the ACL of the admin function.
func TestCreateFindRevoke(t *testing.T) {
	for name, start := range map[string]func(*testing.T) string{
		"embedded": func(t *testing.T) string { return valkeytest.Embedded(t) },
		"cluster": func(t *testing.T) string {
			return valkeytest.StartCluster(t, 1, 0)[0] + "?cluster=true"
		},
	} {
		t.Run(name, func(t *testing.T) {
			url := valkeytest.As(t, start(t), "admin", acl.Rules(acl.Admin()))
			f := newFixture(t, url)
			created, secret := f.create(t, "deploy ünïcode", Write, time.Hour)
			got, err := f.Authenticate(t.Context(), secret)
			created.Used = time.Date(2026, 11, 21, 10, 0, 0, 0, time.UTC)
			if diff := cmp.Diff(created, got); err != nil || diff != "" {
				t.Fatalf("%v (-created +found):\n%s", err, diff)
			}
			if got.Actor().Role != auth.Editor || got.Actor().Kind != auth.Token ||
				got.Actor().ID != "token:"+created.ID {
				t.Errorf("got actor %+v, want an editor with the token's id", got.Actor())
			}
			all, err := f.List(t.Context())
			if diff := cmp.Diff([]Token{created}, all); err != nil || diff != "" {
				t.Errorf("%v (-created +listed):\n%s", err, diff)
			}
			if err := f.Revoke(t.Context(), created.ID, byAda); err != nil {
				t.Fatal(err)
			}
			if _, err := f.Authenticate(t.Context(), secret); !errors.Is(err, ErrUnknown) {
				t.Errorf("after the revocation: got %v, want ErrUnknown", err)
			}
			if err := f.Revoke(t.Context(), created.ID, byAda); !errors.Is(err, ErrNotFound) {
				t.Errorf("a second revocation: got %v, want ErrNotFound", err)
			}
		})
	}
}

// A token is refused from the second of its expiry on. It is listed as expired until it
// is revoked.
func TestExpiry(t *testing.T) {
	f := newFixture(t, valkeytest.Embedded(t))
	created, secret := f.create(t, "short", Read, time.Minute)
	f.clock = f.clock.Add(time.Minute - time.Nanosecond)
	if _, err := f.Authenticate(t.Context(), secret); err != nil {
		t.Fatalf("before the expiry: %v", err)
	}
	f.clock = f.clock.Add(time.Nanosecond)
	if _, err := f.Authenticate(t.Context(), secret); !errors.Is(err, ErrUnknown) {
		t.Errorf("at the expiry: got %v, want ErrUnknown", err)
	}
	if all, err := f.List(t.Context()); err != nil || len(all) != 1 || !all[0].Expired(f.clock) ||
		created.Expired(f.clock.Add(-1)) {
		t.Errorf("got %v, %v, want one expired token", all, err)
	}
}

// The last use of a token is stored to the minute.
func TestLastUse(t *testing.T) {
	f := newFixture(t, valkeytest.Embedded(t))
	_, secret := f.create(t, "busy", Read, time.Hour)
	minute := f.clock.Truncate(time.Minute)
	for _, step := range []time.Duration{0, 17 * time.Second, time.Second, 10 * time.Minute} {
		f.clock = f.clock.Add(step)
		if got, err := f.Authenticate(t.Context(), secret); err != nil ||
			!got.Used.Equal(f.clock.Truncate(time.Minute)) {
			t.Fatalf("got last use %v, %v, want the minute of %v", got.Used, err, f.clock)
		}
	}
	all, err := f.List(t.Context())
	if err != nil || !all[0].Used.Equal(minute.Add(11*time.Minute)) {
		t.Errorf("listed: got last use %v, %v, want %v", all[0].Used, err, minute.Add(11*time.Minute))
	}
}

// A malformed token is refused without a request to Valkey, whose client is closed here.
func TestMalformedToken(t *testing.T) {
	f := newFixture(t, valkeytest.Embedded(t))
	_, secret := f.create(t, "real", Read, time.Hour)
	f.client.Close()
	if _, err := f.Authenticate(t.Context(), secret); err == nil || errors.Is(err, ErrUnknown) {
		t.Fatalf("a valid token without Valkey: got %v, want another error than ErrUnknown", err)
	}
	flipped := []byte(secret)
	flipped[20] ^= 1
	for _, text := range []string{"", "tga_", secret[:len(secret)-1], secret + "x", string(flipped),
		"Bearer " + secret, strings.Repeat("x", 1<<20)} {
		if _, err := f.Authenticate(t.Context(), text); !errors.Is(err, ErrUnknown) || WellFormed(text) {
			t.Errorf("%.60q: got %v, want ErrUnknown", text, err)
		}
	}
}

// A well-formed token that was not created, or that has another hash, is refused.
func TestInventedToken(t *testing.T) {
	f := newFixture(t, valkeytest.Embedded(t))
	_, secret := f.create(t, "real", Read, time.Hour)
	other := apikey.GeneratePlain(prefix)
	if _, err := f.Authenticate(t.Context(), other.Reveal()); !errors.Is(err, ErrUnknown) {
		t.Errorf("invented: got %v, want ErrUnknown", err)
	}
	f.pepper = apikey.Pepper(strings.Repeat("q", 32))
	if _, err := f.Authenticate(t.Context(), secret); !errors.Is(err, ErrUnknown) {
		t.Errorf("under another pepper: got %v, want ErrUnknown", err)
	}
}

// Create refuses an invalid field by name, and stores nothing.
func TestCreateInvalid(t *testing.T) {
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
				t.Errorf("%s %d: got %v, want an InvalidError", field, i, err)
			}
		}
	}
	if all, err := f.List(t.Context()); err != nil || len(all) != 0 {
		t.Errorf("got tokens %v, %v, want none", all, err)
	}
}
