package main

import (
	"testing"

	"tidegate/infra/golden"
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
