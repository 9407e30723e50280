//go:build unix

package main

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/alexedwards/argon2id"

	"tidegate/internal/store/acl"
)

// The files in the folder of secrets. The servers read the first two files as another
// user. Those two have password hashes, and the password of replicas.
const (
	usersFile  = "users.acl"
	configFile = "valkey.conf"
	checkFile  = "check.env"
	adminFile  = "admin.env"
	setupFile  = "setup.env"
	readyFile  = "ready.json"
)

const secretBytes = 24

// changesLog is the volume of the log of changes, which setup and the admin function have.
const changesLog = "CHANGES_LOG=/changes\n"

// secrets are generated for each composition, and stored with its data.
type secrets struct {
	pepper                       string
	check, admin, setup, replica string // passwords of Valkey's users
	login                        *login
	nodes                        []string
}

// writeSecrets generates the secrets unless they exist.
func writeSecrets(_ context.Context, args []string, io stdio) error {
	var folder, nodes string
	s := secrets{pepper: randomHex(32)}
	for _, password := range []*string{&s.check, &s.admin, &s.setup, &s.replica} {
		*password = randomHex(secretBytes)
	}
	f := partFlags("secrets", io)
	f.StringVar(&folder, "dir", "/secrets", "`folder` to write to")
	f.StringVar(&nodes, "nodes", "", "`host:port,…` by which functions reach Valkey")
	if err := f.Parse(args); err != nil {
		return err
	}
	s.nodes = strings.Split(nodes, ",")
	if _, err := os.Stat(filepath.Join(folder, adminFile)); !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	var err error
	if s.login, err = newLogin(io.getenv); err != nil {
		return err
	}
	return s.write(folder)
}

// write writes the files. The existence of the last one means that all are complete.
func (s *secrets) write(folder string) error {
	for _, file := range []struct {
		name, text string
		mode       fs.FileMode
	}{
		{usersFile, s.users(), 0o644},
		{configFile, s.config(), 0o644},
		{checkFile, s.functionEnv("check", s.check), 0o600},
		{setupFile, s.functionEnv("setup", s.setup) + changesLog + "ADMIN_USER=" + s.login.user +
			"\nADMIN_PASSWORD=" + s.login.password + "\n", 0o600},
		{adminFile, s.functionEnv("admin", s.admin) + changesLog + "ADMIN_USER=" + s.login.user +
			"\nADMIN_PASSWORD_HASH=" + s.login.hash + "\n", 0o600},
	} {
		if err := os.WriteFile(filepath.Join(folder, file.name), []byte(file.text), file.mode); err != nil {
			return fmt.Errorf("write secrets: %w", err)
		}
	}
	return nil
}

// users returns Valkey's ACL file. A client without log-in may query the health and the
// cluster's nodes.
func (s *secrets) users() string {
	var text strings.Builder
	text.WriteString("user default on nopass -@all +ping +cluster|info +cluster|nodes +cluster|keyslot\n")
	for _, user := range []struct{ name, password, access string }{
		{"check", s.check, acl.Check()},
		{"admin", s.admin, acl.Admin()},
		{"setup", s.setup, "on ~* &* +@all"},
		{"replica", s.replica, "on -@all +psync +replconf +ping"},
	} {
		hash := sha256.Sum256([]byte(user.password))
		fmt.Fprintf(&text, "user %s #%s %s\n", user.name, hex.EncodeToString(hash[:]), user.access)
	}
	return text.String()
}

// config returns the configuration that all servers share. Each announces a host name of
// its own instead of an address, which a container may lose.
func (s *secrets) config() string {
	return `dir /data
aclfile /secrets/` + usersFile + `
protected-mode no
save 900 1
maxmemory 64mb
maxmemory-policy volatile-lfu
cluster-enabled yes
cluster-node-timeout 2000
cluster-require-full-coverage no
cluster-preferred-endpoint-type hostname
repl-diskless-sync-delay 0
masteruser replica
masterauth ` + s.replica + "\n"
}

func (s *secrets) functionEnv(user, password string) string {
	return "VALKEY_URL=valkey://" + user + ":" + password + "@" + strings.Join(s.nodes, ",") +
		"?cluster=true\nKEY_PEPPER=" + s.pepper + "\n"
}

// readEnv reads a file of variables, NAME=value on each line.
func readEnv(path string) (map[string]string, error) {
	text, err := os.ReadFile(path)
	if err != nil {
		return nil, fmt.Errorf("read variables: %w", err)
	}
	env := map[string]string{}
	for line := range bytes.Lines(text) {
		name, value, found := strings.Cut(strings.TrimSpace(string(line)), "=")
		if !found {
			return nil, fmt.Errorf("read variables: %s has a line that is not NAME=value", path)
		}
		env[name] = value
	}
	return env, nil
}

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
