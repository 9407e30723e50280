package main

import (
	"bytes"
	"cmp"
	"debug/buildinfo"
	"encoding/base64"
	"encoding/hex"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"runtime/debug"
	"slices"
	"strings"

	"github.com/CycloneDX/cyclonedx-go"
)

// bundled matches what web/static/libraries/update takes from npm.
var bundled = regexp.MustCompile(`(?m)^take (\S+)@(\S+) `)

// bom writes the bill of materials: the Go modules in the programs, as the programs
// themselves say, and the libraries of the dashboard's pages. The middlewares have no
// dependencies.
func (r *releaser) bom() error {
	components := map[string]cyclonedx.Component{} // by package URL
	programs, err := filepath.Glob("build/linux_*/*/*")
	if err != nil || len(programs) == 0 {
		return fmt.Errorf("no programs in build: %w", err)
	}
	for _, program := range programs {
		info, err := buildinfo.ReadFile(program)
		if err != nil {
			continue // a script
		}
		r.addModules(components, info)
	}
	update, err := os.ReadFile("web/static/libraries/update")
	if err != nil {
		return err
	}
	for _, match := range bundled.FindAllStringSubmatch(string(update), -1) {
		add(components, "npm", match[1], match[2])
	}
	sorted := slices.SortedFunc(maps.Values(components), func(a, b cyclonedx.Component) int {
		return cmp.Compare(a.PackageURL, b.PackageURL)
	})
	document := cyclonedx.NewBOM()
	document.Metadata = &cyclonedx.Metadata{Component: &cyclonedx.Component{
		BOMRef: ourModule, Type: cyclonedx.ComponentTypeApplication, Name: ourModule, Version: r.version.npm,
		Licenses: &cyclonedx.Licenses{{License: &cyclonedx.License{ID: "Apache-2.0"}}},
	}}
	document.Components = &sorted
	var text bytes.Buffer
	err = cyclonedx.NewBOMEncoder(&text, cyclonedx.BOMFileFormatJSON).SetPretty(true).Encode(document)
	return r.write("sbom.cdx.json", text.Bytes(), err)
}

// addModules adds the modules of a program, and Go's own library, to the bill and to
// r.modules.
func (r *releaser) addModules(components map[string]cyclonedx.Component, info *debug.BuildInfo) {
	add(components, "golang", "std", strings.TrimPrefix(info.GoVersion, "go"))
	for _, dependency := range info.Deps {
		r.modules[dependency.Path] = dependency.Version
		c := add(components, "golang", dependency.Path, dependency.Version)
		// h1: is a SHA-256 in Base64, of the module's list of files and hashes.
		sum, err := base64.StdEncoding.DecodeString(strings.TrimPrefix(dependency.Sum, "h1:"))
		if err == nil && len(sum) > 0 {
			hash := cyclonedx.Hash{Algorithm: cyclonedx.HashAlgoSHA256, Value: hex.EncodeToString(sum)}
			c.Hashes = &[]cyclonedx.Hash{hash}
			components[c.PackageURL] = c
		}
	}
}

func add(components map[string]cyclonedx.Component, kind, name, version string) cyclonedx.Component {
	url := "pkg:" + kind + "/" + strings.Replace(name, "@", "%40", 1) + "@" + version // a scope begins with @
	c := cyclonedx.Component{BOMRef: url, Type: cyclonedx.ComponentTypeLibrary, Name: name, Version: version,
		PackageURL: url}
	components[url] = c
	return c
}
