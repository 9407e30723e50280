package docker

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"
)

const (
	upTimeout   = 3 * time.Minute
	downTimeout = time.Minute
	// commandTimeout bounds one command of docker.
	commandTimeout = time.Minute
)

// password is that of the dashboard's user admin.
const password = "a password of this test"

// composition is a running composition.
type composition struct {
	project string
	ids     map[string]string // of containers, by service
}

func needDocker(t *testing.T) {
	t.Helper()
	if os.Getenv("DOCKER") == "" {
		t.Skip("needs a Docker Engine and the image: ./scripts/test -docker")
	}
}

// up starts all services on free ports. The test's end removes the containers, and logs
// their output if the test failed.
func up(t *testing.T) *composition {
	t.Helper()
	needDocker(t)
	c := &composition{project: fmt.Sprintf("tidegate-test-%d", os.Getpid())}
	t.Cleanup(func() { c.down(t) })
	ctx, cancel := context.WithTimeout(t.Context(), upTimeout)
	defer cancel()
	if out, err := c.compose(ctx, "up", "--wait", "--quiet-pull"); err != nil {
		t.Fatalf("docker compose up: %v\n%s", err, out)
	}
	c.identify(t)
	return c
}

func (c *composition) down(t *testing.T) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.WithoutCancel(t.Context()), downTimeout) // the test is over
	defer cancel()
	if t.Failed() {
		out, _ := c.compose(ctx, "ps", "--all")
		logs, _ := c.compose(ctx, "logs", "--no-color", "--tail", "60")
		t.Logf("%s\n%s", out, strings.ReplaceAll(logs, "\x1b[2K", "")) // written even with --no-color
	}
	if out, err := c.compose(ctx, "down", "--volumes", "--timeout", "2"); err != nil {
		t.Errorf("compose down: %v\n%s", err, out)
	}
}

// compose runs docker compose on this composition and returns its standard output. After
// an error it returns standard error too.
func (c *composition) compose(ctx context.Context, words ...string) (string, error) {
	all := []string{"compose", "--project-name", c.project, "--file", "../compose.yaml"}
	cmd := exec.CommandContext(ctx, "docker", append(all, words...)...)
	cmd.Env = append(os.Environ(), "REST_PORT=", "HTTP_PORT=", "ADMIN_PORT=", "INVOKE_PORT=",
		"ADMIN_PASSWORD="+password)
	return output(cmd)
}

func output(cmd *exec.Cmd) (string, error) {
	var out, errOut bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &errOut
	if err := cmd.Run(); err != nil {
		return out.String() + errOut.String(), err
	}
	return out.String(), nil
}

// identify finds the containers' ids. Later commands use docker directly, since it is
// faster than docker compose.
func (c *composition) identify(t *testing.T) {
	t.Helper()
	c.ids = map[string]string{}
	list := docker(t, "ps", "--all", "--filter", "label=com.docker.compose.project="+c.project,
		"--format", `{{.Label "com.docker.compose.service"}} {{.ID}}`)
	for line := range strings.Lines(list) {
		service, id, _ := strings.Cut(strings.TrimSpace(line), " ")
		c.ids[service] = id
	}
}

func docker(t *testing.T, words ...string) string {
	t.Helper()
	// Clean-ups run commands too, after the test's context has ended.
	ctx, cancel := context.WithTimeout(context.WithoutCancel(t.Context()), commandTimeout)
	defer cancel()
	out, err := output(exec.CommandContext(ctx, "docker", words...))
	if err != nil {
		t.Fatalf("docker %s: %v\n%s", strings.Join(words, " "), err, out)
	}
	return strings.TrimSpace(out)
}

// published returns the address at which a container publishes a port.
func published(t *testing.T, container, port string) string {
	t.Helper()
	return "http://" + docker(t, "port", container, port+"/tcp")
}

func (c *composition) url(t *testing.T, port string) string {
	t.Helper()
	return published(t, c.ids["tidegate"], port)
}
