//go:build unix

package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	neturl "net/url"
	"os"
	"path/filepath"
	"strings"
	"time"

	"tidegate/internal/cluster"
)

const setupTimeout = time.Minute

// setUp creates the cluster and the demo keys unless they exist.
func setUp(ctx context.Context, args []string, io stdio) error {
	var folder, servers string
	var primaries int
	f := partFlags("setup", io)
	f.StringVar(&folder, "secrets", "/secrets", "`folder` of the secrets")
	f.StringVar(&servers, "servers", "", "`host:port,…` of the Valkey servers themselves, primaries first")
	f.IntVar(&primaries, "primaries", 3, "how many are primaries at first")
	if err := f.Parse(args); err != nil {
		return err
	}
	env, err := readEnv(filepath.Join(folder, setupFile))
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, setupTimeout)
	defer cancel()
	user, err := userOf(env["VALKEY_URL"])
	if err != nil {
		return err
	}
	if err := cluster.Join(ctx, user, primaries, strings.Split(servers, ",")...); err != nil {
		return fmt.Errorf("make the cluster: %w", err)
	}
	_, _ = fmt.Fprintln(io.out, "the cluster is ok")
	path := filepath.Join(folder, readyFile)
	if _, err := os.Stat(path); !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return seedComposition(ctx, path, env)
}

func userOf(rawURL string) (cluster.User, error) {
	head, _, _ := strings.Cut(rawURL, ",") // several hosts are no standard URL
	u, err := neturl.Parse(head)
	if err != nil {
		return cluster.User{}, errors.New("VALKEY_URL cannot be read")
	}
	password, _ := u.User.Password()
	return cluster.User{Name: u.User.Username(), Password: password}, nil
}

// seedComposition creates the demo keys and stores their secrets in a file, since Valkey
// has only hashes.
func seedComposition(ctx context.Context, path string, env map[string]string) error {
	r := &registrar{url: env["VALKEY_URL"], pepper: env["KEY_PEPPER"], close: func() {}}
	if err := r.connect(ctx); err != nil {
		return err
	}
	defer r.close()
	keys, err := seed(ctx, r.keys)
	if err != nil {
		return err
	}
	all := &ready{Valkey: env["VALKEY_URL"], AdminUser: env["ADMIN_USER"],
		AdminPassword: env["ADMIN_PASSWORD"], Keys: keys}
	return all.write(path)
}
