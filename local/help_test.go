//go:build unix

package main

import (
	"flag"
	"os/exec"
	"regexp"
	"slices"
	"strings"
	"testing"

	"tidegate/internal/testing/syncbuffer"
)

func TestRunHelp(t *testing.T) {
	var out, errOut syncbuffer.Buffer
	if code := run(t.Context(), []string{"-h"}, noEnv, &out, &errOut); code != 0 || errOut.String() != "" {
		t.Errorf("exit status %d, %q", code, errOut.String())
	}
	names := listedFlags(out.String())
	var o options
	o.flags().VisitAll(func(f *flag.Flag) { checkListedOnce(t, "help", names, f.Name) })
	if !strings.Contains(out.String(), "Example:") {
		t.Error("help has no example")
	}
}

var flagLine = regexp.MustCompile(`(?m)^ +-([a-z-]+)\b.*$`)

// listedFlags returns the names of the flags that have a line in a help text.
func listedFlags(help string) []string {
	var names []string
	for _, line := range flagLine.FindAllStringSubmatch(help, -1) {
		names = append(names, line[1])
	}
	return names
}

func checkListedOnce(t *testing.T, help string, names []string, name string) {
	t.Helper()
	if n := len(slices.DeleteFunc(slices.Clone(names), func(other string) bool {
		return other != name
	})); n != 1 {
		t.Errorf("%s has %d lines of -%s, want 1", help, n, name)
	}
}

// The help of scripts/run, which needs no build, has each flag once, with its default.
// Each listed flag can be parsed, and changes an option that no other flag changes.
func TestScriptHelpListsTheFlags(t *testing.T) {
	out, err := exec.CommandContext(t.Context(), "../scripts/run", "-h").CombinedOutput()
	if err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	names := listedFlags(string(out))
	var o options
	o.flags().VisitAll(func(f *flag.Flag) {
		checkListedOnce(t, "scripts/run -h", names, f.Name)
		stated := regexp.MustCompile(`(?m)^ +-` + f.Name + `\b(.*\n {20,})*.* ` +
			regexp.QuoteMeta(f.DefValue) + `(?:[;,. ]|$)`)
		if f.Name != "bin" && f.DefValue != "" && f.DefValue != "false" && !stated.Match(out) {
			t.Errorf("scripts/run -h does not have the default of -%s, %s", f.Name, f.DefValue)
		}
	})
	changedBy := map[options]string{}
	for _, name := range names {
		var parsed options
		f := parsed.flags()
		unchanged := parsed
		value := "1" // true for a switch
		if err := f.Parse([]string{"-" + name + "=" + value}); err != nil || parsed == unchanged {
			t.Errorf("-%s=%s changes nothing: %v", name, value, err)
		}
		if other := changedBy[parsed]; other != "" {
			t.Errorf("-%s and -%s change the same option", name, other)
		}
		changedBy[parsed] = name
	}
}
