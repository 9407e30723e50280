package repocheck

import (
	"fmt"
	"path"
	"regexp"
	"strings"
)

// machinePath matches paths that exist only on one person's machine.
var machinePath = regexp.MustCompile(`(?:^|[^\w./-])/(?:work|root|Users|home/\w+)/`)

// noMachinePaths forbids paths of one machine.
func noMachinePaths(r repository) []string {
	return linesMatching(r, machinePath, "has a path of one machine")
}

var registryHost = regexp.MustCompile(`registry\.npmjs\.|proxy\.golang\.|"resolved": *"http`)

// noRegistryHosts forbids addresses of package registries: each machine configures its
// own.
func noRegistryHosts(r repository) []string {
	return linesMatching(r, registryHost, "has the address of a package registry")
}

func linesMatching(r repository, pattern *regexp.Regexp, what string) []string {
	var broken []string
	for _, f := range r.files {
		number := 0
		for line := range strings.Lines(f.text) {
			number++
			if pattern.MatchString(line) {
				broken = append(broken, fmt.Sprintf("%s: line %d %s: %.100q", f.path, number, what,
					strings.TrimSpace(line)))
			}
		}
	}
	return broken
}

var scriptHelp = regexp.MustCompile(`(?m)^ *-h \| --help\) `)

// scriptsExplain requires that a script is executable, states its purpose in its second
// line, and has -h.
func scriptsExplain(r repository) []string {
	var broken []string
	for _, f := range r.files {
		if folder := path.Dir(f.path); folder != "scripts" && folder != ".ci" || path.Ext(f.path) != "" {
			continue
		}
		header := strings.SplitN(f.text, "\n", 3)
		switch {
		case f.mode&0o111 != 0o111:
			broken = append(broken, f.path+": is not executable")
		case len(header) < 3 || !strings.HasPrefix(header[0], "#!") || !strings.HasPrefix(header[1], "# "):
			broken = append(broken, f.path+": does not begin with #! and a comment with its purpose")
		case !scriptHelp.MatchString(f.text):
			broken = append(broken, f.path+": has no -h")
		}
	}
	return broken
}

const goodScript = "#!/bin/sh\n# Does one thing.\ncase $1 in\n-h | --help) help ;;\nesac\n"

// The constants are joined from parts so that this file follows the rules that it tests.
const (
	slash    = "/"
	npm      = "registry.npm" + "js.org"
	resolved = `"resolved"` + `: "https://`
)

var textCases = []ruleCase{
	{
		"no path of one machine", "each kind", tree{
			"a.md":           "first\nsee " + slash + "work/notes.md\n",
			"b.go":           "package b\n\nconst p = \"" + slash + "root/x\"\n",
			"c.md":           slash + "Users/ada/x\n",
			"scripts/d.yaml": "path=" + slash + "home/ada/x\n",
		}, []string{"a.md: line 2", "b.go: line 3", "c.md: line 1", "scripts/d.yaml: line 1"},
	},
	{"no path of one machine", "parts of other paths",
		tree{"a.md": "https://example.com/work/ ./root/x frame/work/ /usr/bin/env\n"}, nil},
	{
		"no registry in lockfiles", "host and lockfile", tree{
			"a.json": `{"from": "https://` + npm + `/x"}`,
			"b.json": `{` + resolved + `example.com/x.tgz"}`,
		}, []string{"a.json: line 1", "b.json: line 1"},
	},
	{"no registry in lockfiles", "integrity alone",
		tree{"a.json": `{"version": "1.0.0", "integrity": "sha512-x"}`}, nil},
}

var scriptCases = []ruleCase{
	{"scripts explain", "good", tree{"scripts/one": goodScript, ".ci/run": goodScript,
		"scripts/sourced.sh": "true\n"}, nil},
	{"scripts explain", "not executable", tree{"scripts/one-": goodScript},
		[]string{"scripts/one: is not executable"}},
	{
		"scripts explain", "no purpose",
		tree{"scripts/one": strings.Replace(goodScript, "# Does", "", 1), ".ci/run": "true"},
		[]string{".ci/run: does not begin", "scripts/one: does not begin"},
	},
	{
		"scripts explain", "no help", tree{"scripts/one": strings.Replace(goodScript, "-h |", "", 1)},
		[]string{"scripts/one: has no -h"},
	},
}
