package main

import (
	"slices"
	"strings"
	"testing"

	"github.com/alexedwards/argon2id"
)

const generated = "V7q2mXw9Lr4TzK8sBn3D"

func withPassword(changes ...string) []string {
	without := slices.DeleteFunc(environment(), func(v string) bool {
		return strings.HasPrefix(v, "ADMIN_PASSWORD_HASH=")
	})
	return append(without, changes...)
}

// ADMIN_PASSWORD is hashed at the start and then dropped. All environments of a
// deployment have the same hash.
func TestPasswordFromTheEnvironment(t *testing.T) {
	c, err := readConfig(withPassword("ADMIN_PASSWORD=" + generated))
	if err != nil {
		t.Fatal(err)
	}
	if match, err := argon2id.ComparePasswordAndHash(generated, c.AdminPasswordHash); err != nil || !match {
		t.Errorf("hash %s: got match %t, %v, want true", c.AdminPasswordHash, match, err)
	}
	if match, err := argon2id.ComparePasswordAndHash(generated+"x",
		c.AdminPasswordHash); err != nil || match {
		t.Errorf("another password: got match %t, %v, want false", match, err)
	}
	if c.AdminPassword != "" {
		t.Error("the settings still have the password")
	}
	again, err := readConfig(withPassword("ADMIN_PASSWORD=" + generated))
	if err != nil || again.AdminPasswordHash != c.AdminPasswordHash {
		t.Errorf("another environment has another hash: %v", err)
	}
	other, err := readConfig(withPassword("ADMIN_PASSWORD="+generated, "KEY_PEPPER="+strings.Repeat("q", 32)))
	if err != nil || other.AdminPasswordHash == c.AdminPasswordHash {
		t.Errorf("another deployment has the same hash: %v", err)
	}
}

func TestBadPasswordFromTheEnvironment(t *testing.T) {
	for name, c := range map[string]struct {
		variables []string
		want      string
	}{
		"both":  {environment("ADMIN_PASSWORD=" + generated), "both set"},
		"short": {withPassword("ADMIN_PASSWORD=s3cret"), "too short"},
		"none":  {withPassword(), "ADMIN_PASSWORD_HASH is"},
	} {
		_, err := readConfig(c.variables)
		if err == nil || !strings.Contains(err.Error(), c.want) || strings.Contains(err.Error(), "s3cret") ||
			strings.Contains(err.Error(), generated) {
			t.Errorf("%s: got %v, want %q and no secret", name, err, c.want)
		}
	}
}
