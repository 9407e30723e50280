// Command zip packs executables for AWS Lambda under their own names. The same files give
// the same bytes on every machine and at any time.
//
//	go run ./scripts/zip build/check.zip build/lambda_arm64/check/bootstrap
package main

import (
	"archive/zip"
	"bytes"
	"compress/flate"
	"io"
	"log"
	"os"
	"path/filepath"
	"time"
)

func main() {
	var packed bytes.Buffer
	archive := zip.NewWriter(&packed)
	archive.RegisterCompressor(zip.Deflate, func(w io.Writer) (io.WriteCloser, error) {
		return flate.NewWriter(w, flate.BestCompression)
	})
	for _, path := range os.Args[2:] {
		header := &zip.FileHeader{Name: filepath.Base(path), Method: zip.Deflate,
			Modified: time.Date(1980, 1, 1, 0, 0, 0, 0, time.UTC)} // the earliest of the format
		header.SetMode(0o755) // Lambda runs it as another user
		content, err := os.ReadFile(path)
		fail(err)
		file, err := archive.CreateHeader(header)
		fail(err)
		_, err = file.Write(content)
		fail(err)
	}
	fail(archive.Close())
	fail(os.WriteFile(os.Args[1], packed.Bytes(), 0o644))
}

func fail(err error) {
	if err != nil {
		log.Fatal(err)
	}
}
