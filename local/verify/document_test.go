package main

import (
	"flag"
	"os"
	"testing"
)

var update = flag.Bool("update", false, "rewrite docs/verify.md")

const page = "../../docs/verify.md"

// docs/verify.md is made from the rows. -update rewrites it.
func TestDocument(t *testing.T) {
	if *update {
		if err := os.WriteFile(page, []byte(document()), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	text, err := os.ReadFile(page)
	if err != nil || string(text) != document() {
		t.Fatalf("docs/verify.md is stale (%v): go generate ./local/verify rewrites it", err)
	}
}
