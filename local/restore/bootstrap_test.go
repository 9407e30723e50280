//go:build unix

package restore

import (
	"archive/zip"
	"encoding/json"
	"errors"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"tidegate/internal/testing/registrytest"
	"tidegate/internal/testing/storetest"
	"tidegate/internal/testing/tier"
	"tidegate/internal/testing/valkeytest"
	"tidegate/internal/testing/waiting"
	"tidegate/local/lambda"
)

// unpack builds the function as the page of operations does, and unpacks it as Lambda
// does.
func unpack(t *testing.T, dir string) {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), "sh", "-c", "umask 077 && exec ./scripts/build -restore")
	cmd.Dir, cmd.Env = filepath.Join("..", ".."), append(os.Environ(), "GOARCH="+runtime.GOARCH)
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	archive, err := zip.OpenReader(filepath.Join(cmd.Dir, "build", "restore.zip"))
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = archive.Close() }()
	for _, file := range archive.File {
		if file.Mode() != 0o755 {
			t.Errorf("%s has mode %v, want 0755: Lambda runs it as another user", file.Name, file.Mode())
		}
		content, err := archive.Open(file.Name)
		if err != nil {
			t.Fatal(err)
		}
		to, err := os.OpenFile(filepath.Join(dir, file.Name), os.O_CREATE|os.O_WRONLY, file.Mode())
		if err != nil {
			t.Fatal(err)
		}
		if _, err := io.Copy(to, content); err != nil {
			t.Fatal(err)
		}
		if err := errors.Join(content.Close(), to.Close()); err != nil {
			t.Fatal(err)
		}
	}
}

// As a Lambda function the program restores with the variables of the admin function: at
// first only for looking, then for good.
func TestAsAFunction(t *testing.T) {
	tier.Two(t, "builds the program")
	if _, err := exec.LookPath("curl"); err != nil {
		t.Fatal("this test needs curl, as Lambda's provided.al2023 has it")
	}
	folder, dir := t.TempDir(), t.TempDir()
	keys := registrytest.Open(t, storetest.Connect(t, valkeytest.Start(t)), folder, pepper)
	savePlan(t, keys)
	kept := create(t, keys, "kept")
	unpack(t, dir)
	empty, log := valkeytest.Start(t), &waiting.Buffer{}
	f, err := lambda.Start(lambda.Config{
		Name: "restore", Binary: filepath.Join(dir, "bootstrap"), Timeout: waiting.Timeout, Log: log,
		Env: map[string]string{"PATH": os.Getenv("PATH"), "CHANGES_LOG": folder, "VALKEY_URL": empty,
			"KEY_PEPPER": string(pepper)},
	})
	if err != nil {
		t.Fatalf("%v: %s", err, log)
	}
	t.Cleanup(f.Close)
	for _, c := range []struct{ payload, want string }{
		{`"-dry-run"`, "Nothing was written"}, {`""`, "behind it: 0 of 256"}, {`"-nonsense"`, "exit status 2"},
	} {
		answer, err := f.Invoke(t.Context(), []byte(c.payload))
		var printed string
		if bad := json.Unmarshal(answer, &printed); err != nil || bad != nil ||
			!strings.Contains(printed, c.want) {
			t.Errorf("%s: got %s, %v, %v, want %q\n%s", c.payload, answer, err, bad, c.want, log)
		}
	}
	restored := registrytest.Open(t, storetest.Connect(t, empty), folder, pepper)
	if got, err := restored.Get(t.Context(), kept.ID); err != nil || got.Name != kept.Name {
		t.Errorf("restored: got %+v, %v, want %s", got, err, kept.Name)
	}
}
