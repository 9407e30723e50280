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

	"tidegate/infra/settings"
)

// exception is an accepted finding of cdk-nag's AWS Solutions rules.
type exception struct {
	rule string
	// parts are the ends of the paths, without Resource, of constructs with the finding.
	parts  []string
	reason string
}

var exceptions = []exception{
	{
		rule: "AwsSolutions-IAM4", parts: []string{"ServiceRole"},
		reason: "The sample backend may write its log, as the managed policy says, and nothing else.",
	},
	{
		rule: "AwsSolutions-IAM5", parts: []string{"CheckRole", "AdminRole"},
		reason: "Network interfaces, before they exist, and X-Ray have no ARN to name. " +
			"The actions are named, and those on interfaces are denied to the function's own code.",
	},
	{
		rule: "AwsSolutions-IAM5", parts: []string{"DefaultPolicy"},
		reason: "The objects of the log of changes, in a bucket of its own.",
	},
	{
		rule: "AwsSolutions-S1", parts: []string{"Changes"},
		reason: "An access log needs its own bucket; CloudTrail's data events show who reads the log.",
	},
	{
		rule: "AwsSolutions-SQS3", parts: []string{"CrossingsFailed"},
		reason: "This is itself the queue of failed events: its messages wait for an operator, whom an " +
			"alarm notifies.",
	},
	{
		rule: "AwsSolutions-SMG4", parts: []string{"Pepper"},
		reason: "Another pepper would invalidate every API key, so the pepper never rotates.",
	},
	{
		rule: "AwsSolutions-SMG4", parts: []string{"Password"},
		reason: "The first user changes the password by writing a new one into the secret and deploying. " +
			"A rotation would lock that user out.",
	},
	{
		rule: "AwsSolutions-AEC6", parts: []string{"Nodes"},
		reason: "The rule requires one password for all clients. Instead each function logs in by IAM, as " +
			"a user of its own.",
	},
	{
		rule: "AwsSolutions-APIG4", parts: []string{"DashboardApi", "DashboardLogin", "DashboardProvider",
			"DashboardRoute", "DashboardOwner", "DashboardSettle"},
		reason: "The dashboard authenticates requests itself: sessions for people, tokens for machines, " +
			"API keys for their owners. It denies by default on every route but the login's.",
	},
	{
		rule: "AwsSolutions-APIG4", parts: []string{"OPTIONS"},
		reason: "Browsers send no credential with OPTIONS, so none can be required. OPTIONS reaches no " +
			"backend.",
	},
	{
		rule: "AwsSolutions-COG4", parts: []string{"ANY", "OPTIONS"},
		reason: "The example's authorizer is Tidegate's, which is what the example shows.",
	},
	{
		rule: "AwsSolutions-APIG1", parts: []string{"DeploymentStage.prod"},
		reason: "A REST API's access log needs a role in the settings of the whole account, which an " +
			"example must not change.",
	},
	{
		rule: "AwsSolutions-APIG1", parts: []string{"DashboardStage", "ExampleHttpStage"},
		reason: "The dashboard audits every change itself. API Gateway would write such a log under one " +
			"resource policy of the account, which is full where many services log.",
	},
	{
		rule: "AwsSolutions-APIG6", parts: []string{"DeploymentStage.prod"},
		reason: "Like an access log, CloudWatch logging needs a role in the settings of the whole account.",
	},
	{
		rule: "AwsSolutions-APIG2", parts: []string{"ExampleRest"},
		reason: "The sample backend takes every path and body, and reads none of the body.",
	},
	{
		rule: "AwsSolutions-VPC7", parts: []string{"Vpc"},
		reason: "Isolated subnets have no way to the internet, and security groups allow the cache alone.",
	},
	{
		rule: "AwsSolutions-APIG3", parts: []string{"DeploymentStage.prod"},
		reason: "The example is to try. A web ACL costs more a month than the rest of a dev stage.",
	},
}

// findings returns cdk-nag's findings on a stack, each as "rule part".
func findings(t *testing.T, props settings.Props) []string {
	t.Helper()
	// keeps findings from ending the synthesis
	app, err := newApp(t.TempDir(), map[string]any{"@aws-cdk/core:annotationsInValidationReport": false})
	if err != nil {
		t.Fatal(err)
	}
	stack := newStack(app, props, placeholder)
	awscdk.Aspects_Of(app).Add(cdknag.NewAwsSolutionsChecks(&cdknag.NagPackProps{}), nil)
	annotations := assertions.Annotations_FromStack(stack)
	var found []string
	messages := *annotations.FindError(jsii.String("*"), assertions.Match_AnyValue())
	messages = append(messages, *annotations.FindWarning(jsii.String("*"), assertions.Match_AnyValue())...)
	for _, m := range messages {
		//nolint:staticcheck // SA1019: the Go modules of the CDK have no other type for what Annotations returns
		message, path := fmt.Sprint(m.Entry.Data), strings.TrimSuffix(*m.Id, "/Resource")
		rule, _, _ := strings.Cut(message, ":")
		rule, _, _ = strings.Cut(rule, "[")
		found = append(found, rule+" "+path[strings.LastIndex(path, "/")+1:])
	}
	slices.Sort(found)
	return slices.Compact(found)
}

// The findings of cdk-nag's AWS Solutions rules are exactly the exceptions.
func TestNag(t *testing.T) {
	var found, excepted []string
	sns := with(settings.Default("dev"), func(p *settings.Props) { p.Crossings = settings.SNS })
	for _, props := range []settings.Props{settings.Default("dev"), everything(), sns} {
		found = append(found, findings(t, props)...)
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
