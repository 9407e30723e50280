package middleware

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// Customers copy each middleware alone: the Go files build in an empty module, and each of
// the two files for Node.js and Python loads in an empty folder.
func TestCopiedAlone(t *testing.T) {
	folder := t.TempDir()
	sources, err := filepath.Glob("*.go")
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range append(sources, "node/tidegate.cjs", "python/tidegate.py") {
		if strings.HasSuffix(name, "_test.go") {
			continue
		}
		text, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		write(t, filepath.Join(folder, filepath.Base(name)), string(text))
	}
	write(t, filepath.Join(folder, "go.mod"), "module copied\n\ngo 1.26\n")
	for _, command := range [][]string{
		{"go", "build", "./..."},
		{"node", "-e", `require("./tidegate.cjs").headers("X-", "denied")`},
		{"python3", "-B", "-c", "import tidegate; tidegate.headers('X-', 'denied')"},
	} {
		alone(t, folder, command...)
	}
}

func write(t *testing.T, name, text string) {
	t.Helper()
	if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}

// alone runs a command in a folder, without a download.
func alone(t *testing.T, folder string, command ...string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	c := exec.CommandContext(ctx, command[0], command[1:]...)
	c.Dir = folder
	c.Env = append(os.Environ(), "GOWORK=off", "GOFLAGS=-mod=mod", "GOPROXY=off")
	if output, err := c.CombinedOutput(); err != nil {
		t.Errorf("%q: %v\n%s", command, err, output)
	}
}
