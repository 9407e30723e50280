//go:build unix

package main

import (
	"encoding/json"
	"fmt"
	"io"
	"os"
	"path/filepath"
)

// ready has the addresses and credentials of a run. It contains secrets, so only the
// owner may read its file.
type ready struct {
	REST          string            `json:"rest"`
	HTTP          string            `json:"http"`
	Admin         string            `json:"admin"`
	Invoke        string            `json:"invoke"`
	Valkey        string            `json:"valkey"`
	AdminUser     string            `json:"admin_user"`
	AdminPassword string            `json:"admin_password"`
	Keys          map[string]string `json:"keys"` // by plan
}

func newReady(l *listeners, r *registrar, a *login, keys map[string]string) *ready {
	return &ready{
		REST:          url(l.rest),
		HTTP:          url(l.http),
		Admin:         url(l.admin),
		Invoke:        url(l.invoke),
		Valkey:        r.url,
		AdminUser:     a.user,
		AdminPassword: a.password,
		Keys:          keys,
	}
}

// write writes the file atomically. It does nothing for an empty path.
func (r *ready) write(path string) error {
	if path == "" {
		return nil
	}
	text, err := json.Marshal(r)
	if err != nil {
		return fmt.Errorf("-ready-file: %w", err)
	}
	// CreateTemp gives access only to the owner.
	temp, err := os.CreateTemp(filepath.Dir(path), filepath.Base(path)+".*")
	if err != nil {
		return fmt.Errorf("-ready-file: %w", err)
	}
	_, err = temp.Write(append(text, '\n'))
	if closed := temp.Close(); err == nil {
		err = closed
	}
	if err == nil {
		err = os.Rename(temp.Name(), path)
	}
	if err != nil {
		_ = os.Remove(temp.Name())
		return fmt.Errorf("-ready-file: %w", err)
	}
	return nil
}

func removeReady(path string) {
	if path != "" {
		_ = os.Remove(path) // usually it does not exist
	}
}

// banner prints the addresses and credentials, and calls to try.
func (r *ready) banner(out io.Writer, store string) {
	_, _ = fmt.Fprintf(out, `
Tidegate is running. Ctrl-C stops it.

  REST API   %s
  HTTP API   %s
  dashboard  %s  user %s  password %s
  Valkey     %s

`, r.REST, r.HTTP, r.Admin, r.AdminUser, r.AdminPassword, store)
	for _, plan := range plans {
		_, _ = fmt.Fprintf(out, "  key %-6s %s  %s\n", plan.Name, r.Keys[plan.Name], describe(plan))
	}
	_, _ = fmt.Fprintf(out, `
Try it: of 12 calls in a row the last two are denied.

  for i in $(seq 12); do curl -s -o /dev/null -w '%%{http_code} ' -H 'x-api-key: %s' %s/hello; done; echo
  curl -i -H 'x-api-key: %s' %s/hello

`, r.Keys["free"], r.REST, r.Keys["free"], r.REST)
}
