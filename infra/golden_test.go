package main

import (
	"bytes"
	"encoding/json"
	"flag"
	"os"
	"regexp"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"

	"tidegate/internal/golden"
)

var update = flag.Bool("update", false, "rewrite what the emulators and the functions' tests read")

var hash = regexp.MustCompile(`[0-9a-f]{32,}`)

func normalised(template []byte) []byte {
	return append(bytes.TrimSpace(hash.ReplaceAll(template, []byte("HASH"))), '\n')
}

// emulated are the types of resources that the emulators read.
var emulated = []string{"AWS::ApiGateway::Authorizer", "AWS::ApiGateway::GatewayResponse",
	"AWS::ApiGateway::Method", "AWS::ApiGatewayV2::Api", "AWS::ApiGatewayV2::Authorizer",
	"AWS::ApiGatewayV2::Integration", "AWS::ApiGatewayV2::Route"}

// goldenOf returns the resources of these types, and the functions' environments.
func goldenOf(t *testing.T, made template, types []string) []byte {
	t.Helper()
	kept := map[string]any{}
	for id, r := range made.Resources {
		p := r.Properties
		switch {
		case r.Type == "AWS::Lambda::Function" && p["Environment"] != nil:
			p = properties{"Environment": p["Environment"]}
		case !slices.Contains(types, r.Type):
			continue
		}
		kept[id] = map[string]any{"Type": r.Type, "Properties": p}
	}
	return encoded(t, kept)
}

// encoded returns resources as the text of a template.
func encoded(t *testing.T, resources map[string]any) []byte {
	t.Helper()
	var b bytes.Buffer
	encoder := json.NewEncoder(&b)
	encoder.SetEscapeHTML(false)
	encoder.SetIndent("", " ")
	if err := encoder.Encode(map[string]any{"Resources": resources}); err != nil {
		t.Fatal(err)
	}
	return normalised(b.Bytes())
}

// The golden templates equal the synthesised ones in what the emulators and the
// functions' tests read.
func TestGolden(t *testing.T) {
	for name, c := range map[string]struct {
		made   func() (template, error)
		types  []string
		golden []byte
	}{"dev": {dev, emulated, golden.Dev}, "prod": {prod, nil, golden.Prod}} {
		t.Run(name, func(t *testing.T) {
			got := goldenOf(t, of(t, c.made), c.types)
			if *update {
				if err := os.WriteFile("../internal/golden/"+name+".json", got, 0o600); err != nil {
					t.Fatal(err)
				}
				return
			}
			if diff := cmp.Diff(string(c.golden), string(got)); diff != "" {
				t.Errorf("go -C infra test . -run TestGolden -update accepts this "+
					"(-golden +synthesised):\n%s",
					diff)
			}
		})
	}
}

// The published template equals the synthesised one: what changes in it is read as text.
func TestPublishedTemplate(t *testing.T) {
	const file = "testdata/template.json"
	got := of(t, published).text
	if *update {
		if err := os.WriteFile(file, got, 0o600); err != nil {
			t.Fatal(err)
		}
		return
	}
	if diff := cmp.Diff(string(read(t, file)), string(got)); diff != "" {
		t.Errorf("go -C infra test . -run TestPublishedTemplate -update accepts this (-golden +synthesised):\n%s",
			diff)
	}
}
