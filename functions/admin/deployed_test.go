package main

import (
	"testing"

	"tidegate/internal/golden"
)

// The function starts with the environment that the stack deploys, with every default and
// with every option.
func TestStartsAsDeployed(t *testing.T) {
	t.Setenv("AWS_REGION", "eu-west-1") // as Lambda does
	for stage, template := range map[string][]byte{"dev": golden.Dev, "prod": golden.Prod,
		"template": golden.Template} {
		set, err := golden.Environment(template, "Admin")
		if err != nil {
			t.Fatal(err)
		}
		if set["ADMIN_USERS"] != "" { // refers to a secret that the operator creates
			set["ADMIN_USERS"] = "vic:viewer:" + testHash
		}
		if set["CROSSINGS_TARGET"] != "" { // refers to a topic of the stack
			set["CROSSINGS_TARGET"] = "arn:aws:sns:eu-west-1:111122223333:tidegate-prod-crossings"
		}
		var variables []string
		for name, value := range set {
			variables = append(variables, name+"="+value)
		}
		c, err := readConfig(variables)
		if err == nil {
			_, err = c.dashboard()
		}
		if err != nil || c.Stage != stage {
			t.Errorf("%s: got %v with %q", stage, err, variables)
		}
	}
}
