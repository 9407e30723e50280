package main

import (
	"bytes"
	"context"
	"errors"
	"flag"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

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

// Bad usage ends with 2, names the flag, and calls nobody.
func TestBadUsage(t *testing.T) {
	two := write(t, "two.json", `{"a": {}, "b": {}}`, 0o600)
	for _, c := range []struct {
		name, want string
		flags      []string
	}{
		{"nothing", "nothing to check", nil},
		{"an unknown flag", "-wrong", []string{"-wrong"}},
		{"an argument", `"x"`, []string{"x"}},
		{"no key", "-key is missing", []string{"-rest", "https://api.example"}},
		{"no scheme", "-rest: write a URL", []string{"-rest", "api.example", "-key", "k"}},
		{"a query", "-http: write a URL", []string{"-http", "https://api.example?x", "-key", "k"}},
		{"a user", "-dashboard: write a URL", []string{"-dashboard", "https://a:b@c.example"}},
		{"a key with a line break", "-key: must be",
			[]string{"-rest", "https://api.example", "-key", "a\nb"}},
		{"a long token", "-token: must be", []string{"-token", strings.Repeat("a", maxSecret+1)}},
		{"a token alone", "-token needs",
			[]string{"-rest", "https://api.example", "-key", "k", "-token", "t"}},
		{"a stack that is a flag", "-stack: write", []string{"-stack", "--profile"}},
		{"no folder", "-markdown", []string{"-markdown", "/no/folder/x.md"}},
		{"no outputs", "-outputs", []string{"-outputs", "/no/file"}},
		{"outputs of two stacks", "name one of them", []string{"-outputs", two}},
	} {
		t.Run(c.name, func(t *testing.T) {
			var out, errOut bytes.Buffer
			code := run(t.Context(), c.flags, environment(), &out, &errOut)
			if code != badUsage || !strings.Contains(errOut.String(), c.want) || out.Len() > 0 {
				t.Errorf("exit status %d: %s%s", code, &errOut, &out)
			}
		})
	}
}

// The URLs come from the file of cdk deploy, or from the stack, unless they are given.
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
				t.Errorf("%+v, %v", o, err)
			}
		})
	}
	o := options{stack: "tidegate-dev", key: "k"}
	if err := o.complete(t.Context(), nil); err == nil ||
		!strings.Contains(err.Error(), "aws is not on PATH") {
		t.Errorf("a stack alone, without aws: %v", err)
	}
}

// The secrets may come from the environment, which other users of the machine cannot see.
func TestSecretsOfTheEnvironment(t *testing.T) {
	o, err := parseOptions([]string{"-key", "given"}, environment(keyVariable, "k", tokenVariable, "t"))
	if err != nil || o.key != "given" || o.token != "t" {
		t.Errorf("%+v, %v", o, err)
	}
}

// -h of the script and of the program name every flag, and both variables.
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
			t.Errorf("-h lacks %s", name)
		}
	}
	for _, name := range append(names, keyVariable, tokenVariable) {
		if !strings.Contains(string(script), name) {
			t.Errorf("scripts/verify -h lacks %s", name)
		}
	}
}

// The AWS command line is found on PATH, asked for JSON, and its error is shown.
func TestAWSCommandLine(t *testing.T) {
	file := write(t, "aws", "#!/bin/sh\n[ \"$1\" = sts ] && { echo 'no such profile' >&2; exit 255; "+
		"}\necho \"\\\"$*\\\"\"\n", 0o700)
	t.Setenv("PATH", filepath.Dir(file)+string(os.PathListSeparator)+os.Getenv("PATH"))
	aws := findAWS()
	if aws == nil {
		t.Fatal("aws is not found")
	}
	out, err := aws(t.Context(), "logs", "describe-log-groups")
	if want := `"logs describe-log-groups --output json --no-cli-pager"`; err != nil ||
		strings.TrimSpace(string(out)) != want {
		t.Errorf("%s, %v", out, err)
	}
	if _, err := aws(t.Context(), "sts", "get-caller-identity"); err == nil ||
		!strings.Contains(err.Error(), "no such profile") {
		t.Errorf("error %v", err)
	}
	t.Setenv("PATH", t.TempDir())
	if findAWS() != nil {
		t.Error("aws is found on an empty PATH")
	}
}

// API Gateway's own quotas are not expected of a URL of this machine.
func TestIsLocal(t *testing.T) {
	for text, want := range map[string]bool{
		"http://127.0.0.1:8080": true, "http://localhost:8080": true, "http://[::1]:80": true, "": true,
		"https://api.example.com": false, "http://10.0.0.1": false,
	} {
		if isLocal(text) != want {
			t.Errorf("isLocal(%q) is %t", text, !want)
		}
	}
}
