package main

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"fmt"

	"golang.org/x/crypto/argon2"

	"tidegate/functions/admin/auth"
	"tidegate/functions/admin/auth/password"
	"tidegate/internal/config"
)

const makeHash = `make a hash with argon2 "$(openssl rand -hex 8)" -id -m 16 -t 3 -p 1 -e, which reads the password from standard input`

// checkUsers requires a first user, unless people log in at a provider or ADMIN_USERS
// lists all users.
func (c *settings) checkUsers(problems *config.Problems) {
	if c.AdminUser != "" || c.AdminPasswordHash != "" || c.AdminPassword != "" || c.AdminUsers == "" &&
		c.OIDC.Issuer == "" {
		c.checkFirstUser(problems)
	}
	more, err := password.ParseUsers(c.AdminUsers)
	if err != nil {
		problems.Add("ADMIN_USERS", err.Error()+
			": write name:viewer:hash or name:editor:hash, separated by spaces; "+makeHash)
		return
	}
	c.users = append(c.users, more...)
	if _, err := password.NewUsers(c.users); err != nil &&
		!problems.Has("ADMIN_USER", "ADMIN_PASSWORD", "ADMIN_PASSWORD_HASH") {
		problems.Add("ADMIN_USERS", "and ADMIN_USER cannot be used together: "+err.Error())
	}
}

func (c *settings) checkFirstUser(problems *config.Problems) {
	hash, err := password.ParseHash(c.AdminPasswordHash)
	switch {
	case problems.Has("ADMIN_PASSWORD"): // no hash was made from it
	case err != nil:
		problems.Add("ADMIN_PASSWORD_HASH", "is not an argon2id hash: "+makeHash)
	case hash.Weak():
		problems.Add("ADMIN_PASSWORD_HASH", "takes less than 19 MiB to compute: "+makeHash)
	}
	if c.AdminUser == "" {
		problems.Add("ADMIN_USER", "is not set: give the name to log in with")
	} else if err := password.CheckName(c.AdminUser); err != nil {
		problems.Add("ADMIN_USER", "cannot be used: the user "+err.Error())
	}
	c.users = []password.User{{Name: c.AdminUser, Role: auth.Editor, Hash: hash}}
}

// The cheapest argon2id parameters that ParseUsers accepts. ADMIN_PASSWORD is generated,
// so its hash cannot be guessed, and it is hashed at every start.
const (
	minPassword  = 20    // bytes
	hashMemory   = 19456 // KiB
	hashTime     = 2
	hashThreads  = 1
	hashSaltSize = 16 // bytes
	hashSize     = 32 // bytes
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
		hashTime, hashThreads, encode(salt), encode(key))
	c.AdminPassword = ""
}
