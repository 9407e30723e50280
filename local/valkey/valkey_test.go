//go:build unix

package valkey_test

import (
	"errors"
	"os"
	"strconv"
	"strings"
	"testing"
	"time"

	client "github.com/valkey-io/valkey-go"
	"go.uber.org/goleak"

	"tidegate/internal/testing/waiting"
	"tidegate/local/valkey"
)

// TestMain checks for leaks, except a timer of the client that lasts for up to a second.
func TestMain(m *testing.M) {
	goleak.VerifyTestMain(m, goleak.IgnoreAnyFunction("github.com/valkey-io/valkey-go.(*call).DelayDo.func1"))
}

func connect(t *testing.T, s *valkey.Server) client.Client {
	t.Helper()
	options, err := client.ParseURL(strings.Replace(s.URL, "valkey://", "redis://", 1))
	if err != nil {
		t.Fatal(err)
	}
	options.DisableCache = true
	c, err := client.NewClient(options)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	return c
}

// On both servers a script reads the real time in microseconds, and keys expire by it.
func TestServersKeepTime(t *testing.T) {
	for name, start := range map[string]func() (*valkey.Server, error){
		"embedded":  valkey.Embedded,
		"installed": func() (*valkey.Server, error) { return valkey.Installed(t.Context()) },
	} {
		t.Run(name, func(t *testing.T) {
			server, err := start()
			if err != nil {
				t.Fatal(err) // a missing server fails on purpose: the error says what to install
			}
			defer server.Close()
			checkTime(t, connect(t, server))
		})
	}
}

func checkTime(t *testing.T, c client.Client) {
	t.Helper()
	ctx := t.Context()
	before := time.Now().Add(-time.Second)
	reply, err := c.Do(ctx, c.B().Eval().Script(`local t = redis.call('TIME'); return t[1] * 1000000 + t[2]`).
		Numkeys(0).Build()).AsInt64()
	if err != nil {
		t.Fatal(err)
	}
	if now := time.UnixMicro(reply); now.Before(before) || now.After(time.Now().Add(time.Second)) {
		t.Errorf("TIME is %s", now)
	}
	if err := c.Do(ctx, c.B().Set().Key("k").Value("v").PxMilliseconds(20).Build()).Error(); err != nil {
		t.Fatal(err)
	}
	waiting.Until(t, "the key expires", func() bool {
		err := c.Do(ctx, c.B().Get().Key("k").Build()).Error()
		if err != nil && !client.IsValkeyNil(err) {
			t.Fatal(err)
		}
		return err != nil
	})
}

// Close ends the process and removes its folder.
func TestInstalledLeavesNothing(t *testing.T) {
	dir := t.TempDir()
	t.Setenv("TMPDIR", dir)
	server, err := valkey.Installed(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	server.Close()
	left, err := os.ReadDir(dir)
	if err != nil || len(left) > 0 {
		t.Errorf("Close left files: %v, %v", left, err)
	}
	options, _ := client.ParseURL(strings.Replace(server.URL, "valkey://", "redis://", 1))
	if c, err := client.NewClient(options); err == nil {
		c.Close()
		t.Error("the server still answers")
	}
}

func TestInstalledNeedsAServer(t *testing.T) {
	t.Setenv("PATH", t.TempDir())
	if _, err := valkey.Installed(t.Context()); !errors.Is(err, valkey.ErrNotInstalled) {
		t.Errorf("got %v, want ErrNotInstalled", err)
	}
}

// A cluster answers for every slot through any node, and is gone when it is closed.
func TestInstalledCluster(t *testing.T) {
	cluster, err := valkey.InstalledCluster(t.Context(), 3)
	if err != nil {
		t.Fatal(err)
	}
	defer cluster.Close()
	options, err := client.ParseURL(strings.Replace(cluster.Nodes[2].URL, "valkey://", "redis://", 1))
	if err != nil {
		t.Fatal(err)
	}
	options.DisableCache = true
	c, err := client.NewClient(options)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	for i := range 50 {
		if err := c.Do(t.Context(), c.B().Set().Key(strconv.Itoa(i)).Value("v").Build()).Error(); err != nil {
			t.Errorf("key %d: %v", i, err)
		}
	}
	if nodes := len(c.Nodes()); nodes != 3 {
		t.Errorf("%d nodes, want 3", nodes)
	}
}
