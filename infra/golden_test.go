package main

import (
	"bytes"
	"flag"
	"os"
	"regexp"
	"testing"

	"github.com/google/go-cmp/cmp"

	"tidegate/infra/golden"
)

var update = flag.Bool("update", false, "rewrite the golden templates")

var hash = regexp.MustCompile(`[0-9a-f]{32,}`)

func normalised(template []byte) []byte {
	return append(bytes.TrimSpace(hash.ReplaceAll(template, []byte("HASH"))), '\n')
}

// The golden templates equal the synthesised ones, so that a commit's diff shows a change
// of the deployment. The emulators read the same files.
func TestGolden(t *testing.T) {
	for name, c := range map[string]struct {
		made   func() (template, error)
		golden []byte
	}{"dev": {dev, golden.Dev}, "prod": {prod, golden.Prod}} {
		t.Run(name, func(t *testing.T) {
			got := normalised(of(t, c.made).text)
			if *update {
				if err := os.WriteFile("golden/"+name+".json", got, 0o600); err != nil {
					t.Fatal(err)
				}
				return
			}
			if diff := cmp.Diff(string(c.golden), string(got)); diff != "" {
				t.Errorf("go test ./infra -run TestGolden -update accepts this (-golden +synthesised):\n%s",
					diff)
			}
		})
	}
}
