package main

import (
	"github.com/aws/aws-cdk-go/awscdk/v2"
	"github.com/aws/jsii-runtime-go"
	"github.com/cdklabs/cdk-nag-go/cdknag/v2"
)

// exception is an accepted finding of cdk-nag's AWS Solutions rules.
type exception struct {
	rule string
	// parts are the constructs directly below the stack that have the finding.
	parts  []string
	reason string
	// finding restricts the exception to one of several findings of the rule on a
	// construct; empty for all.
	finding string
}

var exceptions = []exception{
	{
		rule: "AwsSolutions-IAM5", parts: []string{"CheckRole", "AdminRole"}, finding: "Resource::*",
		reason: "Network interfaces, before they exist, and X-Ray have no ARN to name. " +
			"The actions are named, and those on interfaces are denied to the function's own code.",
	},
	{
		rule: "AwsSolutions-IAM5", parts: []string{"AdminRole"}, finding: "Resource::<Changes510ED4B0.Arn>/*",
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
		rule: "AwsSolutions-APIG4", parts: []string{"ExampleRest"},
		reason: "Browsers send no credential with OPTIONS, so none can be required. OPTIONS reaches no " +
			"backend.",
	},
	{
		rule: "AwsSolutions-COG4", parts: []string{"ExampleRest"},
		reason: "The example's authorizer is Tidegate's, which is what the example shows.",
	},
	{
		rule: "AwsSolutions-APIG1", parts: []string{"ExampleRest"},
		reason: "A REST API's access log needs a role in the settings of the whole account, which an " +
			"example must not change. The HTTP APIs have access logs.",
	},
	{
		rule: "AwsSolutions-APIG1", parts: []string{"DashboardStage", "ExampleHttpStage"},
		reason: "A dev stage has no access logs, to save their cost, and the dashboard audits every change " +
			"itself. -c accessLogs=true adds them; prod has them.",
	},
	{
		rule: "AwsSolutions-APIG6", parts: []string{"ExampleRest"},
		reason: "Like an access log, CloudWatch logging needs a role in the settings of the whole account.",
	},
	{
		rule: "AwsSolutions-APIG2", parts: []string{"ExampleRest"},
		reason: "The sample backend takes every path and body, and reads none of the body.",
	},
	{
		rule: "AwsSolutions-VPC7", parts: []string{"Network"},
		reason: "Isolated subnets have no way to the internet, and security groups allow the cache alone.",
	},
	{
		rule: "AwsSolutions-APIG3", parts: []string{"ExampleRest"},
		reason: "The example is to try. A web ACL costs more a month than the rest of a dev stage.",
	},
}

// inspect runs cdk-nag; a finding that is no exception fails the synthesis. -c nag=true
// enables it. Tests always run it.
func (s *Stack) inspect(app awscdk.App) {
	for _, e := range exceptions {
		s.suppress(e)
	}
	awscdk.Aspects_Of(app).Add(cdknag.NewAwsSolutionsChecks(&cdknag.NagPackProps{Verbose: jsii.Bool(true)}),
		nil)
}

func (s *Stack) suppress(e exception) {
	suppression := &cdknag.NagPackSuppression{Id: &e.rule, Reason: &e.reason}
	if e.finding != "" {
		suppression.AppliesTo = &[]any{e.finding}
	}
	for _, part := range e.parts {
		if child := s.Node().TryFindChild(&part); child != nil {
			cdknag.NagSuppressions_AddResourceSuppressions(child, &[]*cdknag.NagPackSuppression{suppression},
				jsii.Bool(true))
		}
	}
}
