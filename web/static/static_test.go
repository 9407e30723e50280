package static

import (
	"strings"
	"testing"
	"testing/fstest"
)

// A program without its bundle says at once how to get it, and does not serve bare pages.
func TestRead(t *testing.T) {
	manifest := &fstest.MapFile{Data: []byte(
		`{"app.js": "a.js", "chart.js": "c.js", "app.css": "a.css", "icon.svg": "i.svg"}`)}
	whole := fstest.MapFS{"manifest.json": manifest, "a.js": {}, "c.js": {}, "a.css": {}, "i.svg": {}}
	b, err := read(whole)
	if err != nil || b.Script != "a.js" || b.Chart != "c.js" || b.Style != "a.css" || b.Icon != "i.svg" {
		t.Fatalf("%+v, %v", b, err)
	}
	for name, dist := range map[string]fstest.MapFS{
		"never made":      {".placeholder": {}},
		"script is gone":  {"manifest.json": manifest, "c.js": {}, "a.css": {}, "i.svg": {}},
		"charts are gone": {"manifest.json": manifest, "a.js": {}, "a.css": {}, "i.svg": {}},
		"another bundle":  {"manifest.json": {Data: []byte(`{}`)}, "a.js": {}, "a.css": {}, "i.svg": {}},
	} {
		if _, err := read(dist); err == nil || !strings.Contains(err.Error(), "run ./scripts/build") {
			t.Errorf("%s: %v", name, err)
		}
	}
	if _, err := read(fstest.MapFS{"manifest.json": {Data: []byte("{")}}); err == nil {
		t.Error("a broken manifest is accepted")
	}
}

// A fresh clone compiles: the folder that go:embed needs is there before the bundle is.
func TestPlaceholderIsEmbedded(t *testing.T) {
	if _, err := files.ReadFile("dist/.placeholder"); err != nil {
		t.Error(err)
	}
}
