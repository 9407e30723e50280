// Package password authenticates users with a name and a password. It has only argon2id
// hashes of passwords. The main package of the admin function and package server import
// it.
package password

import (
	"context"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/alexedwards/argon2id"

	"tidegate/functions/admin/auth"
)

// MaxName is the maximum length of a user's name, in characters.
const MaxName = 64

// maxHashing is the number of passwords hashed at once. Each needs the memory of its
// hash.
const maxHashing = 2

// ErrWrong means that the user does not exist or the password is wrong. It does not say
// which.
var ErrWrong = errors.New("user or password is wrong")

// User is a user with a password.
type User struct {
	Name string
	Role auth.Role
	Hash Hash
}

// Actor returns the user's actor.
func (u User) Actor() auth.Actor {
	return auth.Actor{ID: "password:" + u.Name, Name: u.Name, Kind: auth.User, Role: u.Role}
}

// Fingerprint returns a hash of the user's name, role and password.
func (u User) Fingerprint() string {
	var text []byte
	for _, part := range []string{u.Name, u.Role.String(), u.Hash.text} {
		text = binary.AppendUvarint(text, uint64(len(part)))
		text = append(text, part...)
	}
	sum := sha256.Sum256(text)
	return hex.EncodeToString(sum[:])
}

// CheckName returns what is wrong with a user's name.
func CheckName(name string) error {
	switch {
	case name == "":
		return errors.New("has no name")
	case utf8.RuneCountInString(name) > MaxName:
		return fmt.Errorf("has a name of more than %d characters", MaxName)
	case !utf8.ValidString(name) || strings.ContainsFunc(name, func(c rune) bool {
		return !unicode.IsPrint(c)
	}):
		return errors.New("has a name with characters that cannot be printed")
	}
	return nil
}

func (u User) validate() error {
	if err := CheckName(u.Name); err != nil {
		return err
	}
	switch {
	case u.Role < auth.Viewer:
		return errors.New("has no role")
	case u.Hash == Hash{}:
		return errors.New("has no password")
	}
	return nil
}

// Users are all users with a password. It is safe for concurrent use.
type Users struct {
	list  []User
	turns chan struct{}
}

// NewUsers returns the users. With an empty list nobody can log in.
func NewUsers(list []User) (*Users, error) {
	for i, u := range list {
		if err := u.validate(); err != nil {
			return nil, fmt.Errorf("user %d %w", i+1, err)
		}
		if slices.ContainsFunc(list[:i], func(other User) bool { return other.Name == u.Name }) {
			return nil, fmt.Errorf("user %d has the name of another", i+1)
		}
	}
	return &Users{list: slices.Clone(list), turns: make(chan struct{}, maxHashing)}, nil
}

// Empty reports whether there are no users.
func (u *Users) Empty() bool { return len(u.list) == 0 }

// Find returns the user of this name.
func (u *Users) Find(name string) (User, bool) {
	i := slices.IndexFunc(u.list, func(user User) bool { return user.Name == name })
	if i < 0 {
		return User{}, false
	}
	return u.list[i], true
}

// Authenticate returns the user with this name and password, or ErrWrong. It hashes a
// password for unknown names too, so that its duration does not show which users exist.
// Any other error means that ctx ended while other passwords were hashed.
func (u *Users) Authenticate(ctx context.Context, name, password string) (User, error) {
	if u.Empty() {
		return User{}, ErrWrong
	}
	select {
	case u.turns <- struct{}{}:
		defer func() { <-u.turns }()
	case <-ctx.Done():
		return User{}, fmt.Errorf("wait for a turn to hash a password: %w", ctx.Err())
	}
	user, known := u.Find(name)
	if !known {
		user = u.standIn(name)
	}
	if !user.Hash.matches(password) || !known {
		return User{}, ErrWrong
	}
	return user, nil
}

// standIn returns the user whose hash is computed for an unknown name. It is always the
// same user for a name, so that the time to hash does not vary.
func (u *Users) standIn(name string) User {
	sum := sha256.Sum256([]byte(name))
	return u.list[binary.BigEndian.Uint64(sum[:])%uint64(len(u.list))]
}

// ParseUsers parses entries of the form name:role:hash, separated by white space or
// semicolons. Its error names each wrong entry by number and name, and contains no hash.
func ParseUsers(text string) ([]User, error) {
	var users []User
	var errs []error
	entries := strings.FieldsFunc(text, func(c rune) bool { return c == ';' || unicode.IsSpace(c) })
	for i, entry := range entries {
		user, err := parseUser(entry)
		if err != nil {
			errs = append(errs, fmt.Errorf("entry %d%s", i+1, err.Error()))
			continue
		}
		users = append(users, user)
	}
	return users, errors.Join(errs...)
}

// parseUser parses one entry. Its error continues the text "entry N".
func parseUser(entry string) (User, error) {
	name, rest, found := strings.Cut(entry, ":")
	role, hash, found2 := strings.Cut(rest, ":")
	if !found || !found2 {
		return User{}, errors.New(" is not name:role:hash")
	}
	who := fmt.Sprintf(" (%.80q)", name)
	parsedRole, err := auth.ParseRole(role)
	if err != nil {
		return User{}, errors.New(who + ": the role must be viewer or editor")
	}
	parsedHash, err := ParseHash(hash)
	if err != nil {
		return User{}, errors.New(who + ": the hash is not an argon2id hash")
	}
	if parsedHash.Weak() {
		return User{}, errors.New(who + ": the hash takes less than 19 MiB to compute")
	}
	user := User{Name: name, Role: parsedRole, Hash: parsedHash}
	if err := user.validate(); err != nil {
		return User{}, errors.New(who + " " + err.Error())
	}
	return user, nil
}

const (
	maxPassword   = 1000    // bytes of a password
	maxHashMemory = 1 << 20 // KiB for hashing one password
	minHashMemory = 19456   // KiB, OWASP's minimum for argon2id
)

// Hash is the hash of a password. The zero value matches nothing.
type Hash struct {
	text   string
	memory uint32 // KiB
}

// ParseHash parses an argon2id hash in PHC notation:
// $argon2id$v=19$m=65536,t=3,p=2$salt$hash. Its error does not repeat the text.
func ParseHash(text string) (Hash, error) {
	params, salt, key, err := argon2id.DecodeHash(text)
	if err != nil {
		return Hash{}, fmt.Errorf("read argon2id hash: %w", err)
	}
	if params.Iterations < 1 || params.Parallelism < 1 || params.Memory > maxHashMemory || len(salt) < 8 ||
		len(key) < 16 {
		return Hash{}, errors.New("argon2id hash has parameters that are out of bounds")
	}
	return Hash{text: text, memory: params.Memory}, nil
}

// Weak reports whether the hash uses too little memory to resist guessing.
func (h Hash) Weak() bool { return h.memory < minHashMemory }

// String hides the hash.
func (h Hash) String() string { return "password hash" }

// GoString hides the hash.
func (h Hash) GoString() string { return h.String() }

// matches takes as long for a wrong password as for the right one.
func (h Hash) matches(password string) bool {
	tooLong := len(password) > maxPassword
	if tooLong {
		password = password[:maxPassword]
	}
	match, err := argon2id.ComparePasswordAndHash(password, h.text)
	return err == nil && match && !tooLong
}
