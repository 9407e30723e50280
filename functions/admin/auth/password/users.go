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
// same for a name, as for a known name.
func (u *Users) standIn(name string) User {
	sum := sha256.Sum256([]byte(name))
	return u.list[binary.BigEndian.Uint64(sum[:])%uint64(len(u.list))]
}
