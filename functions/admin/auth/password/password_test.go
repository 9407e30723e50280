package password

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/alexedwards/argon2id"

	"tidegate/functions/admin/auth"
)

func hashOf(t *testing.T, password string, memory uint32) string {
	t.Helper()
	hash, err := argon2id.CreateHash(password,
		&argon2id.Params{Memory: memory, Iterations: 1, Parallelism: 1, SaltLength: 16, KeyLength: 32})
	if err != nil {
		t.Fatal(err)
	}
	return hash
}

func user(t *testing.T, name string, role auth.Role, password string) User {
	t.Helper()
	hash, err := ParseHash(hashOf(t, password, 64))
	if err != nil {
		t.Fatal(err)
	}
	return User{Name: name, Role: role, Hash: hash}
}

// Authenticate accepts only a user's name with that user's password.
func TestAuthenticate(t *testing.T) {
	users, err := NewUsers([]User{user(t, "ada", auth.Editor, "a-secret"),
		user(t, "bob", auth.Viewer, "b-secret")})
	if err != nil {
		t.Fatal(err)
	}
	for _, row := range []struct {
		name, password string
		role           auth.Role
	}{
		{"ada", "a-secret", auth.Editor},
		{"bob", "b-secret", auth.Viewer},
		{"ada", "b-secret", auth.Nobody},
		{"Ada", "a-secret", auth.Nobody},
		{"eve", "a-secret", auth.Nobody},
		{"", "", auth.Nobody},
		{"ada", "", auth.Nobody},
		{"ada", "a-secret" + strings.Repeat("x", maxPassword), auth.Nobody},
	} {
		got, err := users.Authenticate(t.Context(), row.name, row.password)
		if got.Role != row.role || (row.role == auth.Nobody) != errors.Is(err, ErrWrong) {
			t.Errorf("%s: got %v, %v, want %v", row.name, got.Role, err, row.role)
		}
	}
	// An unknown name is refused, even with the password of its stand-in.
	for i := range 20 {
		name := fmt.Sprint("nobody", i)
		if _, err := users.Authenticate(t.Context(), name,
			map[string]string{"ada": "a-secret", "bob": "b-secret"}[users.standIn(name).Name]); err == nil {
			t.Errorf("%s: Authenticate returns no error", name)
		}
	}
}

// At most maxHashing passwords are hashed at once. Others wait until their context ends.
func TestHashingIsBounded(t *testing.T) {
	users, err := NewUsers([]User{user(t, "ada", auth.Editor, "a-secret")})
	if err != nil {
		t.Fatal(err)
	}
	for range maxHashing {
		users.turns <- struct{}{}
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := users.Authenticate(ctx, "ada", "a-secret"); !errors.Is(err, context.Canceled) {
		t.Errorf("without a free turn: got %v, want context.Canceled", err)
	}
	<-users.turns
	if _, err := users.Authenticate(t.Context(), "ada", "a-secret"); err != nil {
		t.Errorf("with a free turn: %v", err)
	}
	if len(users.turns) != maxHashing-1 {
		t.Error("a turn was not given back")
	}
}

func TestNoUsers(t *testing.T) {
	users, err := NewUsers(nil)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := users.Authenticate(t.Context(), "", ""); !errors.Is(err, ErrWrong) || !users.Empty() {
		t.Errorf("without users: got %v, want ErrWrong", err)
	}
}

// The fingerprint, to which sessions are bound, changes with each field. Fields are
// separated, so that different users cannot have the same.
func TestFingerprint(t *testing.T) {
	ada := user(t, "ada", auth.Editor, "a-secret")
	again := ada
	seen := map[string]bool{ada.Fingerprint(): true}
	if !seen[again.Fingerprint()] {
		t.Error("the fingerprint of a user is not stable")
	}
	for _, other := range []User{
		{"bob", ada.Role, ada.Hash}, {"ada", auth.Viewer, ada.Hash}, user(t, "ada", auth.Editor, "a-secret"),
		{"adaeditor", ada.Role, ada.Hash},
	} {
		if seen[other.Fingerprint()] {
			t.Errorf("%s %s has the fingerprint of another user", other.Name, other.Role)
		}
		seen[other.Fingerprint()] = true
	}
}

func TestNewUsersRefuses(t *testing.T) {
	ada := user(t, "ada", auth.Editor, "a-secret")
	for name, spoil := range map[string]func(*User){
		"no name":      func(u *User) { u.Name = "" },
		"long name":    func(u *User) { u.Name = strings.Repeat("n", MaxName+1) },
		"control":      func(u *User) { u.Name = "a\x00b" },
		"no role":      func(u *User) { u.Role = auth.Nobody },
		"no password":  func(u *User) { u.Hash = Hash{} },
		"same as ada":  func(*User) {},
		"invalid UTF8": func(u *User) { u.Name = "\xff" },
	} {
		bad := ada
		spoil(&bad)
		if _, err := NewUsers([]User{ada, bad}); err == nil || !strings.Contains(err.Error(), "user 2 ") {
			t.Errorf("%s: got %v, want an error about user 2", name, err)
		}
	}
}

func TestParseUsers(t *testing.T) {
	good := hashOf(t, "secret", minHashMemory)
	users, err := ParseUsers(" ada:editor:" + good + " ;bob:viewer:" + good + "\n")
	if err != nil || len(users) != 2 || users[0].Role != auth.Editor || users[1].Name != "bob" ||
		users[1].Role != auth.Viewer {
		t.Fatalf("got %v, %v, want an editor and bob, a viewer", users, err)
	}
	if users, err := ParseUsers(" \n"); err != nil || len(users) != 0 {
		t.Errorf("an empty text: got %v, %v, want no users", users, err)
	}
	weak := hashOf(t, "secret", 64)
	for entry, want := range map[string]string{
		"s3cret":             "entry 2 is not name:role:hash",
		"bob:viewer":         "entry 2 is not name:role:hash",
		"bob:admin:" + good:  `entry 2 ("bob"): the role must be viewer or editor`,
		"bob:viewer:s3cret":  `entry 2 ("bob"): the hash is not an argon2id hash`,
		"bob:viewer:" + weak: `entry 2 ("bob"): the hash takes less than 19 MiB`,
		":viewer:" + good:    `entry 2 ("") has no name`,
		strings.Repeat("b", 65) + ":viewer:" + good: "has a name of more than 64 characters",
	} {
		_, err := ParseUsers("ada:editor:" + good + " " + entry)
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%.40s: got %v, want %s", entry, err, want)
			continue
		}
		if strings.Contains(err.Error(), "s3cret") || strings.Contains(err.Error(), "$argon2id") {
			t.Errorf("%.40s: the error repeats a secret: %v", entry, err)
		}
	}
}

func TestParseHash(t *testing.T) {
	good := hashOf(t, "secret", 64)
	for name, hash := range map[string]string{
		"empty":          "",
		"plain text":     "secret",
		"bcrypt":         "$2a$10$N9qo8uLOickgx2ZMRZoMyeIjZAgcfl7p92ldGxad68LJZdL17lhWy",
		"argon2i":        strings.Replace(good, "argon2id", "argon2i", 1),
		"no iterations":  strings.Replace(good, "t=1", "t=0", 1),
		"no parallelism": strings.Replace(good, "p=1", "p=0", 1),
		"huge memory":    strings.Replace(good, "m=64", "m=4294967295", 1),
		"cut short":      good[:len(good)-30],
	} {
		if _, err := ParseHash(hash); err == nil {
			t.Errorf("%s: accepted", name)
		} else if hash != "" && strings.Contains(err.Error(), hash) {
			t.Errorf("%s: the error repeats the hash: %v", name, err)
		}
	}
	if (Hash{}).matches("") {
		t.Error("the zero Hash matches")
	}
	parsed, err := ParseHash(good)
	if err != nil || strings.Contains(fmt.Sprintf("%v %+v %#v", parsed, parsed, parsed), "argon2id") {
		t.Errorf("a formatted Hash contains the hash, or an error: %v", err)
	}
}
