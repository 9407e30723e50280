package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"flag"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
)

func readReport(t *testing.T, file string) *report {
	t.Helper()
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	var r report
	if err := json.Unmarshal(text, &r); err != nil {
		t.Fatal(err)
	}
	return &r
}

// with returns the ids of rows with a verdict.
func (r *report) with(v verdict) []string {
	var ids []string
	for _, row := range r.Rows {
		if row.Verdict == v {
			ids = append(ids, row.ID)
		}
	}
	return ids
}

// A deployment as expected passes every row that a program can check.
func TestAsExpected(t *testing.T) {
	f := newFake()
	out, progress, r, code := f.verify(t, fakeOptions())
	if code != allAsExpected || r.Differs != 0 {
		t.Fatalf("exit status %d\n%s", code, out)
	}
	var hand []string
	for _, row := range rows {
		if row.probe == nil {
			hand = append(hand, row.id)
		}
	}
	if got := r.with(skipped); !slices.Equal(got, hand) {
		t.Errorf("skipped: %q, want %q", got, hand)
	}
	if r.Calls == 0 || !strings.Contains(out, r.summary()) ||
		!strings.Contains(progress, "verify makes at most") {
		t.Errorf("want the plan and the summary in:\n%s\n%s", progress, out)
	}
	if f.overridden {
		t.Error("got an override in force at the end, want none")
	}
}

// verify makes at most as many calls as it announces.
func TestPlanBoundsTheCalls(t *testing.T) {
	f := newFake()
	_, progress, r, _ := f.verify(t, fakeOptions())
	_, text, _ := strings.Cut(progress, "at most ")
	text, _, _ = strings.Cut(text, " ")
	most, err := strconv.ParseInt(text, 10, 64)
	if err != nil || r.Calls > most {
		t.Errorf("got %d calls, announced at most %q", r.Calls, text)
	}
}

// Without a token verify sends only GET requests and preflights. With a token it changes
// only the override.
func TestOnlyReads(t *testing.T) {
	f, o := newFake(), fakeOptions()
	f.verify(t, o)
	override := "/limits/api/v1/keys/key-id/override"
	want := []string{"OPTIONS /prod/verify", "OPTIONS /verify", "PUT " + override, "DELETE " + override}
	if !slices.Equal(f.methods, want) {
		t.Errorf("got %q, want %q", f.methods, want)
	}
	for _, command := range f.ran {
		verb, _, _ := strings.Cut(command[1], "-")
		if !slices.Contains([]string{"describe", "get", "list", "filter"}, verb) {
			t.Errorf("got command aws %q, want one that only reads", command)
		}
		if !slices.Equal(command[len(command)-2:], []string{"--region", "eu-west-1"}) {
			t.Errorf("got command aws %q, want the API's region", command)
		}
	}
	commands := 0
	for _, p := range probes {
		commands += p.commands
	}
	if len(f.ran) != commands || commands == 0 {
		t.Errorf("got %d commands, want %d", len(f.ran), commands)
	}
	f, o.token = newFake(), ""
	f.verify(t, o)
	if want := []string{"OPTIONS /prod/verify", "OPTIONS /verify"}; !slices.Equal(f.methods, want) {
		t.Errorf("without a token: got %q, want %q", f.methods, want)
	}
}

// The override is removed if the call with it fails, and if verify is interrupted during
// this call.
func TestOverrideIsRemoved(t *testing.T) {
	for _, end := range []string{"a failed call", "an interrupt"} {
		t.Run(end, func(t *testing.T) {
			f := newFake()
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			s := newSession(fakeOptions(), f.aws)
			s.client.Transport, s.keyID = f, "key-id"
			f.tamper = func(f *fake, r *http.Request, a *fakeAnswer) {
				if f.overridden && strings.HasPrefix(r.URL.Path, "/prod") {
					a.err = errors.New("the network is unavailable")
					if end == "an interrupt" {
						cancel()
					}
				}
			}
			editLimits(ctx, s)
			if f.overridden || !slices.ContainsFunc(f.methods, func(m string) bool {
				return strings.HasPrefix(m, "PUT")
			}) {
				t.Errorf("got override in force: %t after %q, want it set and removed", f.overridden,
					f.methods)
			}
		})
	}
}

// Neither the key nor the token is in any output, whatever an API echoes.
func TestSecretsAreNotShown(t *testing.T) {
	f, o := newFake(), fakeOptions()
	f.tamper = func(_ *fake, r *http.Request, a *fakeAnswer) {
		a.body = "your key " + r.Header.Get("X-Api-Key") + " " + r.Header.Get("Authorization") + a.body
		a.set("Retry-After", fakeKey, "Location", fakeToken)
	}
	f.commands["lambda get-function-configuration"] = `"{{resolve:secretsmanager:` + fakePep + `"`
	dir := t.TempDir()
	o.markdown = filepath.Join(dir, "report.md")
	out, progress, r, code := f.verify(t, o)
	written, err := os.ReadFile(o.markdown)
	if err != nil || code != somethingDiffers {
		t.Fatalf("exit status %d, %v", code, err)
	}
	text, _ := json.Marshal(r)
	for name, shown := range map[string]string{"table": out, "progress": progress,
		"Markdown": string(written), "JSON": string(text)} {
		for _, secret := range []string{fakeKey, fakeToken, fakePep} {
			if strings.Contains(shown, secret) {
				t.Errorf("got the secret %s in %s", secret, name)
			}
		}
	}
	if !strings.Contains(out, "[secret]") {
		t.Errorf("want [secret] in the output, or the test proves nothing:\n%s", out)
	}
}

// The Markdown file has a line for each row, with six cells.
func TestMarkdown(t *testing.T) {
	f, o := newFake(), fakeOptions()
	f.tamper = func(_ *fake, _ *http.Request, a *fakeAnswer) { a.header.Set("RateLimit-Policy", "a | b") }
	o.markdown = filepath.Join(t.TempDir(), "report.md")
	f.verify(t, o)
	text, err := os.ReadFile(o.markdown)
	if err != nil {
		t.Fatal(err)
	}
	lines := 0
	for line := range strings.Lines(string(text)) {
		if strings.HasPrefix(line, "| ") {
			lines++
			if n := strings.Count(strings.ReplaceAll(line, `\|`, ""), "|"); n != 7 {
				t.Errorf("got %d bars, want 7 in %s", n, line)
			}
		}
	}
	if lines != len(rows)+1 {
		t.Errorf("got %d lines, want a head and %d rows", lines, len(rows))
	}
}

// An interrupted run prints no table and does not exit with 0.
func TestInterrupt(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	f := newFake()
	s := newSession(fakeOptions(), f.aws)
	s.client.Transport = f
	var out, progress bytes.Buffer
	if code := verify(ctx, s, &out, &progress); code != somethingDiffers ||
		!strings.Contains(progress.String(), "interrupted") || out.Len() > 0 {
		t.Errorf("got exit status %d, want %d: %s%s", code, somethingDiffers, &progress, &out)
	}
}

// Rows whose needs are not met are skipped with the reason.
func TestSkips(t *testing.T) {
	for _, c := range []struct {
		name, row, reason string
		change            func(*options, *fake)
	}{
		{"no REST API", "rest-allowed", "-rest is not set", func(o *options, _ *fake) { o.rest = "" }},
		{"no HTTP API", "http-allowed", "-http is not set", func(o *options, _ *fake) { o.http = "" }},
		{"no dashboard", "dash-login", "-dashboard is not set", func(o *options, _ *fake) {
			o.dashboard, o.token = "", ""
		}},
		{"no token", "edit-acts", "-token is not set", func(o *options, _ *fake) { o.token = "" }},
		{"no throttle", "throttle-rest", "-throttle is not set", func(o *options, _ *fake) {
			o.throttle = false
		}},
		{"no stack", "stack", "the stack is unknown", func(o *options, _ *fake) { o.stack = "" }},
		{"denials of an HTTP API are 403", "http-429-body", "-c httpApiDeny=context",
			func(_ *options, f *fake) { f.true429 = false }},
		{"a large limit", "rest-429", "the key's limit is 1000 per 10s", func(_ *options, f *fake) {
			f.limit = 1000
		}},
		{"no execution log", "usage-plan", "writes no execution log", func(_ *options, f *fake) {
			f.commands["execution log"] = notFound
		}},
		{"no step in the log", "usage-plan", "no request with both steps", func(_ *options, f *fake) {
			f.commands["execution log"] = `[]`
		}},
		{"an override", "edit-ends", "the key has an override", func(_ *options, f *fake) {
			f.tamper = func(_ *fake, r *http.Request, a *fakeAnswer) {
				if strings.HasSuffix(r.URL.Path, "/keys/key-id") {
					a.body = `{"override":{}}`
				}
			}
		}},
	} {
		t.Run(c.name, func(t *testing.T) {
			f, o := newFake(), fakeOptions()
			c.change(&o, f)
			out, _, r, code := f.verify(t, o)
			if code != allAsExpected {
				t.Errorf("got exit status %d, want %d\n%s", code, allAsExpected, out)
			}
			i := slices.IndexFunc(r.Rows, func(row result) bool { return row.ID == c.row })
			if row := r.Rows[i]; row.Verdict != skipped || !strings.Contains(row.Reason, c.reason) {
				t.Errorf("got %+v, want it skipped with %q", row, c.reason)
			}
		})
	}
}

func environment(pairs ...string) func(string) string {
	return func(name string) string {
		for i := 0; i < len(pairs); i += 2 {
			if pairs[i] == name {
				return pairs[i+1]
			}
		}
		return ""
	}
}

func write(t *testing.T, name, text string, mode os.FileMode) string {
	t.Helper()
	file := filepath.Join(t.TempDir(), name)
	if err := os.WriteFile(file, []byte(text), mode); err != nil {
		t.Fatal(err)
	}
	return file
}

// Bad usage gives exit status 2 and an error that names the flag, without a table.
func TestBadUsage(t *testing.T) {
	two := write(t, "two.json", `{"a": {}, "b": {}}`, 0o600)
	for _, c := range []struct {
		name, want string
		flags      []string
	}{
		{"nothing", "no URL to check", nil},
		{"an unknown flag", "-wrong", []string{"-wrong"}},
		{"an argument", `"x"`, []string{"x"}},
		{"no key", "-key is missing", []string{"-rest", "https://api.example"}},
		{"no scheme", "-rest: must be a URL", []string{"-rest", "api.example", "-key", "k"}},
		{"a query", "-http: must be a URL", []string{"-http", "https://api.example?x", "-key", "k"}},
		{"a user", "-dashboard: must be a URL", []string{"-dashboard", "https://a:b@c.example"}},
		{"a key with a line break", "-key: must be",
			[]string{"-rest", "https://api.example", "-key", "a\nb"}},
		{"a long token", "-token: must be", []string{"-token", strings.Repeat("a", maxSecret+1)}},
		{"a token alone", "-token needs",
			[]string{"-rest", "https://api.example", "-key", "k", "-token", "t"}},
		{"a stack that is a flag", "-stack: must be", []string{"-stack", "--profile"}},
		{"no folder", "-markdown", []string{"-markdown", "/no/folder/x.md"}},
		{"no outputs", "-outputs", []string{"-outputs", "/no/file"}},
		{"outputs of two stacks", "set -stack to one of them", []string{"-outputs", two}},
	} {
		t.Run(c.name, func(t *testing.T) {
			var out, errOut bytes.Buffer
			code := run(t.Context(), c.flags, environment(), &out, &errOut)
			if code != badUsage || !strings.Contains(errOut.String(), c.want) || out.Len() > 0 {
				t.Errorf("got exit status %d, want %d and %q: %s%s", code, badUsage, c.want, &errOut, &out)
			}
		})
	}
}

// The URLs without a flag come from the file of cdk deploy. If none has a flag, they can
// come from the stack.
func TestOutputs(t *testing.T) {
	file := write(t, "outputs.json",
		`{"tidegate-dev": {"ExampleRestUrl": "https://r.example/prod/", "ExampleHttpUrl": "https://h.example",
		"DashboardUrl": "https://d.example/", "CacheHost": "x"}}`, 0o600)
	listed := `[{"OutputKey": "ExampleRestUrl", "OutputValue": "https://r.example/prod/"},
		{"OutputKey": "ExampleHttpUrl", "OutputValue": "https://h.example"}, {"OutputKey": "DashboardUrl", "OutputValue": "https://d.example/"}]`
	aws := func(_ context.Context, args ...string) ([]byte, error) {
		if args[0] != "cloudformation" || args[3] != "tidegate-dev" {
			return nil, errors.New("another command")
		}
		return []byte(listed), nil
	}
	for name, flags := range map[string][]string{
		"file": {"-outputs", file, "-key", "k"}, "stack": {"-stack", "tidegate-dev", "-key", "k"},
		"a file, and a URL": {"-outputs", file, "-key", "k", "-http", "https://h.example/"},
	} {
		t.Run(name, func(t *testing.T) {
			o, err := parseOptions(flags, environment())
			if err == nil {
				err = o.complete(t.Context(), aws)
			}
			if err != nil || o.rest != "https://r.example/prod" || o.http != "https://h.example" ||
				o.dashboard != "https://d.example" ||
				o.stack != "tidegate-dev" {
				t.Errorf("got %+v, %v", o, err)
			}
		})
	}
	o := options{stack: "tidegate-dev", key: "k"}
	if err := o.complete(t.Context(), nil); err == nil ||
		!strings.Contains(err.Error(), "aws, which reads the outputs, is not on PATH") {
		t.Errorf("a stack without URLs and without aws: got %v, want an error on PATH", err)
	}
}

// The secrets can come from the environment. A flag takes precedence.
func TestSecretsFromTheEnvironment(t *testing.T) {
	o, err := parseOptions([]string{"-key", "given"}, environment(keyVariable, "k", tokenVariable, "t"))
	if err != nil || o.key != "given" || o.token != "t" {
		t.Errorf("%+v, %v", o, err)
	}
}

// -h of the program and of the script name every flag. The script also names both
// variables.
func TestHelp(t *testing.T) {
	var out, errOut bytes.Buffer
	if code := run(t.Context(), []string{"-h"}, environment(), &out, &errOut); code != allAsExpected ||
		errOut.Len() > 0 {
		t.Fatalf("exit status %d: %s", code, &errOut)
	}
	script, err := os.ReadFile("../../scripts/verify")
	if err != nil {
		t.Fatal(err)
	}
	var o options
	names := []string{}
	o.flags().VisitAll(func(f *flag.Flag) { names = append(names, "-"+f.Name) })
	for _, name := range names {
		if !strings.Contains(out.String(), "\n  "+name) {
			t.Errorf("want %s in the output of -h", name)
		}
	}
	for _, name := range append(names, keyVariable, tokenVariable) {
		if !strings.Contains(string(script), name) {
			t.Errorf("want %s in scripts/verify", name)
		}
	}
}

// findAWS finds the AWS CLI on PATH. The command asks it for JSON and returns its error.
func TestAWSCommandLine(t *testing.T) {
	file := write(t, "aws", "#!/bin/sh\n[ \"$1\" = sts ] && { echo 'no such profile' >&2; exit 255; "+
		"}\necho \"\\\"$*\\\"\"\n", 0o700)
	t.Setenv("PATH", filepath.Dir(file)+string(os.PathListSeparator)+os.Getenv("PATH"))
	aws := findAWS()
	if aws == nil {
		t.Fatal("findAWS: got nil with aws on PATH")
	}
	out, err := aws(t.Context(), "logs", "describe-log-groups")
	if want := `"logs describe-log-groups --output json --no-cli-pager"`; err != nil ||
		strings.TrimSpace(string(out)) != want {
		t.Errorf("%s, %v", out, err)
	}
	if _, err := aws(t.Context(), "sts", "get-caller-identity"); err == nil ||
		!strings.Contains(err.Error(), "no such profile") {
		t.Errorf("got error %v, want that of aws", err)
	}
	t.Setenv("PATH", t.TempDir())
	if findAWS() != nil {
		t.Error("findAWS: got a command on an empty PATH, want nil")
	}
}

// Only loopback addresses and the empty URL are local.
func TestIsLocal(t *testing.T) {
	for text, want := range map[string]bool{
		"http://127.0.0.1:8080": true, "http://localhost:8080": true, "http://[::1]:80": true, "": true,
		"https://api.example.com": false, "http://10.0.0.1": false,
	} {
		if isLocal(text) != want {
			t.Errorf("isLocal(%q): got %t, want %t", text, !want, want)
		}
	}
}
