//go:build unix

package main

import (
	"fmt"

	"github.com/alexedwards/argon2id"
)

// login is the dashboard's account.
type login struct{ user, password, hash string }

// newLogin returns the account of the environment, or generates a password for this run.
func newLogin(getenv func(string) string) (*login, error) {
	l := &login{user: getenv("ADMIN_USER"), password: getenv("ADMIN_PASSWORD")}
	if l.user == "" {
		l.user = "admin"
	}
	if l.password == "" {
		l.password = randomHex(8)
	}
	hash, err := argon2id.CreateHash(l.password, argon2id.DefaultParams)
	if err != nil {
		return nil, fmt.Errorf("hash the dashboard's password: %w", err)
	}
	l.hash = hash
	return l, nil
}
