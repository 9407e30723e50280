package main

import (
	"archive/zip"
	"bytes"
	"io"
	"os"
	"path/filepath"
	"testing"
	"time"
)

// The archive has the executables. Everybody may run them, whatever their own mode is.
func TestPackExecutables(t *testing.T) {
	content := bytes.Repeat([]byte("\x7fELF tidegate "), 1000)
	output := packed(t, content, time.Now(), "bootstrap", "restore")
	archive, err := zip.NewReader(bytes.NewReader(output), int64(len(output)))
	if err != nil {
		t.Fatal(err)
	}
	names := map[string]bool{}
	for _, file := range archive.File {
		names[file.Name] = true
		if file.Mode() != 0o755 {
			t.Errorf("%s: got mode %v, want 0755", file.Name, file.Mode())
		}
		reader, err := file.Open()
		if err != nil {
			t.Fatal(err)
		}
		if got, err := io.ReadAll(reader); err != nil || !bytes.Equal(got, content) {
			t.Errorf("%s: unpacked content differs (%d bytes, %v)", file.Name, len(got), err)
		}
		_ = reader.Close()
	}
	if len(names) != 2 || !names["bootstrap"] || !names["restore"] {
		t.Errorf("got entries %v, want bootstrap and restore", names)
	}
}

// Two builds of one commit can be compared by the hash of their zip files.
func TestPackIsReproducible(t *testing.T) {
	content := []byte("the same binary")
	first := packed(t, content, time.Date(2020, 5, 17, 3, 0, 0, 0, time.UTC), "bootstrap")
	second := packed(t, content, time.Date(2031, 1, 1, 0, 0, 0, 0, time.FixedZone("east", 9*3600)),
		"bootstrap")
	if !bytes.Equal(first, second) {
		t.Error("the same binary built at another time gives a different archive")
	}
}

func TestPackWritesNothingWithoutInput(t *testing.T) {
	output := filepath.Join(t.TempDir(), "out.zip")
	if err := pack(output, filepath.Join(t.TempDir(), "absent")); err == nil {
		t.Error("want an error for an absent executable")
	}
	if _, err := os.Stat(output); !os.IsNotExist(err) {
		t.Errorf("the output file exists (%v)", err)
	}
}

// packed packs executables with a content and a modification time, which their owner alone
// may run.
func packed(t *testing.T, content []byte, built time.Time, names ...string) []byte {
	t.Helper()
	folder := t.TempDir()
	var executables []string
	for _, name := range names {
		executable := filepath.Join(folder, name)
		if err := os.WriteFile(executable, content, 0o700); err != nil { //nolint:gosec // a program
			t.Fatal(err)
		}
		if err := os.Chtimes(executable, built, built); err != nil {
			t.Fatal(err)
		}
		executables = append(executables, executable)
	}
	output := filepath.Join(t.TempDir(), "out.zip")
	if err := pack(output, executables...); err != nil {
		t.Fatal(err)
	}
	archive, err := os.ReadFile(output)
	if err != nil {
		t.Fatal(err)
	}
	return archive
}
