package changes

import (
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"tidegate/internal/testing/tier"
)

// planted is a rule of the package broken in one place, as one would first write it. The
// test that it names must fail then.
type planted struct {
	name, file, test string
	old, new         string // one place of the file, and what replaces it
}

// plants reads the faults: a name, a file and a test, the lines of the place and those that
// replace them.
func plants(t *testing.T) (faults []planted) {
	t.Helper()
	text, err := os.ReadFile("testdata/planted")
	if err != nil {
		t.Fatal(err)
	}
	for block := range strings.SplitSeq(strings.TrimSpace(string(text)), "\n\n") {
		var p planted
		var before, after []string
		for line := range strings.SplitSeq(block, "\n") {
			switch mark, rest, _ := strings.Cut(line, " "); mark {
			case "#":
				p.name = rest
			case "-":
				before = append(before, rest)
			case "+":
				after = append(after, rest)
			default:
				p.file, p.test = mark, rest
			}
		}
		p.old, p.new = strings.Join(before, "\n"), strings.Join(after, "\n")
		faults = append(faults, p)
	}
	return faults
}

// Each rule that is broken is found.
func TestPlantedFaults(t *testing.T) {
	tier.Two(t, "compiles the package once for each fault")
	for _, p := range plants(t) {
		t.Run(p.name, func(t *testing.T) {
			t.Parallel()
			test := exec.Command("go", "test", "-count=1", "-overlay="+p.plant(t), "-run=^"+p.test+"$", ".")
			output, err := test.CombinedOutput()
			if err == nil || !strings.Contains(string(output), "--- FAIL: "+p.test) {
				t.Errorf("it is not found: %v\n%s", err, output)
			}
		})
	}
}

// plant writes the broken file and returns the overlay that has it.
func (p planted) plant(t *testing.T) string {
	t.Helper()
	path, err := filepath.Abs(p.file)
	if err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if strings.Count(string(text), p.old) != 1 {
		t.Fatalf("%s has %q %d times, want once", p.file, p.old, strings.Count(string(text), p.old))
	}
	folder := t.TempDir()
	broken := filepath.Join(folder, p.file)
	overlay := filepath.Join(folder, "overlay.json")
	content, err := json.Marshal(map[string]any{"Replace": map[string]string{path: broken}})
	if err != nil {
		t.Fatal(err)
	}
	for name, content := range map[string]string{
		broken: strings.Replace(string(text), p.old, p.new, 1), overlay: string(content),
	} {
		if err := os.WriteFile(name, []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return overlay
}
