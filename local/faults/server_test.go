//go:build unix

package faults

import (
	"context"
	"net"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/valkey-io/valkey-go"

	"tidegate/internal/apikey"
	"tidegate/internal/policy"
	"tidegate/internal/registry"
	"tidegate/internal/testing/registrytest"
	"tidegate/internal/testing/storetest"
	"tidegate/internal/testing/valkeytest"
	"tidegate/internal/testing/waiting"
)

const pepper = "for the fault suite alone, 32 characters"

// tester is the author of all edits.
var tester = registry.Edit{By: registry.Actor{Kind: "user", Name: "fault suite"}}

// server is one Valkey process.
type server struct {
	url    string
	pid    int
	client valkey.Client // to this server alone
}

var processID = regexp.MustCompile(`process_id:(\d+)`)

// attach connects to a running server and reads its process id.
func attach(t *testing.T, url string) *server {
	t.Helper()
	s := &server{url: url, client: storetest.Connect(t, url)}
	match := processID.FindStringSubmatch(s.ask(t, "INFO", "server"))
	if match == nil {
		t.Fatal("INFO has no process_id")
	}
	s.pid, _ = strconv.Atoi(match[1])
	return s
}

// try runs a command and returns its reply as text.
func (s *server) try(ctx context.Context, words ...string) (string, error) {
	message, err := s.client.Do(ctx, s.client.B().Arbitrary(words...).Build()).ToMessage()
	if err != nil {
		return "", err
	}
	text, err := message.ToString()
	if err != nil {
		return message.String(), nil //nolint:nilerr // not every reply is a string
	}
	return text, nil
}

// ask runs a command like try, and fails the test on an error.
func (s *server) ask(t *testing.T, words ...string) string {
	t.Helper()
	text, err := s.try(t.Context(), words...)
	if err != nil {
		t.Fatalf("%s: %v", strings.Join(words, " "), err)
	}
	return text
}

func (s *server) signal(t *testing.T, signal syscall.Signal) {
	t.Helper()
	if err := syscall.Kill(s.pid, signal); err != nil {
		t.Fatal(err)
	}
}

func (s *server) kill(t *testing.T)   { t.Helper(); s.signal(t, syscall.SIGKILL) }
func (s *server) freeze(t *testing.T) { t.Helper(); s.signal(t, syscall.SIGSTOP) }
func (s *server) thaw(t *testing.T)   { t.Helper(); s.signal(t, syscall.SIGCONT) }

func (s *server) port() string {
	_, port, _ := net.SplitHostPort(strings.TrimPrefix(s.url, "valkey://"))
	return port
}

// cutClients closes every connection except that of s.client and those of other nodes.
func (s *server) cutClients(t *testing.T) {
	t.Helper()
	s.ask(t, "CLIENT", "KILL", "TYPE", "normal", "SKIPME", "yes")
}

var statLine = regexp.MustCompile(`(?m)^cmdstat_([a-z|]+):calls=(\d+),.*?(?:rejected_calls=(\d+))?`)

// calls returns how often the server has run one of these commands.
func (s *server) calls(t *testing.T, commands ...string) int {
	t.Helper()
	total := 0
	for _, match := range statLine.FindAllStringSubmatch(s.ask(t, "INFO", "commandstats"), -1) {
		for _, c := range commands {
			if match[1] == c {
				n, _ := strconv.Atoi(match[2])
				total += n
			}
		}
	}
	return total
}

var timeLine = regexp.MustCompile(`(?m)^cmdstat_([a-z|]+):.*?usec_per_call=([0-9.]+)`)

// microseconds returns how long the server took for a command on average.
func (s *server) microseconds(t *testing.T, command string) float64 {
	t.Helper()
	for _, match := range timeLine.FindAllStringSubmatch(s.ask(t, "INFO", "commandstats"), -1) {
		if match[1] == command {
			average, _ := strconv.ParseFloat(match[2], 64)
			return average
		}
	}
	return 0
}

// world is a Valkey server or cluster, with plans and keys.
type world struct {
	url     string
	servers []*server // primaries first; in a cluster, servers[i+shards] replicates servers[i]
	admin   valkey.Client
	keys    *registry.Store
}

const shards = 3

// single starts a single server.
func single(t *testing.T, settings ...string) *world {
	t.Helper()
	return newWorld(t, []string{valkeytest.StartWith(t, settings...)}, "")
}

// cluster starts a cluster with shards primaries and a replica of each.
func cluster(t *testing.T) *world {
	t.Helper()
	return newWorld(t, valkeytest.StartCluster(t, shards, 1), "?cluster=true")
}

func newWorld(t *testing.T, urls []string, options string) *world {
	t.Helper()
	hosts := make([]string, len(urls))
	w := &world{}
	for i, url := range urls {
		hosts[i] = strings.TrimPrefix(url, "valkey://")
		w.servers = append(w.servers, attach(t, url))
	}
	w.url = "valkey://" + strings.Join(hosts, ",") + options
	w.admin = storetest.Connect(t, w.url)
	w.keys = registrytest.New(t, w.admin, apikey.Pepper(pepper))
	return w
}

func (w *world) save(t *testing.T, change func(*policy.Set)) {
	t.Helper()
	registrytest.Save(t, w.keys, tester, change)
}

// plans saves a plan with the limits in words for each way to decide without Valkey, named after
// it. Plan local then admits 20 % of a limit.
func (w *world) plans(t *testing.T, words ...string) {
	t.Helper()
	list := registrytest.Limits(words...)
	w.save(t, func(s *policy.Set) {
		s.Plans = []policy.Plan{
			{Name: "closed", Limits: list},
			{Name: "open", Limits: list, Degraded: policy.Open},
			{Name: "local", Limits: list, Degraded: policy.Local, Share: 20},
		}
	})
}

func (w *world) key(t *testing.T, plan string) caller {
	t.Helper()
	k, secret := registrytest.Create(t, w.keys, tester, policy.NewKey{Name: plan, Env: "test", Plan: plan})
	return caller{key: k, secret: secret, plan: plan}
}

// callers creates n keys. The plans take turns.
func (w *world) callers(t *testing.T, n int, plans ...string) []caller {
	t.Helper()
	all := make([]caller, n)
	for i := range all {
		all[i] = w.key(t, plans[i%len(plans)])
	}
	return all
}

// settled waits until every server, with some exceptions, reports that all slots are
// served.
func (w *world) settled(t *testing.T, except ...*server) {
	t.Helper()
	waiting.Until(t, "the cluster serves all slots", func() bool {
		for _, s := range w.servers {
			if slices.Contains(except, s) {
				continue
			}
			info, err := s.try(t.Context(), "CLUSTER", "INFO")
			if err != nil || !strings.Contains(info, "cluster_state:ok") ||
				!strings.Contains(info, "cluster_slots_ok:16384") {
				return false
			}
		}
		return true
	})
}
