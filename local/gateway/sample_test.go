package gateway_test

import (
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// sampleEvent reads one of the sample events that aws-lambda-go ships.
func sampleEvent(t *testing.T, name string) map[string]any {
	t.Helper()
	dir, err := exec.Command("go", "list", "-m", "-f", "{{.Dir}}", "github.com/aws/aws-lambda-go").Output()
	if err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(filepath.Join(strings.TrimSpace(string(dir)), "events", "testdata", name))
	if err != nil {
		t.Fatal(err)
	}
	var sample map[string]any
	if err := json.Unmarshal(text, &sample); err != nil {
		t.Fatal(err)
	}
	return sample
}

// missingFields lists the paths of the fields that sample has and got lacks. Fields of
// the maps in open are not compared.
func missingFields(sample, got map[string]any, open ...string) []string {
	var missing []string
	for name, value := range sample {
		have, ok := got[name]
		if !ok {
			missing = append(missing, name)
			continue
		}
		object, isObject := value.(map[string]any)
		if haveObject, ok := have.(map[string]any); isObject && ok && !slices.Contains(open, name) {
			for _, inner := range missingFields(object, haveObject, open...) {
				missing = append(missing, name+"."+inner)
			}
		}
	}
	return missing
}
