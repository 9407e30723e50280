//go:build unix

package check

import (
	"bytes"
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"tidegate/internal/testing/browsertest"
	"tidegate/internal/testing/built"
	"tidegate/internal/testing/storetest"
	"tidegate/internal/testing/tier"
	"tidegate/internal/testing/valkeytest"
	"tidegate/local/bench/harness"
)

const peers = "../peers"

// runProgram runs a program in a folder, and fails the test if it fails.
func runProgram(t *testing.T, folder, program string, arguments ...string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
	defer cancel()
	command := exec.CommandContext(ctx, program, arguments...)
	command.Dir = folder
	if output, err := command.CombinedOutput(); err != nil {
		t.Fatalf("%s %s: %v\n%s", program, strings.Join(arguments, " "), err, output)
	}
}

// builtPeers returns the check function and its peers, as scripts/bench builds them.
func builtPeers(t *testing.T) options {
	t.Helper()
	tier.Two(t, "bundles peers with npm packages")
	node, err := exec.LookPath("node")
	browsertest.Need(t, err, "install Node.js 20 or newer")
	_, err = exec.LookPath("valkey-server")
	browsertest.Need(t, err, "run scripts/install-test-tools")
	_, err = os.Stat(filepath.Join(peers, "node_modules", "ioredis"))
	browsertest.Need(t, err, "install it: npm ci --ignore-scripts --prefix local/bench/peers")
	folder := t.TempDir()
	o := options{check: built.Program(t, "tidegate/functions/check"),
		node: filepath.Join(folder, "node.cjs"), peer: filepath.Join(folder, "go")}
	runProgram(t, peers, "go", "build", "-tags", "lambda.norpc", "-o", o.peer, ".")
	runProgram(t, peers, "npm", "run", "--silent", "bundle", "--", "--banner:js=#!"+node, "--outfile="+o.node)
	if err := os.Chmod(o.node, 0o700); err != nil {
		t.Fatal(err)
	}
	return o
}

// A comparison with a few calls and starts gives figures for all authorizers and both
// credentials.
func TestComparison(t *testing.T) {
	o := builtPeers(t)
	o.starts, o.peerCalls = 1, 10
	b, err := open(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(b.Close)
	got, err := b.compareAll(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	values := map[string]float64{}
	for _, f := range got {
		values[f.Name] = f.Value
	}
	for _, name := range []string{"coldstart_vs_node", "p50_vs_node", "rss_vs_node", "p50_vs_go",
		"jwt_coldstart_vs_node", "jwt_p99_vs_go", "node_package_mib"} {
		if values["check."+name] <= 0 {
			t.Errorf("check.%s: got %g, want more than 0", name, values["check."+name])
		}
	}
}

// The peers do the same work as the check function: they verify credentials, and deny
// calls over a limit.
func TestPeersAuthorize(t *testing.T) {
	o := builtPeers(t)
	url := valkeytest.Start(t)
	client := storetest.Connect(t, url)
	b := &bench{options: o, Server: &harness.Server{URL: url, Client: client}, secrets: []string{"a secret"}}
	if err := b.registerWithPeers(t.Context()); err != nil {
		t.Fatal(err)
	}
	issuer, err := newIssuer()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(issuer.Close)
	tokens, err := issuer.events(2)
	if err != nil {
		t.Fatal(err)
	}
	forger, err := newIssuer()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(forger.Close)
	forged, err := forger.events(1)
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		credential
		bad []byte
	}{
		{credential{"", "API key", nil, [][]byte{eventOf("x-api-key", "a secret")}},
			eventOf("x-api-key", "another")},
		{credential{"jwt_", "JWT", issuer.env(), tokens[:1]}, forged[0]},
	} {
		for _, f := range b.authorizers(c.credential)[1:] { // the first is the check function
			t.Run(f.Name+" "+c.title, func(t *testing.T) { authorizes(t, f, c.events[0], c.bad) })
		}
	}
}

// authorizes checks that an authorizer refuses a bad credential and a call without one,
// and denies a caller's calls over its limits.
func authorizes(t *testing.T, f harness.Function, good, bad []byte) {
	t.Helper()
	f.Valid = nil // denials are counted
	function, err := harness.Open(f)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(function.Close)
	for _, event := range [][]byte{bad, eventOf("accept", "*/*")} {
		if _, answer, err := function.Invoke(t.Context(), event); err == nil ||
			!strings.Contains(err.Error(), "Unauthorized") {
			t.Fatalf("bad credential: got %s, %v, want Unauthorized", answer, err)
		}
	}
	denials := 0
	for range 1_200 { // more than either limit
		_, answer, err := function.Invoke(t.Context(), good)
		if err != nil {
			t.Fatal(err)
		}
		if bytes.Contains(answer, []byte(`"Deny"`)) {
			denials++
		}
	}
	if denials < 90 { // of 200 beyond 1,000 in 10 minutes; a bucket refills meanwhile
		t.Errorf("got %d denials of 1,200 calls, want at least 90", denials)
	}
}
