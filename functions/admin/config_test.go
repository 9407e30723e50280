package main

import (
	"log/slog"
	"slices"
	"strings"
	"testing"
	"time"
)

const testHash = "$argon2id$v=19$m=19456,t=1,p=1$AAAAAAAAAAAAAAAAAAAAAA$AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA"

func environment(changes ...string) []string {
	return append([]string{
		"VALKEY_URL=valkey://127.0.0.1:6379",
		"KEY_PEPPER=" + strings.Repeat("p", 32),
		"ADMIN_USER=ada",
		"ADMIN_PASSWORD_HASH=" + testHash,
	}, changes...)
}

func TestReadConfig(t *testing.T) {
	c, err := readConfig(environment())
	if err != nil {
		t.Fatal(err)
	}
	if c.SessionIdle != 30*time.Minute || c.SessionLifetime != 12*time.Hour || c.BasePath != "" || c.LogLevel != slog.LevelInfo {
		t.Errorf("defaults: %v %v %q %v", c.SessionIdle, c.SessionLifetime, c.BasePath, c.LogLevel)
	}
	c, err = readConfig(environment("BASE_PATH=/prod", "SESSION_IDLE=5m", "SESSION_LIFETIME=1h", "LOG_LEVEL=debug"))
	if err != nil {
		t.Fatal(err)
	}
	d := c.dashboard()
	if d.BasePath != "/prod" || d.SessionLifetime != time.Hour || d.User != "ada" || c.SessionIdle != 5*time.Minute {
		t.Errorf("read: %+v", d)
	}
	if logLevel.Level() != slog.LevelDebug {
		t.Errorf("log level %v", logLevel.Level())
	}
}

// An error names the variable, says what to do, and repeats no secret.
func TestBadConfig(t *testing.T) {
	for change, advice := range map[string]string{
		"VALKEY_URL=":                          "valkey://127.0.0.1:6379",
		"KEY_PEPPER=short-secret":              "32 or more",
		"ADMIN_USER=":                          "name to log in with",
		"ADMIN_PASSWORD_HASH=s3cret":           "-id -m 16 -t 3 -p 1 -e",
		"BASE_PATH=prod/":                      "must look like /prod",
		"SESSION_IDLE=soon":                    "invalid duration",
		"SESSION_IDLE=1s":                      "at least 1m",
		"SESSION_LIFETIME=2m":                  "SESSION_IDLE",
		"LOG_LEVEL=loud":                       "unknown name",
		"ADMIN_PASSWORD_HASH=" + testHash[:40]: "argon2id",
		"ADMIN_PASSWORD_HASH=" + strings.Replace(testHash, "19456", "4096", 1): "19 MiB",
	} {
		name, value, _ := strings.Cut(change, "=")
		_, err := readConfig(environment(change))
		if err == nil || !strings.Contains(err.Error(), name+" ") || !strings.Contains(err.Error(), advice) {
			t.Errorf("%s: %v, want %s and %q", change, err, name, advice)
			continue
		}
		if secret := slices.Contains([]string{"KEY_PEPPER", "ADMIN_PASSWORD_HASH"}, name); secret && strings.Contains(err.Error(), value) {
			t.Errorf("%s: the error repeats the secret: %v", name, err)
		}
	}
}

func TestEveryProblemIsNamed(t *testing.T) {
	_, err := readConfig(nil)
	if err == nil {
		t.Fatal("an empty environment is accepted")
	}
	for _, name := range []string{"VALKEY_URL", "KEY_PEPPER", "ADMIN_USER", "ADMIN_PASSWORD_HASH"} {
		if !strings.Contains(err.Error(), name) {
			t.Errorf("%s is not named in: %v", name, err)
		}
	}
}
