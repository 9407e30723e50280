package main

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"fmt"

	"golang.org/x/crypto/argon2"

	"tidegate/internal/config"
)

// The cheapest argon2id parameters that ParseUsers accepts. ADMIN_PASSWORD is generated,
// so its hash cannot be guessed, and it is hashed at every start.
const (
	minPassword  = 20
	hashMemory   = 19456 // KiB
	hashTime     = 2
	hashThreads  = 1
	hashSaltSize = 16
	hashSize     = 32
)

// hashPassword sets ADMIN_PASSWORD_HASH from ADMIN_PASSWORD, which a secret store gives
// as plain text. The salt comes from the pepper, so that every environment has the same
// hash.
func (c *settings) hashPassword(problems *config.Problems) {
	switch {
	case c.AdminPassword == "":
		return
	case c.AdminPasswordHash != "":
		problems.Add("ADMIN_PASSWORD", "and ADMIN_PASSWORD_HASH are both set: give one of them")
		return
	case len(c.AdminPassword) < minPassword:
		problems.Add("ADMIN_PASSWORD",
			fmt.Sprintf("is too short: generate one of at least %d characters, or give ADMIN_PASSWORD_HASH",
				minPassword))
		return
	}
	mac := hmac.New(sha256.New, []byte(c.KeyPepper))
	_, _ = mac.Write([]byte("salt of ADMIN_PASSWORD")) // a hash never fails
	salt := mac.Sum(nil)[:hashSaltSize]
	key := argon2.IDKey([]byte(c.AdminPassword), salt, hashTime, hashMemory, hashThreads, hashSize)
	encode := base64.RawStdEncoding.EncodeToString
	c.AdminPasswordHash = fmt.Sprintf("$argon2id$v=%d$m=%d,t=%d,p=%d$%s$%s", argon2.Version, hashMemory,
		hashTime, hashThreads, encode(salt),
		encode(key))
	c.AdminPassword = ""
}
