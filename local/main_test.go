//go:build unix

package main

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"maps"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"testing"

	"tidegate/internal/config"
	"tidegate/internal/policy"
	"tidegate/internal/registry"
	"tidegate/internal/testing/browsertest"
	"tidegate/internal/testing/built"
	"tidegate/internal/testing/waiting"
)

func TestMain(m *testing.M) { os.Exit(browsertest.Run(m)) }

// bin returns a folder with the built functions: the real check, and for admin the test
// function of package lambda, which answers with its process id.
func bin(t testing.TB) string {
	t.Helper()
	return built.Folder(t, map[string]string{
		"check/bootstrap": "tidegate/functions/check",
		"admin/bootstrap": "tidegate/local/lambda/testdata/function",
	})
}

// program is one run of the command in this process.
type program struct {
	ready    map[string]any
	path     string // of the ready file
	stop     context.CancelFunc
	exit     chan int
	out, err waiting.Buffer
}

func onFreePorts(t *testing.T, flags ...string) []string {
	t.Helper()
	return append([]string{"-rest", "127.0.0.1:0", "-http", "127.0.0.1:0", "-admin", "127.0.0.1:0", "-bin",
		bin(t)}, flags...)
}

// start runs the command until it is ready.
func start(t *testing.T, flags ...string) *program {
	t.Helper()
	p := &program{path: filepath.Join(t.TempDir(), "ready.json"), exit: make(chan int, 1)}
	ctx, cancel := context.WithCancel(t.Context())
	p.stop = cancel
	args := onFreePorts(t, append(flags, "-ready-file", p.path)...)
	go func() { p.exit <- run(ctx, args, noEnv, &p.out, &p.err) }()
	t.Cleanup(cancel)
	waiting.Until(t, "the ready file", func() bool {
		select {
		case code := <-p.exit:
			t.Fatalf("exit status %d: %s", code, p.err.String())
		default:
		}
		text, err := os.ReadFile(p.path)
		if err != nil {
			return false
		}
		if err := json.Unmarshal(text, &p.ready); err != nil {
			t.Fatalf("the ready file was read while incomplete: %v", err)
		}
		return true
	})
	return p
}

func noEnv(string) string { return "" }

func (p *program) url(name string) string { return p.ready[name].(string) }

func (p *program) key(plan string) string { return p.ready["keys"].(map[string]any)[plan].(string) }

func request(t *testing.T, url string, header ...string) (int, http.Header, string) {
	t.Helper()
	return send(t, http.MethodGet, url, header...)
}

// send makes a request on a connection of its own.
func send(t *testing.T, method, url string, header ...string) (int, http.Header, string) {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), method, url, http.NoBody)
	if err != nil {
		t.Fatal(err)
	}
	for i := 0; i < len(header); i += 2 {
		r.Header.Set(header[i], header[i+1])
	}
	client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	response, err := client.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = response.Body.Close() }()
	body, err := io.ReadAll(response.Body)
	if err != nil {
		t.Fatal(err)
	}
	return response.StatusCode, response.Header, string(body)
}

// The command starts everything, writes the ready file, serves, and leaves nothing behind
// when it is stopped.
func TestRun(t *testing.T) {
	for _, valkey := range []string{"", "auto"} {
		t.Run("valkey "+valkey, func(t *testing.T) {
			bin(t)
			temporary := t.TempDir()
			t.Setenv("TMPDIR", temporary)
			p := start(t, "-valkey", valkey)
			want := []string{"admin", "admin_password", "admin_user", "http", "invoke", "keys", "rest",
				"valkey"}
			if got := slices.Sorted(maps.Keys(p.ready)); !slices.Equal(got, want) {
				t.Errorf("ready file has %v, want %v", got, want)
			}
			if info, err := os.Stat(p.path); err != nil || info.Mode().Perm() != 0o600 {
				t.Errorf("ready file: %v, %v", info.Mode(), err)
			}
			pid := checkServing(t, p)
			p.stop()
			if code := waiting.For(t, "the end of the program", p.exit); code != 0 {
				t.Errorf("exit status %d: %s", code, p.err.String())
			}
			checkGone(t, p, pid)
			if left, err := os.ReadDir(temporary); err != nil || len(left) > 0 {
				t.Errorf("temporary files are left: %v %v", left, err)
			}
		})
	}
}

// checkServing returns the process id of the admin function.
func checkServing(t *testing.T, p *program) int {
	t.Helper()
	if status, _, body := request(t, p.url("rest")+"/hello", "x-api-key", p.key("free")); status != 200 {
		t.Errorf("REST API: %d %s", status, body)
	}
	if status, header, body := request(t, p.url("http")+"/hello", "x-api-key", p.key("pro")); status != 200 ||
		header.Get("RateLimit") == "" {
		t.Errorf("HTTP API: %d %v %s", status, header, body)
	}
	if status, header, body := request(t, p.url("rest")+"/hello"); status != 401 ||
		header.Get("Content-Type") != "application/problem+json" {
		t.Errorf("REST API without a key: %d %v %s", status, header, body)
	}
	status, _, body := request(t, p.url("admin")+"/")
	var admin struct{ PID int }
	if err := json.Unmarshal([]byte(body), &admin); err != nil || status != 200 || admin.PID == 0 {
		t.Fatalf("dashboard: %d %s", status, body)
	}
	for _, shown := range []string{p.url("rest"), p.url("http"), p.url("admin"), p.key("free"), p.key("pro"),
		p.url("admin_password"), "curl"} {
		if !strings.Contains(p.out.String(), shown) {
			t.Errorf("the banner lacks %q", shown)
		}
	}
	return admin.PID
}

// checkGone checks that the ready file, the function and all servers are gone.
func checkGone(t *testing.T, p *program, pid int) {
	t.Helper()
	if _, err := os.Stat(p.path); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("the ready file still exists: %v", err)
	}
	if err := syscall.Kill(pid, 0); !errors.Is(err, syscall.ESRCH) {
		t.Errorf("a function still runs: %v", err)
	}
	for _, url := range []string{p.url("rest"), p.url("http"), p.url("admin"), p.url("valkey")} {
		_, address, _ := strings.Cut(url, "://")
		if conn, err := net.Dial("tcp", address); err == nil {
			_ = conn.Close()
			t.Errorf("%s still answers", url)
		}
	}
}

// A listener on every address is shown with the address that a browser on this machine
// can use.
func TestEveryAddress(t *testing.T) {
	for _, address := range []string{":0", "0.0.0.0:0", "127.0.0.1:0"} {
		l, err := net.Listen("tcp", address)
		if err != nil {
			t.Fatal(err)
		}
		if got := url(l); !strings.HasPrefix(got, "http://127.0.0.1:") {
			t.Errorf("%s is shown as %s", address, got)
		}
		_ = l.Close()
	}
}

// The command fails with an exit status, and a message that names the flag and what to
// do.
func TestRunFails(t *testing.T) {
	taken, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = taken.Close() }()
	address := taken.Addr().String()
	broken := t.TempDir()
	for _, function := range []string{"check", "admin"} {
		writeScript(t, filepath.Join(broken, function, "bootstrap"),
			"#!/bin/sh\necho configuration is broken\nexit 1\n")
	}
	for _, c := range []struct {
		name  string
		flags []string
		code  int
		want  string
	}{
		{"unknown flag", []string{"-wrong"}, 2, "-wrong"},
		{"an argument", []string{"start"}, 2, `"start"`},
		{"address without a port", []string{"-rest", "localhost"}, 2, "-rest localhost"},
		{"port out of range", []string{"-http", "127.0.0.1:70000"}, 2, "-http 127.0.0.1:70000: port"},
		{"valkey is no URL", []string{"-valkey", "localhost:6379"}, 2, "-valkey"},
		{"unknown answer", []string{"-http-deny", "429"}, 2, "-http-deny 429: must be deny or context"},
		{"no origin", []string{"-cors-origin", "app.example"}, 2,
			"-cors-origin app.example: must be an origin"},
		{"no environments", []string{"-environments", "0"}, 2, "-environments 0"},
		{"no functions", []string{"-bin", t.TempDir()}, 2, "./scripts/run builds it"},
		{"ready file in no folder", []string{"-ready-file", filepath.Join(broken, "no", "ready.json")},
			2, "-ready-file"},
		{"ready file is a folder", []string{"-ready-file", broken}, 2, "-ready-file"},
		{"port taken", []string{"-admin", address}, 1,
			"-admin " + address + ": address already in use (another ./scripts/run? choose another with " +
				"-admin 127.0.0.1:0)"},
		{"valkey without a log", []string{"-valkey", "valkey://user:sesame@127.0.0.1:1"}, 2, "set -data too"},
		{"log in a bucket", []string{"-data", "s3://bucket"}, 2,
			"-data s3://bucket: must be the path of a folder"},
		{"log in a file", []string{"-data", filepath.Join(broken, "check", "bootstrap")}, 1, "-data: "},
		{"valkey unavailable", []string{"-valkey", "valkey://user:sesame@127.0.0.1:1", "-data",
			t.TempDir()}, 1,
			"127.0.0.1:1"},
		{"valkey URL with an unknown option",
			[]string{"-valkey", "valkey://user:sesame@127.0.0.1:1?x=y", "-data", t.TempDir()}, 1, "-valkey"},
		{"function cannot start", []string{"-bin", broken}, 1, "[check] configuration is broken"},
	} {
		t.Run(c.name, func(t *testing.T) {
			var out, errOut waiting.Buffer
			code := run(t.Context(), onFreePorts(t, c.flags...), noEnv, &out, &errOut)
			if code != c.code || !strings.Contains(errOut.String(), c.want) {
				t.Errorf("exit status %d, %q; want %d and %q", code, errOut.String(), c.code, c.want)
			}
			if text := out.String() + errOut.String(); strings.Contains(text, "sesame") {
				t.Errorf("the output contains the password: %s", text)
			}
		})
	}
}

// The ready file and the function get the account of the environment.
func TestLogin(t *testing.T) {
	env := map[string]string{"ADMIN_USER": "ann", "ADMIN_PASSWORD": "correct horse"}
	l, err := newLogin(func(name string) string { return env[name] })
	if err != nil || l.user != "ann" || l.password != "correct horse" ||
		!strings.HasPrefix(l.hash, "$argon2id$") {
		t.Errorf("got %+v, %v", l, err)
	}
	a, err := newLogin(noEnv)
	if err != nil || a.user != "admin" || len(a.password) < 16 {
		t.Errorf("got %+v, %v", a, err)
	}
}

// A second run on the same store replaces the demo keys and changes no other.
func TestSeedTwice(t *testing.T) {
	ctx := t.Context()
	r, err := openRegistry(ctx, "", "", noEnv)
	if err != nil {
		t.Fatal(err)
	}
	defer r.close()
	set, err := savePlans(ctx, r.keys)
	if err != nil {
		t.Fatal(err)
	}
	for _, other := range []policy.NewKey{{Name: "demo free", Env: "live", Plan: "free"},
		{Name: "demo of ours", Env: "demo", Plan: "free"}} {
		if _, _, err := r.keys.Create(ctx, other, demoEdit); err != nil {
			t.Fatal(err)
		}
	}
	first, err := seed(ctx, r.keys)
	if err != nil {
		t.Fatal(err)
	}
	second, err := seed(ctx, r.keys)
	if err != nil {
		t.Fatal(err)
	}
	if len(second) != 2 || first["free"] == second["free"] || first["pro"] == second["pro"] {
		t.Errorf("keys of the second run: %d", len(second))
	}
	page, err := r.keys.List(ctx, set, registry.Query{})
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, key := range page.Keys {
		names = append(names, key.Env+" "+key.Name)
	}
	slices.Sort(names)
	if want := []string{"demo demo free", "demo demo of ours", "demo demo pro",
		"live demo free"}; !slices.Equal(names, want) {
		t.Errorf("keys %q, want %q", names, want)
	}
}

func TestWithoutPassword(t *testing.T) {
	for url, want := range map[string]string{
		"valkey://127.0.0.1:6379":               "127.0.0.1:6379",
		"valkeys://u:p@ss@a:1,b:2?cluster=true": "a:1,b:2",
		"redis://:p@host/":                      "host",
		"valkey://u:p@[::1]:6379":               "[::1]:6379",
	} {
		if got := withoutPassword(url); got != want {
			t.Errorf("%s: got %s, want %s", url, got, want)
		}
	}
}

func writeScript(t *testing.T, path, text string) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(text), 0o700); err != nil {
		t.Fatal(err)
	}
}

// A function gets the variables of this program that it reads, except those that this
// program sets itself.
func TestEnvironment(t *testing.T) {
	given := map[string]string{
		"DENY_CACHE": "0s", "VALKEY_TIMEOUT": "1s", "KEY_PEPPER": "theirs", "VALKEY_URL": "valkey://theirs",
		"BASE_PATH": "/prod", "HOME": "/root",
	}
	getenv := func(name string) string { return given[name] }
	own := map[string]string{"KEY_PEPPER": "ours", "VALKEY_URL": "valkey://ours"}
	got := environment(config.CheckVariables, getenv, map[string]string{"VALKEY_TIMEOUT": "2s"}, own)
	want := map[string]string{
		"DENY_CACHE": "0s", "VALKEY_TIMEOUT": "1s", "KEY_PEPPER": "ours", "VALKEY_URL": "valkey://ours",
	}
	if !maps.Equal(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
	if got := environment(config.AdminVariables, getenv, nil, own); !maps.Equal(got, own) {
		t.Errorf("admin gets %v, want %v", got, own)
	}
}

// runToEnd runs the program with these arguments.
func runToEnd(t *testing.T, args ...string) (code int, out, errOut string) {
	t.Helper()
	var o, e waiting.Buffer
	code = execute(t.Context(), args, stdio{getenv: noEnv, out: &o, errOut: &e})
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

// The exit status of health is the health of the URL.
func TestHealth(t *testing.T) {
	status := http.StatusOK
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.WriteHeader(status)
	}))
	defer server.Close()
	succeed(t, "health", server.URL)
	status = http.StatusServiceUnavailable
	if code, _, errOut := runToEnd(t, "health", server.URL); code != 1 || !strings.Contains(errOut, "503") {
		t.Errorf("503: exit status %d: %s", code, errOut)
	}
	if code, _, _ := runToEnd(t, "health", "http://127.0.0.1:1/"); code != 1 {
		t.Errorf("nothing answers: exit status %d", code)
	}
	if code, _, errOut := runToEnd(t, "health"); code != 2 || !strings.Contains(errOut, "pass one URL") {
		t.Errorf("no URL: exit status %d: %s", code, errOut)
	}
}

// command matches a command of the program tidegate on a page.
var command = regexp.MustCompile("\\./scripts/(run|migrate|verify|restore)((?:[ \t]+[^ \t\n`|#&]+)*)")

// The flags of commands on the pages are those that -h explains.
func TestHelp(t *testing.T) {
	pages, err := filepath.Glob("../docs/*.md")
	if err != nil {
		t.Fatal(err)
	}
	help := map[string]string{}
	for _, page := range append(pages, "../README.md") {
		text, err := os.ReadFile(page)
		if err != nil {
			t.Fatal(err)
		}
		for _, call := range command.FindAllStringSubmatch(string(text), -1) {
			help[call[1]] = succeed(t, call[1], "-h")
			for _, word := range strings.Fields(call[2]) {
				name := regexp.MustCompile(`^--?[a-z][a-z-]*`).FindString(word)
				if name != "-h" && !regexp.MustCompile(`(?m)(^| )`+name+`\b`).MatchString(help[call[1]]) {
					t.Errorf("%s: the help of %s has no %s", page, call[1], name)
				}
			}
		}
	}
	if len(help) != 4 {
		t.Errorf("the pages have %d commands, want 4", len(help))
	}
}

// The Invoke API makes direct calls of the built check function, as an SDK does.
func TestInvokeAPI(t *testing.T) {
	p := start(t)
	ask := func(name, body string) (status int, mistake, text string) {
		t.Helper()
		r, err := http.NewRequestWithContext(t.Context(), http.MethodPost,
			p.url("invoke")+"/2015-03-31/functions/"+name+"/invocations", strings.NewReader(body))
		if err != nil {
			t.Fatal(err)
		}
		response, err := http.DefaultClient.Do(r)
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = response.Body.Close() }()
		answer, err := io.ReadAll(response.Body)
		if err != nil {
			t.Fatal(err)
		}
		return response.StatusCode, response.Header.Get("X-Amz-Function-Error"), string(answer)
	}
	for i := range 12 {
		status, _, text := ask("dev-check", `{"tidegate":"check","subject":"user-42","plan":"free"}`)
		if allowed := strings.Contains(text, `"allowed":true`); status != http.StatusOK || allowed != (i < 10) {
			t.Errorf("call %d: %d %s", i+1, status, text)
		}
	}
	if status, mistake, text := ask("check", `{"tidegate":"check"}`); mistake != "Unhandled" ||
		!strings.Contains(text, "apiKey and subject are missing") {
		t.Errorf("a mistake: %d, %q %s", status, mistake, text)
	}
	if status, _, text := ask("nothing", `{}`); status != http.StatusNotFound {
		t.Errorf("an unknown function: %d %s", status, text)
	}
}
