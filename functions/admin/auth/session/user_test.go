package session

import (
	"bytes"
	"slices"
	"testing"
	"time"

	"tidegate/internal/store/acl"
	"tidegate/internal/testing/storetest"
	"tidegate/internal/testing/valkeytest"
)

// login is what the dashboard does when somebody logs in.
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
		t.Fatalf("%s has %q, want %q", user, all, want)
	}
}

// A user's sessions are listed while they live, and those of nobody else.
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

// On a cluster a user's sessions lie in many slots. The function has no more rights than
// it needs.
func TestUserOnACluster(t *testing.T) {
	url := valkeytest.As(t, valkeytest.StartCluster(t, 1, 0)[0]+"?cluster=true", "admin",
		acl.Rules(acl.Admin()))
	client := storetest.Connect(t, url)
	f := &fixture{Store: NewStore(client, idle), clock: time.Now()}
	for _, token := range []string{"one", "two", "three"} {
		f.login(t, "ada", token, time.Hour)
	}
	if all, err := f.List(t.Context(), "ada", 10); err != nil || len(all) != 3 {
		t.Errorf("%v, %v", all, err)
	}
	if err := f.EndAll(t.Context(), "ada"); err != nil {
		t.Fatal(err)
	}
	f.lists(t, "ada")
	f.wants(t, "two", "", false)
}

// Looking at a user's sessions does not keep them alive.
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
		t.Errorf("%v, %v", all, err)
	}
}

// Ending all sessions of a user ends those of nobody else, and a request that is under
// way brings none back.
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

// The list of a user's sessions goes away with the last of them, also when later ones
// live shorter.
func TestListExpires(t *testing.T) {
	f := newFixture(t)
	f.login(t, "ada", "long", 2*time.Hour)
	f.login(t, "ada", "short", time.Hour)
	f.pass(time.Hour + time.Second)
	if !f.server.Exists(userKey("ada")) {
		t.Error("the list is gone before the last session")
	}
	f.pass(time.Hour)
	if f.server.Exists(userKey("ada")) {
		t.Error("the list stays after the sessions")
	}
}
