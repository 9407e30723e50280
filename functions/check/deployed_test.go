package main

import (
	"os/exec"
	"regexp"
	"strconv"
	"testing"

	"tidegate/infra/golden"
	"tidegate/internal/testing/built"
)

// What the stack deploys, the function starts with: with every default, and with every
// option.
func TestStartsAsDeployed(t *testing.T) {
	t.Setenv("AWS_REGION", "eu-west-1") // as Lambda does
	// Without a stage, as in dev, the function writes no metrics.
	for stage, template := range map[string][]byte{"": golden.Dev, "prod": golden.Prod} {
		set, err := golden.Environment(template, "Check")
		if err != nil {
			t.Fatal(err)
		}
		var variables []string
		for name, value := range set {
			variables = append(variables, name+"="+value)
		}
		if c, err := readConfig(variables); err != nil || c.Stage != stage {
			t.Errorf("stage %q: %v in %q", stage, err, variables)
		}
	}
}

// A function that starts soon is a small one. The bounds are those of what
// ./scripts/build makes.
const (
	maxBinary = 9 << 20
	maxZip    = 4 << 20
)

// maxPrepared is how many bytes one of our packages may allocate before main: what takes
// longer to put together waits until it is needed.
const maxPrepared = 16 << 10

func TestSizeOfTheFunction(t *testing.T) {
	built.Small(t, "tidegate/functions/check", maxBinary, maxZip)
}

var prepared = regexp.MustCompile(`(?m)^init (tidegate/\S+) .* (\d+) bytes,`)

func TestLittleIsPreparedBeforeMain(t *testing.T) {
	start := exec.CommandContext(t.Context(), built.Program(t, "tidegate/functions/check"))
	start.Env = []string{"GODEBUG=inittrace=1"}
	out, _ := start.CombinedOutput() // it ends for want of a configuration
	found := prepared.FindAllStringSubmatch(string(out), -1)
	if len(found) == 0 {
		t.Fatalf("no package says what it prepared:\n%s", out)
	}
	for _, match := range found {
		if n, err := strconv.Atoi(match[2]); err != nil || n > maxPrepared {
			t.Errorf("%s allocates %s bytes, want at most %d", match[1], match[2], maxPrepared)
		}
	}
}
