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
	for _, folder := range []string{"scripts", "build"} {
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
	code, err := build(repository(t,
		`cd "${0%/*}/../build" && for f in check admin; do echo $GOARCH $f >$f.zip; done`))
	if err != nil {
		t.Fatal(err)
	}
	if err := synthesise(app, func() { newStack(app, settings.Default("dev"), code) }); err != nil {
		t.Fatal(err)
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
	_, err := build(repository(t, "echo Go is missing >&2\nexit 1\n"))
	if err == nil || !strings.Contains(err.Error(), "Go is missing") {
		t.Errorf("got %v, want the build's output", err)
	}
}
