//go:build unix

package valkey

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"regexp"
	"slices"
	"strings"
	"time"

	"tidegate/internal/cluster"
	"tidegate/local/process"
)

const (
	attempts    = 3 // another program may take the free port before the server does
	startWait   = 10 * time.Second
	pollEvery   = 10 * time.Millisecond
	dialTimeout = time.Second
)

// ErrNotInstalled means that PATH has no server to start.
var ErrNotInstalled = errors.New(
	"valkey-server is not on PATH: ./scripts/install-test-tools valkey installs it")

// Installed starts the valkey-server found on PATH, without persistence and in a folder of
// its own.
func Installed(ctx context.Context) (*Server, error) { return installed(ctx) }

// installed starts the server with more settings, such as "--cluster-enabled", "yes".
func installed(ctx context.Context, settings ...string) (*Server, error) {
	path, version, err := find(ctx)
	if err != nil {
		return nil, err
	}
	s, err := ByCommand(ctx, []string{path}, settings...)
	if err != nil {
		return nil, err
	}
	s.Name = "valkey-server " + version
	return s, nil
}

// ByCommand starts a server as Installed does, by a command such as "taskset -c 0
// valkey-server" to which its settings are added.
func ByCommand(ctx context.Context, command []string, settings ...string) (*Server, error) {
	name := strings.Join(command, " ")
	dir, err := os.MkdirTemp("", "tidegate-valkey-")
	if err != nil {
		return nil, fmt.Errorf("start %s: %w", name, err)
	}
	for range attempts {
		var address string
		var p *process.Process
		if address, p, err = launch(ctx, command, dir, settings); err == nil {
			return &Server{URL: "valkey://" + address, Name: name, stop: func() {
				p.Kill()
				_ = os.RemoveAll(dir)
			}}, nil
		}
	}
	_ = os.RemoveAll(dir)
	return nil, fmt.Errorf("start %s: %w", name, err)
}

var versionField = regexp.MustCompile(`\bv=([\d.]+)`)

// find returns the server's path and version; "" for a version of an unknown form.
func find(ctx context.Context) (path, version string, err error) {
	if path, err = exec.LookPath("valkey-server"); err != nil {
		return "", "", ErrNotInstalled
	}
	out, err := exec.CommandContext(ctx, path, "--version").Output()
	if err != nil {
		return "", "", fmt.Errorf("run valkey-server --version: %w", err)
	}
	if found := versionField.FindSubmatch(out); found != nil {
		version = string(found[1])
	}
	return path, version, nil
}

// launch starts the server on a free port and waits until it answers.
func launch(ctx context.Context, command []string, dir string, settings []string) (string,
	*process.Process, error) {
	host, port, err := freePort()
	if err != nil {
		return "", nil, err
	}
	var log bytes.Buffer
	arguments := slices.Concat(command[1:], []string{"--bind", host, "--port", port, "--dir", dir,
		"--save", "", "--appendonly", "no"}, settings)
	cmd := exec.Command(command[0], arguments...)
	cmd.Stdout, cmd.Stderr = &log, &log
	p, err := process.Start(cmd)
	if err != nil {
		return "", nil, err
	}
	address := net.JoinHostPort(host, port)
	if err := awaitPong(ctx, address, p); err != nil {
		p.Kill()
		return "", nil, fmt.Errorf("%w; its log ends with: %s", err, lastLine(log.Bytes()))
	}
	return address, p, nil
}

func freePort() (host, port string, err error) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return "", "", err
	}
	defer func() { _ = listener.Close() }()
	return net.SplitHostPort(listener.Addr().String())
}

// awaitPong waits until the server answers PING. It returns an error if the server ends
// first or does not answer in time.
func awaitPong(ctx context.Context, address string, p *process.Process) error {
	ctx, cancel := context.WithTimeout(ctx, startWait)
	defer cancel()
	tick := time.NewTicker(pollEvery)
	defer tick.Stop()
	for {
		if pong(address) {
			return nil
		}
		select {
		case <-p.Done():
			return errors.Join(errors.New("the server ended at once"), p.Err())
		case <-ctx.Done():
			return fmt.Errorf("no answer at %s: %w", address, ctx.Err())
		case <-tick.C:
		}
	}
}

func pong(address string) bool {
	conn, err := net.DialTimeout("tcp", address, dialTimeout)
	if err != nil {
		return false
	}
	defer func() { _ = conn.Close() }()
	_ = conn.SetDeadline(time.Now().Add(dialTimeout))
	if _, err := conn.Write([]byte("PING\r\n")); err != nil {
		return false
	}
	line, err := bufio.NewReader(conn).ReadString('\n')
	return err == nil && line == "+PONG\r\n"
}

func lastLine(text []byte) []byte {
	text = bytes.TrimSpace(text)
	return text[bytes.LastIndexByte(text, '\n')+1:]
}

const clusterWait = 30 * time.Second

// Cluster is a running cluster of primaries without replicas, each with an even share of
// the slots.
type Cluster struct {
	URL   string // of all nodes
	Nodes []*Server
}

// InstalledCluster starts a number of servers as Installed does, and joins them to one
// cluster.
func InstalledCluster(ctx context.Context, shards int) (*Cluster, error) {
	c := &Cluster{}
	var addresses []string
	for range shards {
		s, err := clusterNode(ctx)
		if err != nil {
			c.Close()
			return nil, err
		}
		c.Nodes = append(c.Nodes, s)
		addresses = append(addresses, s.Address())
	}
	c.URL = "valkey://" + strings.Join(addresses, ",") + "?cluster=true"
	ctx, cancel := context.WithTimeout(ctx, clusterWait)
	defer cancel()
	if err := cluster.Join(ctx, cluster.User{}, shards, addresses...); err != nil {
		c.Close()
		return nil, fmt.Errorf("join the cluster: %w", err)
	}
	return c, nil
}

// Close ends all nodes.
func (c *Cluster) Close() {
	for _, s := range c.Nodes {
		s.Close()
	}
}

func clusterNode(ctx context.Context) (*Server, error) {
	_, bus, err := freePort()
	if err != nil {
		return nil, err
	}
	return installed(ctx, "--cluster-enabled", "yes", "--cluster-port", bus,
		"--cluster-announce-ip", "127.0.0.1")
}
