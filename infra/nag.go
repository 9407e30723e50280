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
	parts []string
	why   string
	// finding narrows a rule that reports several things of one construct.
	finding string
}

var exceptions = []exception{
	{
		rule: "AwsSolutions-IAM5", parts: []string{"CheckRole", "AdminRole"}, finding: "Resource::*",
		why: "Network interfaces, before they exist, and X-Ray have no ARN to name. " +
			"The actions are named, and those on interfaces denied to the function's own code.",
	},
	{
		rule: "AwsSolutions-IAM5", parts: []string{"AdminRole"}, finding: "Resource::<JournalAE8C44B2.Arn>/*",
		why: "The objects of the journal's own bucket.",
	},
	{
		rule: "AwsSolutions-S1", parts: []string{"Journal"},
		why: "An access log needs a bucket of its own; CloudTrail's data events show who reads the journal.",
	},
	{
		rule: "AwsSolutions-SQS3", parts: []string{"CrossingsFailed"},
		why: "This is itself the queue of failures: its messages wait for an operator, and an " +
			"alarm calls them.",
	},
	{
		rule: "AwsSolutions-SMG4", parts: []string{"Pepper"},
		why: "Another pepper would make every API key unreadable, so it never rotates.",
	},
	{
		rule: "AwsSolutions-SMG4", parts: []string{"Password"},
		why: "The first login's password changes when its owner writes another into the secret and " +
			"deploys. " +
			"A rotation would lock them out.",
	},
	{
		rule: "AwsSolutions-AEC6", parts: []string{"Cache"},
		why: "The rule wants the one password of all clients; this cache has a user for each function " +
			"instead, who logs in by IAM.",
	},
	{
		rule: "AwsSolutions-APIG4", parts: []string{"DashboardApi", "DashboardLogin", "DashboardProvider",
			"DashboardRoute", "DashboardOwner", "DashboardOwnerPage", "DashboardSettle"},
		why: "The dashboard authenticates by itself: sessions for people, tokens for machines, API keys " +
			"for their owners, default deny on every route but the login's.",
	},
	{
		rule: "AwsSolutions-APIG4", parts: []string{"ExampleRest"},
		why: "Browsers send no credential with OPTIONS, so nothing may be asked for there. It reaches no " +
			"backend.",
	},
	{
		rule: "AwsSolutions-COG4", parts: []string{"ExampleRest"},
		why: "The example's authorizer is Tidegate's, which is what the example shows.",
	},
	{
		rule: "AwsSolutions-APIG1", parts: []string{"ExampleRest"},
		why: "A REST API's access log needs a role in the settings of the whole account, which an example " +
			"must not change. The HTTP APIs have theirs.",
	},
	{
		rule: "AwsSolutions-APIG1", parts: []string{"DashboardStage", "ExampleHttpStage"},
		why: "A dev stage pays for no access logs, and the dashboard audits every change by itself. -c " +
			"accessLogs=true adds them; prod has them.",
	},
	{
		rule: "AwsSolutions-APIG6", parts: []string{"ExampleRest"},
		why: "As its access log, it needs a role in the settings of the whole account.",
	},
	{
		rule: "AwsSolutions-APIG2", parts: []string{"ExampleRest"},
		why: "The sample backend takes every path and body, and reads none of the body.",
	},
	{
		rule: "AwsSolutions-APIG3", parts: []string{"ExampleRest"},
		why: "A web ACL costs more a month than the rest of a dev stage: -c waf=true adds it.",
	},
}

// inspect runs cdk-nag; any other finding fails the synthesis. -c nag=true enables it;
// tests always run it.
func (s *Stack) inspect(app awscdk.App) {
	for _, e := range exceptions {
		s.except(e)
	}
	awscdk.Aspects_Of(app).Add(cdknag.NewAwsSolutionsChecks(&cdknag.NagPackProps{Verbose: jsii.Bool(true)}),
		nil)
}

func (s *Stack) except(e exception) {
	suppression := &cdknag.NagPackSuppression{Id: &e.rule, Reason: &e.why}
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
