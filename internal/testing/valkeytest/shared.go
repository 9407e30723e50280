package valkeytest

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strconv"
	"testing"
)

// shared is the cluster that the tests of a package use one after the other.
var shared struct {
	allowed bool // by Run
	used    bool // by a test that has not ended
	folder  string
	nodes   []server
	url     string // empty before the first use
}

// Run runs the tests of a package that uses SharedCluster, for its TestMain, and ends the
// cluster.
func Run(m *testing.M) int {
	shared.allowed = true
	defer endShared()
	return m.Run()
}

// SharedCluster returns the URL of a cluster of 3 primaries without data, scripts and
// users. The tests of a package use the same one, since a new cluster takes no commands
// for 2 s. Tests that stop nodes or change settings start their own.
func SharedCluster(t testing.TB) string {
	t.Helper()
	switch {
	case !shared.allowed:
		t.Fatal("TestMain of the package must call valkeytest.Run")
	case shared.used:
		t.Fatal("another test uses the cluster")
	}
	if shared.url == "" {
		if err := startShared(findServer(t)); err != nil {
			endShared()
			t.Fatal(err)
		}
	}
	for _, s := range shared.nodes {
		Ask(t, s.url(), "FLUSHALL")
		Ask(t, s.url(), "SCRIPT", "FLUSH")
		Ask(t, s.url(), "ACL", "LOAD")
		Ask(t, s.url(), "ACL", "LOG", "RESET")
	}
	shared.used = true
	t.Cleanup(func() {
		shared.used = false
		for _, s := range shared.nodes {
			s.logAfterFailure(t)
		}
	})
	return shared.url
}

func startShared(binary string) (err error) {
	if shared.folder, err = os.MkdirTemp("", "cluster"); err != nil {
		return err
	}
	for i := range 3 {
		folder := filepath.Join(shared.folder, strconv.Itoa(i))
		users := filepath.Join(folder, "users.acl") // ACL LOAD goes back to it
		if err := errors.Join(os.Mkdir(folder, 0o700), os.WriteFile(users, nil, 0o600)); err != nil {
			return err
		}
		s, err := launch(binary, folder, append([]string{"--aclfile", users}, clustered...))
		if err != nil {
			return err
		}
		shared.nodes = append(shared.nodes, s)
	}
	urls, err := join(context.Background(), len(shared.nodes), shared.nodes)
	if err != nil {
		return err
	}
	shared.url = urls[0] + "?cluster=true"
	return nil
}

func endShared() {
	for _, s := range shared.nodes {
		s.stop()
	}
	_ = os.RemoveAll(shared.folder)
	shared.nodes, shared.url = nil, ""
}
