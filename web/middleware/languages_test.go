package middleware_test

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"tidegate/internal/testing/browsertest"
)

// run waits for a program in a folder and returns what it printed.
func run(t *testing.T, folder, program string, arguments ...string) string {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 3*time.Minute)
	defer cancel()
	command := exec.CommandContext(ctx, program, arguments...)
	command.Dir = folder
	output, err := command.CombinedOutput()
	if err != nil {
		t.Errorf("%s %s: %v, %v\n%s", program, strings.Join(arguments, " "), err, ctx.Err(), output)
	}
	return string(output)
}

// The middleware in Node.js passes the table of cases in Express, Fastify and Lambda
// handlers.
func TestNode(t *testing.T) {
	node, err := exec.LookPath("node")
	browsertest.Need(t, err, "install Node.js 20 or newer")
	_, err = os.Stat(filepath.Join("node", "node_modules", "fastify"))
	browsertest.Need(t, err, "install it: npm ci --ignore-scripts --prefix web/middleware/node")
	if output := run(t, "node", node, "--test"); !regexp.MustCompile(`pass [2-9]\d\d\n`).MatchString(output) {
		t.Errorf("too few tests:\n%s", output)
	}
}

// The middleware in Python passes the table of cases in WSGI, ASGI and Lambda handlers.
func TestPython(t *testing.T) {
	python, err := exec.LookPath("python3")
	browsertest.Need(t, err, "install Python 3.10 or newer")
	if output := run(t, "python", python, "-B", "-W", "error", "-m",
		"unittest"); !strings.Contains(output, "Ran 1") {
		t.Errorf("too few tests:\n%s", output)
	}
}
