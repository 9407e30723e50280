package docker

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"tidegate/internal/store/keyspace"
	"tidegate/internal/testing/waiting"
)

const (
	file        = "../compose.yaml"
	journalFile = "../compose.journal.yaml"
	upTimeout   = 3 * time.Minute
	downTimeout = time.Minute
	// commandTimeout bounds one command of docker.
	commandTimeout = time.Minute
)

// jobs are services that exit when they are done.
var jobs = map[string]bool{"secrets": true, "setup": true}

// composition is a running compose.yaml.
type composition struct {
	project  string
	files    []string          // compose files that extend compose.yaml
	env      []string          // variables of the files
	ids      map[string]string // of containers, by service; they survive restarts
	user     string            // of the dashboard
	password string
	keys     map[string]string // of the demo plans
	valkey   string            // address of the cluster, with a user that has all rights
}

// up starts all services on free ports, with these additional compose files. The test's
// end removes the containers, and logs their output if the test failed.
func up(t *testing.T, files ...string) *composition {
	t.Helper()
	if os.Getenv("DOCKER") == "" {
		t.Skip("needs a Docker Engine and images: ./scripts/test -docker")
	}
	c := &composition{project: fmt.Sprintf("tidegate-test-%d", os.Getpid()), files: files}
	t.Cleanup(func() { c.down(t) })
	began := time.Now()
	c.start(t)
	t.Logf("up after %s", time.Since(began).Round(time.Second/10))
	var ready struct {
		Valkey   string
		User     string `json:"admin_user"`
		Password string `json:"admin_password"`
		Keys     map[string]string
	}
	if err := json.Unmarshal([]byte(c.exec(t, "gateway", "/local", "ready")), &ready); err != nil {
		t.Fatal(err)
	}
	c.user, c.password, c.keys, c.valkey = ready.User, ready.Password, ready.Keys, ready.Valkey
	return c
}

// start starts these services, or all without arguments, and waits until they are
// healthy. Services whose configuration changed are recreated.
func (c *composition) start(t *testing.T, services ...string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), upTimeout)
	defer cancel()
	words := append([]string{"up", "--wait", "--quiet-pull"}, services...)
	if out, err := c.compose(ctx, words...); err != nil {
		t.Fatalf("docker compose %s: %v\n%s", strings.Join(words, " "), err, out)
	}
	c.identify(t)
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
	all := []string{"compose", "--project-name", c.project, "--file", file}
	for _, more := range c.files {
		all = append(all, "--file", more)
	}
	cmd := exec.CommandContext(ctx, "docker", append(all, words...)...)
	cmd.Env = append(os.Environ(), "REST_PORT=", "HTTP_PORT=", "ADMIN_PORT=")
	cmd.Env = append(cmd.Env, c.env...)
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
	list := c.docker(t, "ps", "--all", "--filter", "label=com.docker.compose.project="+c.project,
		"--format", `{{.Label "com.docker.compose.service"}} {{.ID}}`)
	for line := range strings.Lines(list) {
		service, id, _ := strings.Cut(strings.TrimSpace(line), " ")
		c.ids[service] = id
	}
}

func (c *composition) docker(t *testing.T, words ...string) string {
	t.Helper()
	out, err := c.tryDocker(t, words...)
	if err != nil {
		t.Fatal(err)
	}
	return out
}

func (c *composition) tryDocker(t *testing.T, words ...string) (string, error) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), commandTimeout)
	defer cancel()
	out, err := output(exec.CommandContext(ctx, "docker", words...))
	if ctx.Err() != nil {
		err = fmt.Errorf("no end within %s", commandTimeout)
	}
	if err != nil {
		return "", fmt.Errorf("docker %s: %w\n%s", strings.Join(words, " "), err, out)
	}
	return strings.TrimSpace(out), nil
}

func (c *composition) exec(t *testing.T, service string, words ...string) string {
	t.Helper()
	return c.docker(t, append([]string{"exec", c.ids[service]}, words...)...)
}

// services returns the names of the services that keep running.
func (c *composition) services() []string {
	var all []string
	for _, service := range slices.Sorted(maps.Keys(c.ids)) {
		if !jobs[service] {
			all = append(all, service)
		}
	}
	return all
}

// healthy waits until the service passes its health check. It runs the check itself,
// since Docker runs it only every few seconds.
func (c *composition) healthy(t *testing.T, service string) {
	t.Helper()
	id := c.ids[service]
	check := strings.Fields(c.docker(t, "inspect", "--format", `{{join .Config.Healthcheck.Test " "}}`, id))
	command := append([]string{"exec", id}, check[1:]...) // without the word CMD
	waiting.Until(t, service+" is healthy", func() bool {
		_, err := c.tryDocker(t, command...)
		return err == nil
	})
}

// restart restarts a service and waits until it is healthy.
func (c *composition) restart(t *testing.T, service string) {
	t.Helper()
	c.docker(t, "restart", "--time", "20", c.ids[service])
	c.healthy(t, service)
}

// url returns the address at which the gateway publishes a port. Docker chooses another
// port at each start.
func (c *composition) url(t *testing.T, port string) string {
	t.Helper()
	return "http://" + c.docker(t, "port", c.ids["gateway"], port+"/tcp")
}

const nodes = 6

// valkeyCLI sends a command that needs no password to one node, and returns the answer.
func (c *composition) valkeyCLI(t *testing.T, node int, words ...string) string {
	t.Helper()
	return c.exec(t, service(node),
		append([]string{"valkey-cli", "-p", strconv.Itoa(6400 + node)}, words...)...)
}

func service(node int) string { return "valkey-" + strconv.Itoa(node) }

// primaryOf returns the node that serves a key's record, as the node from sees it.
func (c *composition) primaryOf(t *testing.T, id string, from int) int {
	t.Helper()
	slot, err := strconv.Atoi(c.valkeyCLI(t, from, "cluster", "keyslot", keyspace.Record(id)))
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(c.valkeyCLI(t, from, "cluster", "nodes")) {
		if node, serves := owner(line, slot); serves {
			return node
		}
	}
	t.Fatalf("no node serves slot %d", slot)
	return 0
}

// owner parses a line of CLUSTER NODES and reports whether its node serves the slot. The
// fields are id, ip:port@bus,name, flags, primary, ping, pong, epoch, link, and ranges of
// slots.
func owner(line string, slot int) (node int, serves bool) {
	words := strings.Fields(line)
	_, port, _ := strings.Cut(words[1], ":")
	port, _, _ = strings.Cut(port, "@")
	number, _ := strconv.Atoi(port)
	for _, span := range words[8:] {
		first, last, found := strings.Cut(span, "-")
		if !found {
			last = first
		}
		from, _ := strconv.Atoi(first)
		to, _ := strconv.Atoi(last)
		if from <= slot && slot <= to {
			return number - 6400, true
		}
	}
	return 0, false
}

// awaitCluster waits until every node sees all other nodes as connected and not failed.
func (c *composition) awaitCluster(t *testing.T) {
	t.Helper()
	for node := range nodes {
		waiting.Until(t, "the cluster is whole", func() bool {
			text := c.valkeyCLI(t, node+1, "cluster", "nodes")
			return strings.Count(text, "\n") == nodes-1 && !strings.Contains(text, "fail") &&
				!strings.Contains(text, "disconnected")
		})
	}
}
