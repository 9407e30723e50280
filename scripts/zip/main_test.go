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

// The archive has one entry, an executable bootstrap, as Lambda requires.
func TestPackOneExecutableBootstrap(t *testing.T) {
	content := bytes.Repeat([]byte("\x7fELF tidegate "), 1000)
	output := packed(t, content, time.Now())

	archive, err := zip.NewReader(bytes.NewReader(output), int64(len(output)))
	if err != nil {
		t.Fatal(err)
	}
	if len(archive.File) != 1 {
		t.Fatalf("got %d entries, want 1", len(archive.File))
	}
	file := archive.File[0]
	if file.Name != "bootstrap" || file.Mode() != 0o755 {
		t.Errorf("got %s with mode %v, want bootstrap with 0755", file.Name, file.Mode())
	}
	reader, err := file.Open()
	if err != nil {
		t.Fatal(err)
	}
	defer reader.Close()
	if got, err := io.ReadAll(reader); err != nil || !bytes.Equal(got, content) {
		t.Errorf("unpacked content differs (%d bytes, %v)", len(got), err)
	}
}

// Two builds of one commit can be compared by the hash of their zip files.
func TestPackIsReproducible(t *testing.T) {
	content := []byte("the same binary")
	first := packed(t, content, time.Date(2020, 5, 17, 3, 0, 0, 0, time.UTC))
	second := packed(t, content, time.Date(2031, 1, 1, 0, 0, 0, 0, time.FixedZone("east", 9*3600)))
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

func packed(t *testing.T, content []byte, built time.Time) []byte {
	t.Helper()
	executable := filepath.Join(t.TempDir(), "built")
	if err := os.WriteFile(executable, content, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Chtimes(executable, built, built); err != nil {
		t.Fatal(err)
	}
	output := filepath.Join(t.TempDir(), "out.zip")
	if err := pack(output, executable); err != nil {
		t.Fatal(err)
	}
	archive, err := os.ReadFile(output)
	if err != nil {
		t.Fatal(err)
	}
	return archive
}
