package main

import (
	"bytes"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"golang.org/x/mod/module"
)

// thirdParty is the file with the licences of what the programs contain.
const thirdParty = "LICENSES-THIRD-PARTY.txt"

// licenses writes the licences of Go, of the modules that bom found, and of the libraries
// of the dashboard's pages.
func (r *releaser) licenses() error {
	out, err := exec.Command("go", "env", "GOROOT", "GOMODCACHE").Output()
	if err != nil {
		return fmt.Errorf("find the modules: %w", err)
	}
	goRoot, cache, _ := strings.Cut(strings.TrimSpace(string(out)), "\n")
	var text bytes.Buffer
	if err := addLicenses(&text, "Go", goRoot); err != nil {
		return err
	}
	for _, path := range slices.Sorted(maps.Keys(r.modules)) {
		escaped, err := module.EscapePath(path)
		if err != nil {
			return err
		}
		if err := addLicenses(&text, path, filepath.Join(cache, escaped+"@"+r.modules[path])); err != nil {
			return err
		}
	}
	err = addLicenses(&text, "the dashboard's pages", "web/static/libraries")
	return r.write(thirdParty, text.Bytes(), err)
}

var licenseFile = regexp.MustCompile(`(?i)^(licen[cs]e|copying|notice)(\.(txt|md))?$|\.LICENSE$`)

// addLicenses adds the licences and notices in a folder.
func addLicenses(text *bytes.Buffer, of, folder string) error {
	entries, err := os.ReadDir(folder)
	if err != nil {
		return fmt.Errorf("find the licence of %s: %w", of, err)
	}
	before := text.Len()
	for _, entry := range entries {
		if !licenseFile.MatchString(entry.Name()) {
			continue
		}
		content, err := os.ReadFile(filepath.Join(folder, entry.Name()))
		if err != nil {
			return err
		}
		fmt.Fprintf(text, "==== %s: %s\n\n%s\n\n", of, entry.Name(), bytes.TrimSpace(content))
	}
	if text.Len() == before {
		return fmt.Errorf("no licence of %s is in %s", of, folder)
	}
	return nil
}
