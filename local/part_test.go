//go:build unix

package main

import (
	"context"
	"encoding/json"
	"io/fs"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/valkey-io/valkey-go"

	"tidegate/internal/testing/valkeytest"
	"tidegate/internal/testing/waiting"
)

// composedSecrets returns a folder with a composition's secrets.
func composedSecrets(t *testing.T) (folder string) {
	t.Helper()
	folder = t.TempDir()
	succeed(t, "secrets", "-dir", folder, "-nodes", "valkey-1:6401,valkey-2:6402")
	return folder
}

// runToEnd runs the program with these arguments.
func runToEnd(t *testing.T, args ...string) (code int, out, errOut string) {
	t.Helper()
	var o, e waiting.Buffer
	code = execute(t.Context(), args, stdio{getenv: noEnv, environ: os.Environ, out: &o, errOut: &e})
	return code, o.String(), e.String()
}

// succeed runs the program, which must succeed, and returns its output.
func succeed(t *testing.T, args ...string) string {
	t.Helper()
	code, out, errOut := runToEnd(t, args...)
	if code != 0 {
		t.Fatalf("%v: exit status %d: %s", args, code, errOut)
	}
	return out
}

// Secrets are generated once. Only their owner can read those that are not hashed. A
// server accepts the files for servers.
func TestSecrets(t *testing.T) {
	folder := composedSecrets(t)
	check, err := readEnv(filepath.Join(folder, checkFile))
	if err != nil {
		t.Fatal(err)
	}
	for file, mode := range map[string]fs.FileMode{usersFile: 0o644, configFile: 0o644, checkFile: 0o600,
		adminFile: 0o600, setupFile: 0o600} {
		info, err := os.Stat(filepath.Join(folder, file))
		if err != nil || info.Mode().Perm() != mode {
			t.Errorf("%s: %v, %v, want %v", file, info, err, mode)
		}
	}
	succeed(t, "secrets", "-dir", folder, "-nodes", "valkey-1:6401,valkey-2:6402")
	if again, err := readEnv(filepath.Join(folder, checkFile)); err != nil ||
		again["KEY_PEPPER"] != check["KEY_PEPPER"] {
		t.Errorf("the second run replaced the secrets: %v, %v", again, err)
	}
	user, err := userOf(check["VALKEY_URL"])
	if err != nil || user.Name != "check" ||
		!strings.HasSuffix(check["VALKEY_URL"], "@valkey-1:6401,valkey-2:6402?cluster=true") {
		t.Errorf("VALKEY_URL of %q: %v", user.Name, err)
	}
	url := valkeytest.StartWith(t, "--aclfile", filepath.Join(folder, usersFile))
	for password, accepted := range map[string]bool{user.Password: true, "another": false} {
		client, err := valkey.NewClient(valkey.ClientOption{
			InitAddress: []string{strings.TrimPrefix(url, "valkey://")}, Username: user.Name,
			Password: password, ForceSingleClient: true, DisableCache: true,
		})
		if (err == nil) != accepted {
			t.Errorf("log-in of user check: got %v, want accepted = %t", err, accepted)
		}
		if err == nil {
			client.Close()
		}
	}
}

var (
	invocationsAt = regexp.MustCompile(`takes invocations at (\S+)`)
	healthAt      = regexp.MustCompile(`answers health checks at (\S+)`)
	restAt        = regexp.MustCompile(`REST API +(http\S+)`)
)

// keepRunning runs a part until the test ends, and waits for its end. printed waits for a
// line of its output.
func keepRunning(t *testing.T, args ...string) (printed func(*regexp.Regexp) string) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	exit := make(chan int, 1)
	var out, errOut waiting.Buffer
	io := stdio{getenv: noEnv, environ: os.Environ, out: &out, errOut: &errOut}
	go func() { exit <- execute(ctx, args, io) }()
	t.Cleanup(func() {
		cancel()
		if code := waiting.For(t, "the end of the program", exit); code != 0 {
			t.Errorf("%s: exit status %d: %s", args[0], code, errOut.String())
		}
	})
	return func(pattern *regexp.Regexp) string {
		t.Helper()
		var match []string
		waiting.Until(t, args[0]+" prints "+pattern.String(), func() bool {
			match = pattern.FindStringSubmatch(out.String())
			return match != nil
		})
		return match[1]
	}
}

func healthy(t *testing.T, url string) {
	t.Helper()
	waiting.Until(t, url+" is healthy", func() bool {
		code, _, _ := runToEnd(t, "health", url)
		return code == 0
	})
}

// The containers' parts work together as they do in compose.yaml: a gateway, functions in
// other processes, and the demo keys.
func TestPartsWorkTogether(t *testing.T) {
	folder := composedSecrets(t)
	env, err := readEnv(filepath.Join(folder, setupFile))
	if err != nil {
		t.Fatal(err)
	}
	env["VALKEY_URL"], env["CHANGES_LOG"] = valkeytest.Start(t), t.TempDir()
	variables := "VALKEY_URL=" + env["VALKEY_URL"] + "\nKEY_PEPPER=" + env["KEY_PEPPER"] +
		"\nVALKEY_TIMEOUT=5s\n"
	if err := os.WriteFile(filepath.Join(folder, checkFile), []byte(variables), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := seedComposition(t.Context(), filepath.Join(folder, readyFile), env); err != nil {
		t.Fatal(err)
	}
	check := keepRunning(t, "function", "-listen", "127.0.0.1:0", "-binary",
		filepath.Join(bin(t), "check", "bootstrap"),
		"-env-file", filepath.Join(folder, checkFile))(invocationsAt)
	admin := keepRunning(t, "function", "-listen", "127.0.0.1:0", "-name", "admin", "-binary",
		filepath.Join(bin(t), "admin", "bootstrap"))(invocationsAt)
	gateway := keepRunning(t, "gateway", "-check", check, "-admin", admin, "-backend", admin,
		"-secrets", folder,
		"-rest", "127.0.0.1:0", "-http", "127.0.0.1:0", "-dashboard", "127.0.0.1:0", "-health", "127.0.0.1:0")
	healthy(t, "http://"+check+"/healthz")
	healthy(t, "http://"+gateway(healthAt))
	rest := gateway(restAt)
	var offered ready
	if err := json.Unmarshal([]byte(succeed(t, "ready", "-secrets", folder)), &offered); err != nil ||
		offered.AdminPassword != env["ADMIN_PASSWORD"] {
		t.Fatalf("ready: %v, %+v", err, offered.AdminUser)
	}
	c := newCaller(t, 1)
	if a := c.get(rest+"/orders", "tg_demo_nonsense"); a.status != http.StatusUnauthorized {
		t.Errorf("a bad credential: %+v", a)
	}
	// The backend here is the admin's test function, whose answers are not those of a
	// proxy integration. So 502 means that the call was allowed.
	for i := range 11 {
		a := c.get(rest+"/orders", offered.Keys["free"])
		if want := map[bool]int{true: http.StatusBadGateway,
			false: http.StatusTooManyRequests}[i < 10]; a.status != want {
			t.Errorf("call %d: want %d, got %+v", i+1, want, a)
		}
	}
}

// A part that fails exits with status 1 and an error that names the cause.
func TestErrorsOfParts(t *testing.T) {
	nowhere := filepath.Join(t.TempDir(), "nowhere")
	for _, c := range []struct {
		args []string
		want string
	}{
		{[]string{"secrets", "-dir", nowhere, "-nodes", "a:1"}, "write secrets"},
		{[]string{"setup", "-secrets", nowhere}, "read variables"},
		{[]string{"function", "-env-file", nowhere}, "read variables"},
		{[]string{"function", "-binary", nowhere, "-listen", "127.0.0.1:0"}, nowhere},
		{[]string{"gateway", "-secrets", nowhere}, "read the ready file"},
		{[]string{"ready", "-secrets", nowhere}, "read the ready file"},
		{[]string{"health"}, "pass one URL"},
		{[]string{"health", "http://127.0.0.1:1/"}, "health"},
		{[]string{"function", "-no-such-flag"}, "no-such-flag"},
	} {
		code, _, errOut := runToEnd(t, c.args...)
		if code != 1 || !strings.Contains(errOut, c.want) {
			t.Errorf("%v: exit status %d, %q, want 1 and %q", c.args, code, errOut, c.want)
		}
	}
}
