package scale_test

import (
	"flag"
	"os"
	"strings"
	"testing"

	"tidegate/infra/scale"
)

var update = flag.Bool("update", false, "rewrite the tables of docs/scale.md")

const (
	document = "../../docs/scale.md"
	picture  = "../../docs/images/growth.svg"
)

// The tables and the picture of docs/scale.md have the recorded and the computed figures.
// -update rewrites them.
func TestDocument(t *testing.T) {
	m, err := scale.Recorded()
	if err != nil {
		t.Fatal(err)
	}
	content, err := os.ReadFile(document)
	if err != nil {
		t.Fatal(err)
	}
	drawn, err := os.ReadFile(picture)
	if err != nil && !*update {
		t.Fatal(err)
	}
	growth, err := scale.RecordedGrowth()
	if err != nil {
		t.Fatal(err)
	}
	measured, grown, computed := scale.Document(m, growth)
	fresh := string(content)
	for name, text := range map[string]string{"measured": measured, "growth": grown, "computed": computed} {
		begin, end := "<!-- "+name+":begin -->", "<!-- "+name+":end -->"
		before, rest, begun := strings.Cut(fresh, begin)
		_, after, ended := strings.Cut(rest, end)
		if !begun || !ended {
			t.Fatalf("%s lacks %s or %s", document, begin, end)
		}
		fresh = before + begin + text + end + after
	}
	if fresh == string(content) && growth.Picture() == string(drawn) {
		return
	}
	if !*update {
		t.Fatalf("%s or %s is stale; go generate ./infra/scale rewrites them. Computed:\n%s%s", document,
			picture, measured+grown, computed)
	}
	if err := os.WriteFile(picture, []byte(growth.Picture()), 0o644); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(document, []byte(fresh), 0o644); err != nil {
		t.Fatal(err)
	}
}

// No figure of the tables is missing in the recorded files, and no more calls were
// allowed than the global limit.
func TestMeasured(t *testing.T) {
	m, err := scale.Recorded()
	if err != nil {
		t.Fatal(err)
	}
	growth, err := scale.RecordedGrowth()
	if err != nil {
		t.Fatal(err)
	}
	measured, grown, computed := scale.Document(m, growth)
	for _, text := range []string{measured, grown, computed} {
		if strings.Contains(text, "| 0 |") || strings.Contains(text, "NaN") || strings.Contains(text, "Inf") {
			t.Errorf("a figure is 0, NaN or infinite in:\n%s", text)
		}
	}
	if admitted, limit := m.Value("global.admitted"), m.Value("global.limit"); admitted != limit {
		t.Errorf("got %g allowed calls, want the global limit %g", admitted, limit)
	}
	if admitted, limit := m.Value("global.leased_admitted"), m.Value("global.limit"); admitted > limit ||
		admitted < 0.9*limit {
		t.Errorf("got %g allowed calls, want 90 %% to 100 %% of the leased global limit %g", admitted, limit)
	}
}
