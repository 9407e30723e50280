// Command zip packs an executable for AWS Lambda, under the name bootstrap. Its output
// has the same bytes on every machine and at any time, so that two builds of a commit can
// be compared by their hash.
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
	"time"
)

func main() {
	if len(os.Args) != 3 {
		fmt.Fprintln(os.Stderr, "usage: zip OUTPUT EXECUTABLE")
		os.Exit(2)
	}
	if err := pack(os.Args[1], os.Args[2]); err != nil {
		fmt.Fprintln(os.Stderr, "zip:", err)
		os.Exit(1)
	}
}

// pack writes the archive only once it is complete.
func pack(output, executable string) error {
	content, err := os.ReadFile(executable)
	if err != nil {
		return fmt.Errorf("read executable: %w", err)
	}
	var archive bytes.Buffer
	if err := write(&archive, content); err != nil {
		return fmt.Errorf("compress %s: %w", executable, err)
	}
	if err := os.WriteFile(output, archive.Bytes(), 0o644); err != nil {
		return fmt.Errorf("write archive: %w", err)
	}
	return nil
}

func write(to io.Writer, content []byte) error {
	archive := zip.NewWriter(to)
	archive.RegisterCompressor(zip.Deflate, func(w io.Writer) (io.WriteCloser, error) {
		return flate.NewWriter(w, flate.BestCompression)
	})
	// The time is the earliest that the zip format can store.
	header := &zip.FileHeader{Name: "bootstrap", Method: zip.Deflate,
		Modified: time.Date(1980, 1, 1, 0, 0, 0, 0, time.UTC)}
	header.SetMode(0o755)
	file, err := archive.CreateHeader(header)
	if err != nil {
		return fmt.Errorf("add header: %w", err)
	}
	if _, err := file.Write(content); err != nil {
		return fmt.Errorf("add content: %w", err)
	}
	return archive.Close()
}
