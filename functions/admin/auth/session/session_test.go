package session

import (
	"bytes"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/alexedwards/scs/v2"
	"github.com/alicebob/miniredis/v2"
	"github.com/valkey-io/valkey-go"

	"tidegate/internal/store/acl"
	"tidegate/internal/testing/storetest"
	"tidegate/internal/testing/valkeytest"
)

var _ interface {
	scs.Store
	scs.CtxStore
} = (*Store)(nil)

const idle = 30 * time.Minute

// fixture is a store on a server with a clock that the test sets.
type fixture struct {
	*Store
	server *miniredis.Miniredis
	clock  time.Time
}

func newFixture(t *testing.T) *fixture {
	t.Helper()
	server := miniredis.RunT(t)
	client, err := valkey.NewClient(valkey.ClientOption{InitAddress: []string{server.Addr()},
		DisableCache: true, ForceSingleClient: true})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(client.Close)
	f := &fixture{Store: NewStore(client, idle), server: server,
		clock: time.Date(2026, 11, 21, 10, 0, 0, 0, time.UTC)}
	f.now = func() time.Time { return f.clock }
	server.SetTime(f.clock)
	return f
}

func (f *fixture) pass(d time.Duration) {
	f.clock = f.clock.Add(d)
	f.server.SetTime(f.clock)
	f.server.FastForward(d)
}

func (f *fixture) commit(t *testing.T, token, data string, life time.Duration) {
	t.Helper()
	if err := f.Commit(token, []byte(data), f.clock.Add(life)); err != nil {
		t.Fatal(err)
	}
}

func (f *fixture) wants(t *testing.T, token, data string, found bool) {
	t.Helper()
	got, ok, err := f.Find(token)
	if err != nil || ok != found || string(got) != data {
		t.Fatalf("Find: got %q %v %v, want %q %v", got, ok, err, data, found)
	}
}

func TestCommitFindDelete(t *testing.T) {
	f := newFixture(t)
	f.wants(t, "token", "", false)
	f.commit(t, "token", "one", time.Hour)
	f.wants(t, "token", "one", true)
	f.commit(t, "token", "two\x00\xff", time.Hour)
	f.wants(t, "token", "two\x00\xff", true)
	f.wants(t, "Token", "", false)
	if err := f.Delete("token"); err != nil {
		t.Fatal(err)
	}
	f.wants(t, "token", "", false)
	if err := f.Delete("never there"); err != nil {
		t.Errorf("delete of an unknown session: %v", err)
	}
}

// Valkey has no token in plain text.
func TestTokenIsHashed(t *testing.T) {
	f := newFixture(t)
	f.commit(t, "secret-token", "data", time.Hour)
	keys := f.server.Keys()
	if len(keys) != 1 || !strings.HasPrefix(keys[0], "tg:session:") || len(keys[0]) != len("tg:session:")+43 {
		t.Fatalf("got keys %q, want one with a hash", keys)
	}
	if strings.Contains(f.server.Dump(), "secret-token") {
		t.Errorf("the token is in Valkey: %s", f.server.Dump())
	}
}

// A request renews a session, and a session without requests ends.
func TestIdle(t *testing.T) {
	f := newFixture(t)
	f.commit(t, "token", "data", 12*time.Hour)
	for range 5 {
		f.pass(idle - time.Second)
		f.wants(t, "token", "data", true)
	}
	f.pass(idle + time.Second)
	f.wants(t, "token", "", false)
}

// Requests do not renew a session beyond the expiry that scs gave it.
func TestLifetime(t *testing.T) {
	f := newFixture(t)
	f.commit(t, "token", "data", 12*time.Hour)
	for range 47 {
		f.pass(15 * time.Minute)
		f.wants(t, "token", "data", true)
	}
	f.pass(15 * time.Minute)
	f.wants(t, "token", "", false)
}

func TestShortLifetime(t *testing.T) {
	f := newFixture(t)
	f.commit(t, "token", "data", time.Minute)
	f.pass(59 * time.Second)
	f.wants(t, "token", "data", true)
	f.pass(time.Second)
	f.wants(t, "token", "", false)
	f.commit(t, "other", "data", 0)
	f.wants(t, "other", "", false)
}

// A request in progress cannot save a session that was deleted meanwhile.
func TestSaveAfterLogout(t *testing.T) {
	f := newFixture(t)
	f.commit(t, "token", "data", time.Hour)
	if err := f.Delete("token"); err != nil {
		t.Fatal(err)
	}
	f.commit(t, "token", "late", time.Hour)
	f.wants(t, "token", "", false)
}

// Every stored key expires.
func TestEverythingExpires(t *testing.T) {
	f := newFixture(t)
	for i := range 10 {
		f.commit(t, fmt.Sprint("token", i), "data", time.Hour)
		if i%2 == 0 {
			if err := f.Delete(fmt.Sprint("token", i)); err != nil {
				t.Fatal(err)
			}
		}
	}
	f.pass(time.Hour + time.Second)
	if keys := f.server.Keys(); len(keys) != 0 {
		t.Errorf("got keys %q, want none", keys)
	}
}

func TestDamagedValue(t *testing.T) {
	f := newFixture(t)
	for _, value := range []string{"", "short", "1234567"} {
		if err := f.server.Set(keyOf("token"), value); err != nil {
			t.Fatal(err)
		}
		f.wants(t, "token", "", false)
	}
}

// An unavailable store is an error, not a missing session.
func TestServerUnavailable(t *testing.T) {
	f := newFixture(t)
	f.commit(t, "token", "data", time.Hour)
	f.server.SetError("ERR out of order")
	if _, found, err := f.Find("token"); err == nil || found {
		t.Errorf("Find: got %v, %v, want an error", found, err)
	}
	if err := f.Commit("token", nil, f.clock.Add(time.Hour)); err == nil {
		t.Error("commit: no error")
	}
	if err := f.Delete("token"); err == nil {
		t.Error("delete: no error")
	}
}

// A connection that was lost between two requests, as in a freeze, fails no request.
func TestAfterConnectionLost(t *testing.T) {
	f := newFixture(t)
	f.commit(t, "token", "one", time.Hour)
	lose := func() {
		f.server.Close()
		if err := f.server.Restart(); err != nil {
			t.Fatal(err)
		}
	}
	lose()
	f.wants(t, "token", "one", true)
	lose()
	f.commit(t, "token", "two", time.Hour)
	lose()
	if err := f.Delete("token"); err != nil {
		t.Errorf("delete: %v", err)
	}
	f.wants(t, "token", "", false)
}

// The session manager of the dashboard can save a session in this store and load it
// again.
func TestWithManager(t *testing.T) {
	f := newFixture(t)
	f.now = time.Now
	m := scs.New()
	m.Store = f.Store
	ctx, err := m.Load(t.Context(), "")
	if err != nil {
		t.Fatal(err)
	}
	m.Put(ctx, "user", "ada")
	token, _, err := m.Commit(ctx)
	if err != nil {
		t.Fatal(err)
	}
	again, err := m.Load(t.Context(), token)
	if err != nil || m.GetString(again, "user") != "ada" {
		t.Errorf("got user %q, %v, want ada", m.GetString(again, "user"), err)
	}
}

// login enrolls and saves a session, as the dashboard does.
func (f *fixture) login(t *testing.T, user, token string, life time.Duration) {
	t.Helper()
	if err := f.Enroll(t.Context(), user, token, f.clock.Add(life)); err != nil {
		t.Fatal(err)
	}
	f.commit(t, token, "data of "+token, life)
}

func (f *fixture) lists(t *testing.T, user string, tokens ...string) {
	t.Helper()
	all, err := f.List(t.Context(), user, 10)
	if err != nil {
		t.Fatal(err)
	}
	var want []Session
	for _, token := range tokens {
		want = append(want, Session{ID: ID(token), Data: []byte("data of " + token)})
	}
	same := func(a, b Session) bool { return a.ID == b.ID && bytes.Equal(a.Data, b.Data) }
	if !slices.EqualFunc(all, want, same) {
		t.Fatalf("%s: got sessions %q, want %q", user, all, want)
	}
}

// List returns the user's sessions that have not ended, and none of other users.
func TestList(t *testing.T) {
	f := newFixture(t)
	f.lists(t, "ada")
	f.login(t, "ada", "one", time.Hour)
	f.pass(time.Second)
	f.login(t, "ada", "two", time.Hour)
	f.login(t, "bob", "three", time.Hour)
	f.lists(t, "ada", "two", "one")
	f.lists(t, "bob", "three")
	if err := f.Delete("two"); err != nil {
		t.Fatal(err)
	}
	f.lists(t, "ada", "one")
	f.pass(idle + time.Second)
	f.lists(t, "ada")
}

// On a cluster, a user's sessions are in several slots. The ACL of the admin function is
// sufficient for them.
func TestUserOnACluster(t *testing.T) {
	url := valkeytest.As(t, valkeytest.StartCluster(t, 1, 0)[0]+"?cluster=true", "admin",
		acl.Rules(acl.Admin()))
	client := storetest.Connect(t, url)
	f := &fixture{Store: NewStore(client, idle), clock: time.Now()}
	for _, token := range []string{"one", "two", "three"} {
		f.login(t, "ada", token, time.Hour)
	}
	if all, err := f.List(t.Context(), "ada", 10); err != nil || len(all) != 3 {
		t.Errorf("got %v, %v, want 3 sessions", all, err)
	}
	if err := f.EndAll(t.Context(), "ada"); err != nil {
		t.Fatal(err)
	}
	f.lists(t, "ada")
	f.wants(t, "two", "", false)
}

// List does not renew the sessions.
func TestListDoesNotRenew(t *testing.T) {
	f := newFixture(t)
	f.login(t, "ada", "one", 12*time.Hour)
	for range 3 {
		f.pass(idle/3 - time.Second)
		f.lists(t, "ada", "one")
	}
	f.pass(4 * time.Second)
	f.lists(t, "ada")
	f.wants(t, "one", "", false)
}

func TestListIsBounded(t *testing.T) {
	f := newFixture(t)
	for _, token := range []string{"a", "b", "c"} {
		f.pass(time.Second)
		f.login(t, "ada", token, time.Hour)
	}
	if all, err := f.List(t.Context(), "ada", 2); err != nil || len(all) != 2 || all[0].ID != ID("c") {
		t.Errorf("got %v, %v, want the newest 2 sessions", all, err)
	}
}

// EndAll ends all sessions of one user only. A request in progress cannot save one of
// them again.
func TestEndAll(t *testing.T) {
	f := newFixture(t)
	f.login(t, "ada", "one", time.Hour)
	f.login(t, "ada", "two", time.Hour)
	f.login(t, "bob", "three", time.Hour)
	for range 2 {
		if err := f.EndAll(t.Context(), "ada"); err != nil {
			t.Fatal(err)
		}
		f.lists(t, "ada")
	}
	f.commit(t, "one", "late", time.Hour)
	f.wants(t, "one", "", false)
	f.wants(t, "two", "", false)
	f.wants(t, "three", "data of three", true)
	f.login(t, "ada", "four", time.Hour)
	f.lists(t, "ada", "four")
}

// The set of a user's sessions expires with the session that expires last, even if
// another was enrolled after that one.
func TestListExpires(t *testing.T) {
	f := newFixture(t)
	f.login(t, "ada", "long", 2*time.Hour)
	f.login(t, "ada", "short", time.Hour)
	f.pass(time.Hour + time.Second)
	if !f.server.Exists(userKey("ada")) {
		t.Error("the set expired before the last session")
	}
	f.pass(time.Hour)
	if f.server.Exists(userKey("ada")) {
		t.Error("the set exists after the last session")
	}
}
