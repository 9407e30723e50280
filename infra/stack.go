package main

import (
	"maps"
	"slices"

	"github.com/aws/aws-cdk-go/awscdk/v2"
	"github.com/aws/aws-cdk-go/awscdk/v2/awskms"
	"github.com/aws/aws-cdk-go/awscdk/v2/awssns"
	"github.com/aws/constructs-go/constructs/v10"
	"github.com/aws/jsii-runtime-go"

	"tidegate/infra/settings"
)

// Stack is one deployment of Tidegate.
type Stack struct {
	awscdk.Stack
	props settings.Props
	code  codeOf

	key     awskms.Key
	network *network
	store   *store
	changes *changesLog
	forward *forward // nil for none
	secrets *secrets
	check   *function
	admin   *function
	panel   *dashboardAPI
	example *example
	topic   awssns.Topic
}

// NewStack composes the parts from valid props, as settings.Read returns them.
func NewStack(scope constructs.Construct, props settings.Props, code codeOf) *Stack {
	stack := awscdk.NewStack(scope, jsii.String(props.Name()), &awscdk.StackProps{
		StackName:             jsii.String(props.Name()),
		Description:           jsii.String("Tidegate: a rate limiter for API Gateway (" + props.Stage + ")"),
		TerminationProtection: jsii.Bool(props.Keep),
	})
	s := &Stack{Stack: stack, props: props, code: code}
	s.tag()
	s.key = s.newKey()
	s.network = s.newNetwork()
	s.secrets = s.newSecrets()
	s.store = s.newStore()
	s.changes = s.newChangesLog()
	s.check = s.newCheck()
	s.panel = s.newDashboardAPI()
	s.admin = s.newAdmin()
	s.changes.grantAccess(s)
	s.scheduleMinute()
	if props.Crossings != "" {
		s.forward = s.newForward()
	}
	s.routeDashboard()
	if props.Example {
		s.example = s.newExample()
		s.admin.AddEnvironment(jsii.String("EXAMPLE_URL"), jsii.String(*s.example.rest.Url()+"hello"), nil)
	}
	s.allowCallers()
	s.topic = s.newTopic()
	s.newAlarms()
	s.newOutputs()
	return s
}

// tag adds the tags to every resource that can have tags.
func (s *Stack) tag() {
	tags := awscdk.Tags_Of(s.Stack)
	tags.Add(jsii.String("Application"), jsii.String("Tidegate"), nil)
	tags.Add(jsii.String("Stage"), &s.props.Stage, nil)
	for _, name := range slices.Sorted(maps.Keys(s.props.Tags)) {
		tags.Add(&name, jsii.String(s.props.Tags[name]), nil)
	}
}

// removal returns the policy for resources with data when the stack is deleted. After a
// failed first deployment they are deleted in any case, so that the next attempt can use
// their names.
func (s *Stack) removal() awscdk.RemovalPolicy {
	if s.props.Keep {
		return awscdk.RemovalPolicy_RETAIN_ON_UPDATE_OR_DELETE
	}
	return awscdk.RemovalPolicy_DESTROY
}

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
	s.output("ChangesLog", s.changes.address(), "The log of changes, which has all keys and policies")
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

// httpDenial describes the answer of an HTTP API over a limit.
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
