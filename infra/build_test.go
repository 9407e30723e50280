package main

import (
	"archive/zip"
	"bytes"
	"crypto/sha256"
	"debug/elf"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// The deployed assets are the zip files of ./scripts/build. A second build has the same
// bytes.
func TestAssetsAreTheBuild(t *testing.T) {
	root, err := findRoot()
	if err != nil {
		t.Fatal(err)
	}
	app, folder, err := newApp(nil)
	if err != nil {
		t.Fatal(err)
	}
	first := &build{root: root}
	if _, err := synthesise(app, propsOf(t, nil), first.code); err != nil {
		t.Fatal(err, first.err)
	}
	assets := map[[sha256.Size]byte]bool{}
	for _, path := range glob(t, filepath.Join(folder, "asset.*.zip")) {
		assets[sha256.Sum256(read(t, path))] = true
	}
	again := &build{root: root}
	if err := again.run(); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"check", "admin"} { // forward is deployed only with -c crossings
		archive := read(t, filepath.Join(root, "build", name+".zip"))
		if !assets[sha256.Sum256(archive)] {
			t.Errorf("%s.zip of a second build: want an asset with the same bytes", name)
		}
		isForLambda(t, archive)
	}
	equal(t, "assets", len(assets), 2)
}

// isForLambda checks that an archive has one file: bootstrap, an executable for arm64.
func isForLambda(t *testing.T, archive []byte) {
	t.Helper()
	r, err := zip.NewReader(bytes.NewReader(archive), int64(len(archive)))
	if err != nil || len(r.File) != 1 {
		t.Fatalf("%v, %d files", err, len(r.File))
	}
	equal(t, "name", r.File[0].Name, "bootstrap")
	equal(t, "mode", r.File[0].Mode().Perm(), os.FileMode(0o755))
	file, err := r.File[0].Open()
	if err != nil {
		t.Fatal(err)
	}
	content, err := io.ReadAll(file)
	if err != nil {
		t.Fatal(err)
	}
	program, err := elf.NewFile(bytes.NewReader(content))
	if err != nil {
		t.Fatal(err)
	}
	equal(t, "machine", program.Machine, elf.EM_AARCH64)
}

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

// The error of a failed build has the build's output.
func TestBuildFails(t *testing.T) {
	app, _, err := newApp(nil)
	if err != nil {
		t.Fatal(err)
	}
	root := t.TempDir()
	for _, folder := range []string{"functions/check", "functions/admin", "functions/forward", "scripts"} {
		if err := os.MkdirAll(filepath.Join(root, folder), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	script := []byte("#!/bin/sh\necho Go is missing >&2\nexit 1\n")
	if err := os.WriteFile(filepath.Join(root, "scripts", "build"), script, 0o755); err != nil {
		t.Fatal(err)
	}
	failing := &build{root: root}
	if _, err := synthesise(app, propsOf(t, nil), failing.code); err == nil || failing.err == nil ||
		!strings.Contains(failing.err.Error(), "Go is missing") {
		t.Errorf("got %v, %v, want the build's output in the second", err, failing.err)
	}
}
