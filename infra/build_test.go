package main

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"tidegate/infra/settings"
)

func glob(t *testing.T, pattern string) []string {
	t.Helper()
	paths, err := filepath.Glob(pattern)
	if err != nil {
		t.Fatal(err)
	}
	return paths
}

func read(t *testing.T, path string) []byte {
	t.Helper()
	content, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return content
}

// repository returns a folder that builds the functions by a script.
func repository(t *testing.T, script string) string {
	t.Helper()
	root := t.TempDir()
	for _, folder := range []string{"functions/check", "functions/admin", "scripts", "build"} {
		if err := os.MkdirAll(filepath.Join(root, folder), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	file := filepath.Join(root, "scripts", "build")
	if err := os.WriteFile(file, []byte("#!/bin/sh\n"+script), 0o755); err != nil {
		t.Fatal(err)
	}
	return root
}

// Each function's code is the zip file that the build makes for it.
func TestAssetsAreTheBuild(t *testing.T) {
	folder := t.TempDir()
	app, err := newApp(folder, nil)
	if err != nil {
		t.Fatal(err)
	}
	builds := &build{root: repository(t, `cd "${0%/*}/../build" && for f in check admin; do echo $GOARCH $f >$f.zip; done`)}
	if err := synthesise(app, func() { newStack(app, settings.Default("dev"), builds.code) }); err != nil {
		t.Fatal(err, builds.err)
	}
	var names []string
	for _, path := range glob(t, filepath.Join(folder, "asset.*.zip")) {
		names = append(names, strings.TrimSpace(string(read(t, path))))
	}
	if got := strings.Join(slices.Sorted(slices.Values(names)), ", "); got != "arm64 admin, arm64 check" {
		t.Errorf("got assets %s, want both functions' for arm64", got)
	}
}

// The error of a failed build has the build's output.
func TestBuildFails(t *testing.T) {
	app, err := newApp(t.TempDir(), nil)
	if err != nil {
		t.Fatal(err)
	}
	failing := &build{root: repository(t, "echo Go is missing >&2\nexit 1\n")}
	if err := synthesise(app, func() { newStack(app, settings.Default("dev"), failing.code) }); err == nil || failing.err == nil ||
		!strings.Contains(failing.err.Error(), "Go is missing") {
		t.Errorf("got %v, %v, want the build's output in the second", err, failing.err)
	}
}
