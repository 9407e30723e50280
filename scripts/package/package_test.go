package main

import (
	"strings"
	"testing"
)

// One version has a form for each registry. A version that one of them would refuse is
// refused first.
func TestVersions(t *testing.T) {
	for name, want := range map[string]version{
		"v1.2.3":        {"v1.2.3", "1.2.3", "1.2.3"},
		"v1.2.3-rc.4":   {"v1.2.3-rc.4", "1.2.3-rc.4", "1.2.3rc4"},
		"v1.2.3-beta.1": {"v1.2.3-beta.1", "1.2.3-beta.1", "1.2.3b1"},
		"v0.0.0-20261128043545-0abe4fb094ef": {"v0.0.0-20261128043545-0abe4fb094ef",
			"0.0.0-20261128043545-0abe4fb094ef", "0.0.0.dev20261128043545"},
	} {
		if got, err := parseVersion(name); err != nil || got != want {
			t.Errorf("%s: got %+v, %v, want %+v", name, got, err, want)
		}
	}
	for _, name := range []string{"", "1.2.3", "v1.2", "v1.2.3+x", "v1.2.3-rc", "v1.2.3-x.1", "latest"} {
		if _, err := parseVersion(name); err == nil || !strings.Contains(err.Error(), "write ") {
			t.Errorf("%q: got %v", name, err)
		}
	}
}

// A module path that Go cannot fetch, or that does not fit the version, is refused with
// what to write.
func TestModulePath(t *testing.T) {
	for path, golang := range map[string]string{
		"tidegate": "v1.2.3", "github.com/acme/tidegate/v2": "v1.2.3", "github.com/acme/tidegate": "v2.0.0",
		"https://github.com/acme/tidegate": "v1.2.3",
	} {
		err := release([]string{"-version", golang, "-module", path})
		if err == nil || !strings.HasPrefix(err.Error(), "-module "+path+": write a path") {
			t.Errorf("%s %s: got %v", path, golang, err)
		}
	}
}

// Imports get the new path, also named ones and those of templates. Texts do not.
func TestImportsAreRenamed(t *testing.T) {
	for line, want := range map[string]string{
		"\t\"tidegate/web/middleware\"":            "\t\"a.example/t/web/middleware\"",
		`import "tidegate/internal/lua"`:           `import "a.example/t/internal/lua"`,
		"\tneturl \"tidegate/x\" // says why":      "\tneturl \"a.example/t/x\" // says why",
		"\t. \"tidegate\"":                         "\t. \"a.example/t\"",
		"\t\"tidegatex/y\"":                        "\t\"tidegatex/y\"",
		"\tbuilt.Small(t, \"tidegate/functions\")": "\tbuilt.Small(t, \"tidegate/functions\")",
	} {
		if got := ownImport.ReplaceAllString(line, "${1}a.example/t${2}"); got != want {
			t.Errorf("%s: got %s", line, got)
		}
	}
}
