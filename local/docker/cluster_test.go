package docker

import (
	"strconv"
	"strings"
	"testing"

	"tidegate/internal/store/keyspace"
	"tidegate/internal/testing/waiting"
)

const nodes = 6

// ask sends a command that needs no password to one node, and returns the answer.
func (c *composition) ask(t *testing.T, node int, words ...string) string {
	t.Helper()
	return c.exec(t, service(node),
		append([]string{"valkey-cli", "-p", strconv.Itoa(6400 + node)}, words...)...)
}

func service(node int) string { return "valkey-" + strconv.Itoa(node) }

// primaryOf returns the node that serves a key's record, according to the node asked.
func (c *composition) primaryOf(t *testing.T, id string, asked int) int {
	t.Helper()
	slot, err := strconv.Atoi(c.ask(t, asked, "cluster", "keyslot", keyspace.Record(id)))
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(c.ask(t, asked, "cluster", "nodes")) {
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

// whole waits until every node sees all other nodes as connected and not failed.
func (c *composition) whole(t *testing.T) {
	t.Helper()
	for node := range nodes {
		waiting.Until(t, "the cluster is whole", func() bool {
			text := c.ask(t, node+1, "cluster", "nodes")
			return strings.Count(text, "\n") == nodes-1 && !strings.Contains(text, "fail") &&
				!strings.Contains(text, "disconnected")
		})
	}
}
