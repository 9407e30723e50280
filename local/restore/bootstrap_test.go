//go:build unix

package main

import (
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"tidegate/internal/testing/built"
	"tidegate/internal/testing/syncbuffer"
	"tidegate/internal/testing/tier"
	"tidegate/internal/testing/valkeytest"
	"tidegate/internal/testing/waiting"
	"tidegate/local/lambda"
)

// As a Lambda function the program restores with the variables of the admin function: at
// first only for looking, then for good.
func TestAsAFunction(t *testing.T) {
	tier.Two(t, "builds the program")
	if _, err := exec.LookPath("curl"); err != nil {
		t.Fatal("this test needs curl, as Lambda's provided.al2023 has it")
	}
	folder, dir := t.TempDir(), t.TempDir()
	keys := installation(t, valkeytest.Start(t), folder)
	savePlan(t, keys)
	kept := create(t, keys, "kept")
	program := built.Program(t, "tidegate/local/restore")
	for to, from := range map[string]string{"restore": program, "bootstrap": "bootstrap"} {
		content, err := os.ReadFile(from)
		if err != nil {
			t.Fatal(err)
		}
		err = os.WriteFile(filepath.Join(dir, to), content, 0o700)
		if err != nil {
			t.Fatal(err)
		}
	}
	empty, log := valkeytest.Start(t), &syncbuffer.Buffer{}
	f, err := lambda.Start(lambda.Config{
		Name: "restore", Binary: filepath.Join(dir, "bootstrap"), Timeout: waiting.Timeout, Log: log,
		Env: map[string]string{"PATH": os.Getenv("PATH"), "JOURNAL": folder, "VALKEY_URL": empty,
			"KEY_PEPPER": pepper},
	})
	if err != nil {
		t.Fatalf("%v: %s", err, log)
	}
	t.Cleanup(f.Close)
	for _, c := range []struct{ payload, want string }{
		{`"-dry-run"`, "Nothing was written"}, {`""`, "Restored"}, {`"-nonsense"`, "exit status 2"},
	} {
		answer, err := f.Invoke(t.Context(), []byte(c.payload))
		var printed string
		if bad := json.Unmarshal(answer, &printed); err != nil || bad != nil ||
			!strings.Contains(printed, c.want) {
			t.Errorf("%s: got %s, %v, %v, want %q\n%s", c.payload, answer, err, bad, c.want, log)
		}
	}
	restored := installation(t, empty, folder)
	if got, err := restored.Get(t.Context(), kept.ID); err != nil || got.Name != kept.Name {
		t.Errorf("restored: got %+v, %v, want %s", got, err, kept.Name)
	}
}
