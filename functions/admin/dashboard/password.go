package dashboard

import (
	"errors"
	"fmt"

	"github.com/alexedwards/argon2id"
)

const (
	maxPassword   = 1000    // bytes that are hashed of what somebody types
	maxHashMemory = 1 << 20 // KiB that one login may take
	minHashMemory = 19456   // KiB below which a hash is cheap to guess at, as OWASP has it for argon2id
)

// Password is a password of which only the hash is known. The zero value matches nothing.
type Password struct {
	hash   string
	memory uint32 // KiB
}

// ParsePassword reads an argon2id hash in PHC notation: $argon2id$v=19$m=65536,t=3,p=2$salt$hash.
func ParsePassword(hash string) (Password, error) {
	params, salt, key, err := argon2id.DecodeHash(hash)
	if err != nil {
		return Password{}, fmt.Errorf("read argon2id hash: %w", err)
	}
	if params.Iterations < 1 || params.Parallelism < 1 || params.Memory > maxHashMemory || len(salt) < 8 || len(key) < 16 {
		return Password{}, errors.New("argon2id hash has parameters that are out of bounds")
	}
	return Password{hash: hash, memory: params.Memory}, nil
}

// Weak reports whether the hash takes too little memory to resist guessing.
func (p Password) Weak() bool { return p.memory < minHashMemory }

// matches takes as long for a wrong password as for the right one.
func (p Password) matches(password string) bool {
	tooLong := len(password) > maxPassword
	if tooLong {
		password = password[:maxPassword]
	}
	match, err := argon2id.ComparePasswordAndHash(password, p.hash)
	return err == nil && match && !tooLong
}
