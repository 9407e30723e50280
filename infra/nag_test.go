package main

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/aws/aws-cdk-go/awscdk/v2"
	"github.com/aws/aws-cdk-go/awscdk/v2/assertions"
	"github.com/aws/jsii-runtime-go"
	"github.com/cdklabs/cdk-nag-go/cdknag/v2"
)

// findings returns cdk-nag's findings on a stack with these flags, each as "rule part".
func findings(t *testing.T, flags map[string]string, inspect func(*Stack, awscdk.App)) []string {
	t.Helper()
	// keeps findings from ending the synthesis
	app, _, err := newApp(map[string]any{"@aws-cdk/core:annotationsInValidationReport": false})
	if err != nil {
		t.Fatal(err)
	}
	stack := NewStack(app, propsOf(t, flags), placeholder)
	inspect(stack, app)
	annotations := assertions.Annotations_FromStack(stack.Stack)
	var found []string
	messages := *annotations.FindError(jsii.String("*"), assertions.Match_AnyValue())
	messages = append(messages, *annotations.FindWarning(jsii.String("*"), assertions.Match_AnyValue())...)
	for _, m := range messages {
		//nolint:staticcheck // SA1019: the Go modules of the CDK have no other type for what Annotations returns
		message, path := fmt.Sprint(m.Entry.Data), *m.Id
		rule, _, _ := strings.Cut(message, ":")
		rule, _, _ = strings.Cut(rule, "[")
		found = append(found, rule+" "+strings.Split(path, "/")[2])
	}
	slices.Sort(found)
	return slices.Compact(found)
}

// The findings of cdk-nag's AWS Solutions rules are exactly the exceptions.
func TestNag(t *testing.T) {
	plain := func(_ *Stack, app awscdk.App) {
		awscdk.Aspects_Of(app).Add(cdknag.NewAwsSolutionsChecks(&cdknag.NagPackProps{}), nil)
	}
	var found, excepted []string
	for _, flags := range []map[string]string{nil, everything} {
		found = append(found, findings(t, flags, plain)...)
	}
	for _, e := range exceptions {
		if len(e.reason) < 40 {
			t.Errorf("%s: got reason %q, want at least 40 characters", e.rule, e.reason)
		}
		for _, part := range e.parts {
			excepted = append(excepted, e.rule+" "+part)
		}
	}
	slices.Sort(found)
	slices.Sort(excepted)
	excepted = slices.Compact(excepted)
	equal(t, "findings", strings.Join(slices.Compact(found), "\n"), strings.Join(excepted, "\n"))
}

// With the exceptions, cdk-nag has no findings.
func TestNagIsSatisfied(t *testing.T) {
	for _, flags := range []map[string]string{nil, everything} {
		equal(t, "findings", findings(t, flags, (*Stack).inspect), []string{})
	}
}
