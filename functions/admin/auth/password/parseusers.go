package password

import (
	"errors"
	"fmt"
	"strings"
	"unicode"

	"tidegate/functions/admin/auth"
)

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
		return User{}, errors.New(who + ": the hash is no argon2id hash")
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
