package templates

import (
	"bytes"
	"go/format"
	"os"
	"path/filepath"
	"testing"

	"github.com/a-h/templ"
	"github.com/a-h/templ/generator"
	"github.com/a-h/templ/parser/v2"
)

// The generated code is that of the templates and of the version of templ in go.mod. The
// test generates it as go tool templ generate does, without compiling that tool.
func TestGeneratedCodeIsFresh(t *testing.T) {
	sources, err := filepath.Glob("*.templ")
	if err != nil || len(sources) == 0 {
		t.Fatal(sources, err)
	}
	for _, source := range sources {
		template, err := parser.Parse(source)
		if err != nil {
			t.Errorf("%s: %v", source, err)
			continue
		}
		var code bytes.Buffer
		if _, err := generator.Generate(template, &code, generator.WithVersion(templ.Version()),
			generator.WithFileName("web/templates/"+source)); err != nil {
			t.Errorf("%s: %v", source, err)
			continue
		}
		want, err := format.Source(code.Bytes())
		if err != nil {
			t.Errorf("%s: %v", source, err)
			continue
		}
		got, err := os.ReadFile(source[:len(source)-len(".templ")] + "_templ.go")
		if err != nil || !bytes.Equal(got, want) {
			t.Errorf("%s changed, or its code did, %v: run go tool templ generate", source, err)
		}
	}
	generated, err := filepath.Glob("*_templ.go")
	if err != nil || len(generated) != len(sources) {
		t.Errorf("%d templates, %d files of generated code, %v", len(sources), len(generated), err)
	}
}
