package main

import (
	"github.com/aws/aws-cdk-go/awscdk/v2"
	"github.com/aws/jsii-runtime-go"
)

// newOutputs adds the outputs that an operator needs after a deployment.
func (s *Stack) newOutputs() {
	s.output("DashboardUrl", s.panel.url, "The dashboard")
	if s.secrets.password != nil {
		s.output("FirstLogin", "aws secretsmanager get-secret-value --query SecretString --output text "+
			"--secret-id "+s.props.Name()+"/password",
			"Prints the first password; the user is "+s.props.Login.User)
	}
	s.output("CheckFunctionArn", *s.check.FunctionArn(),
		"The authorizer's function, for APIs of other stacks and accounts")
	s.output("CacheHost", *s.store.host, "The cache; only the functions reach it")
	if s.journal != nil {
		s.output("JournalAddress", s.journal.address(), "The journal of every change")
	}
	if s.forward != nil && s.forward.topic != nil {
		s.output("CrossingsTopicArn", *s.forward.topic.TopicArn(), "Crossed limits are published here")
	}
	s.output("AlarmTopicArn", *s.topic.TopicArn(), "Alarms are published here")
	if s.example != nil {
		s.output("ExampleRestUrl", *s.example.rest.Url(), "The example REST API: 429 over a limit")
		s.output("ExampleHttpUrl", *s.example.http.ApiEndpoint(),
			"The example HTTP API: "+s.httpDenial()+" over a limit")
		s.output("ExampleRestAuthorizerArn", *s.example.restAuthorizer.ARN,
			"Authorizer of the example REST API")
		s.output("ExampleHttpAuthorizerArn", *s.example.httpAuthorizer.ARN,
			"Authorizer of the example HTTP API")
	}
}

// httpDenial is an HTTP API's status over a limit.
func (s *Stack) httpDenial() string {
	if s.props.Decision.DenialInContext() {
		return "its backend answers 429"
	}
	return "403"
}

func (s *Stack) output(id, value, description string) {
	awscdk.NewCfnOutput(s.Stack, &id,
		&awscdk.CfnOutputProps{Value: &value, Description: jsii.String(description)})
}
