// Command zip packs executables for AWS Lambda under their own names, one of which must be
// bootstrap. Everybody may run them, since Lambda does so as another user. Its output has
// the same bytes on every machine and at any time, so that two builds of a commit can be
// compared by their hash.
//
//	go run ./scripts/zip build/check.zip build/lambda_arm64/check/bootstrap
package main

import (
	"archive/zip"
	"bytes"
	"compress/flate"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"time"
)

func main() {
	if len(os.Args) < 3 {
		fmt.Fprintln(os.Stderr, "usage: zip OUTPUT EXECUTABLE…")
		os.Exit(2)
	}
	if err := pack(os.Args[1], os.Args[2:]...); err != nil {
		fmt.Fprintln(os.Stderr, "zip:", err)
		os.Exit(1)
	}
}

// pack writes the archive only once it is complete.
func pack(output string, executables ...string) error {
	var packed bytes.Buffer
	archive := zip.NewWriter(&packed)
	archive.RegisterCompressor(zip.Deflate, func(w io.Writer) (io.WriteCloser, error) {
		return flate.NewWriter(w, flate.BestCompression)
	})
	for _, path := range executables {
		if err := add(archive, path); err != nil {
			return fmt.Errorf("add %s: %w", path, err)
		}
	}
	if err := archive.Close(); err != nil {
		return fmt.Errorf("close archive: %w", err)
	}
	if err := os.WriteFile(output, packed.Bytes(), 0o644); err != nil {
		return fmt.Errorf("write archive: %w", err)
	}
	return nil
}

func add(archive *zip.Writer, executable string) error {
	content, err := os.ReadFile(executable)
	if err != nil {
		return err
	}
	// The time is the earliest that the zip format can store.
	header := &zip.FileHeader{Name: filepath.Base(executable), Method: zip.Deflate,
		Modified: time.Date(1980, 1, 1, 0, 0, 0, 0, time.UTC)}
	header.SetMode(0o755)
	file, err := archive.CreateHeader(header)
	if err != nil {
		return err
	}
	_, err = file.Write(content)
	return err
}
