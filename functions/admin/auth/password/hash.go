// Package password authenticates users with a name and a password. It has only argon2id
// hashes of passwords.
package password

import (
	"errors"
	"fmt"

	"github.com/alexedwards/argon2id"
)

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
