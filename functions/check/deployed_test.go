package main

import (
	"os/exec"
	"regexp"
	"strconv"
	"testing"

	"tidegate/internal/golden"
	"tidegate/internal/testing/built"
)

// The function starts with the environment that the CDK stack deploys, with defaults
// (dev) and with every option (prod).
func TestStartsAsDeployed(t *testing.T) {
	t.Setenv("AWS_REGION", "eu-west-1") // as Lambda does
	// Without a stage, as in dev, the function writes no metrics.
	for stage, template := range map[string][]byte{"": golden.Dev, "prod": golden.Prod,
		"template": golden.Template} {
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

// The size bounds of what ./scripts/build makes, in bytes. Larger programs start slower.
const (
	maxBinary = 19 << 19
	maxZip    = 4 << 20
)

// maxInitAlloc is how many bytes one of our packages may allocate before main. Larger
// values must be built when they are needed.
const maxInitAlloc = 16 << 10

func TestSizeOfTheFunction(t *testing.T) {
	built.Small(t, "tidegate/functions/check", maxBinary, maxZip)
}

var initTrace = regexp.MustCompile(`(?m)^init (tidegate/\S+) .* (\d+) bytes,`)

func TestAllocationsBeforeMain(t *testing.T) {
	start := exec.CommandContext(t.Context(), built.Program(t, "tidegate/functions/check"))
	start.Env = []string{"GODEBUG=inittrace=1"}
	out, _ := start.CombinedOutput() // ends with an error: there is no configuration
	found := initTrace.FindAllStringSubmatch(string(out), -1)
	if len(found) == 0 {
		t.Fatalf("no package in the init trace:\n%s", out)
	}
	for _, match := range found {
		if n, err := strconv.Atoi(match[2]); err != nil || n > maxInitAlloc {
			t.Errorf("%s allocates %s bytes, want at most %d", match[1], match[2], maxInitAlloc)
		}
	}
}
