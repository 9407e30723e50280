package main

import (
	"maps"

	"github.com/aws/aws-cdk-go/awscdk/v2"
	"github.com/aws/aws-cdk-go/awscdk/v2/awsec2"
	"github.com/aws/aws-cdk-go/awscdk/v2/awsiam"
	"github.com/aws/aws-cdk-go/awscdk/v2/awslambda"
	"github.com/aws/aws-cdk-go/awscdk/v2/awslogs"
	"github.com/aws/jsii-runtime-go"

	"tidegate/infra/settings"
)

// function is one of our functions, with the properties that other constructs need.
type function struct {
	awslambda.Function
	name  string // check or admin
	props settings.Function
	log   awslogs.LogGroup
}

// functionSpec has the differences between the functions.
type functionSpec struct {
	id, name    string
	description string
	props       settings.Function
	timeout     int // seconds
	group       awsec2.SecurityGroup
	egress      bool // needs the internet
	environment map[string]string
}

func (s *Stack) newFunction(spec functionSpec) *function {
	log := s.logGroup(spec.id+"Log", spec.name)
	environment := map[string]string{
		"VALKEY_URL":             s.url(spec.name),
		"VALKEY_CONNECT_TIMEOUT": settings.ConnectTimeout.String(),
		"KEY_PEPPER":             reference(s.secrets.pepper),
		"LOG_LEVEL":              s.props.LogLevel,
	}
	maps.Copy(environment, spec.environment)
	maps.DeleteFunc(environment, func(_, value string) bool { return value == "" })
	tracing := awslambda.Tracing_DISABLED
	if s.props.Observe.Tracing {
		tracing = awslambda.Tracing_ACTIVE
	}
	props := &awslambda.FunctionProps{
		FunctionName:          jsii.String(s.functionName(spec.name)),
		Description:           &spec.description,
		Runtime:               awslambda.Runtime_PROVIDED_AL2023(),
		Architecture:          awslambda.Architecture_ARM_64(),
		Handler:               jsii.String("bootstrap"),
		Code:                  s.code(spec.name),
		MemorySize:            jsii.Number(spec.props.Memory),
		Timeout:               awscdk.Duration_Seconds(jsii.Number(spec.timeout)),
		Role:                  s.role(spec.id, spec.name, log),
		Vpc:                   s.network.vpc,
		VpcSubnets:            s.network.subnets(spec.egress),
		SecurityGroups:        &[]awsec2.ISecurityGroup{spec.group},
		Environment:           texts(environment),
		EnvironmentEncryption: s.key,
		Tracing:               tracing,
		LogGroup:              log,
		// The platform's lines of every call would cost more than the check itself.
		// LOG_LEVEL is the function's level: a level here would treat lines of metrics,
		// which have none, as INFO.
		LoggingFormat:         awslambda.LoggingFormat_JSON,
		SystemLogLevelV2:      awslambda.SystemLogLevel_WARN,
		ApplicationLogLevelV2: awslambda.ApplicationLogLevel_TRACE,
	}
	if spec.props.Concurrency != settings.Unreserved {
		props.ReservedConcurrentExecutions = jsii.Number(spec.props.Concurrency)
	}
	f := &function{Function: awslambda.NewFunction(s.Stack, &spec.id, props), name: spec.name,
		props: spec.props, log: log}
	f.Node().AddDependency(s.store.resource)
	return f
}

func (s *Stack) functionName(name string) string { return s.props.Name() + "-" + name }

func (s *Stack) functionARN(name string) *string {
	return s.FormatArn(&awscdk.ArnComponents{
		Service: jsii.String("lambda"), Resource: jsii.String("function"),
		ResourceName: jsii.String(s.functionName(name)),
		ArnFormat:    awscdk.ArnFormat_COLON_RESOURCE_NAME,
	})
}

// role lets a function log in to the cache as its user and write its log. Lambda needs
// the other rights, to attach the function to the network.
func (s *Stack) role(id, name string, log awslogs.LogGroup) awsiam.Role {
	return awsiam.NewRole(s.Stack, jsii.String(id+"Role"), &awsiam.RoleProps{
		AssumedBy:   awsiam.NewServicePrincipal(jsii.String("lambda.amazonaws.com"), nil),
		Description: jsii.String("What Tidegate's " + name + " function may do"),
		InlinePolicies: &map[string]awsiam.PolicyDocument{
			"Work": awsiam.NewPolicyDocument(&awsiam.PolicyDocumentProps{
				Statements: &[]awsiam.PolicyStatement{
					statement("Cache", jsii.Strings("elasticache:Connect"), s.elastiCacheOf(name)),
					statement("Log", jsii.Strings("logs:CreateLogStream", "logs:PutLogEvents"),
						&[]*string{log.LogGroupArn()}),
					statement("Network", networkActions(), jsii.Strings("*")),
					s.notByTheFunction(name),
				},
			})},
	})
}

func (s *Stack) elastiCacheOf(name string) *[]*string {
	return &[]*string{s.store.arn, s.userARN(name)}
}

func statement(sid string, actions, resources *[]*string) awsiam.PolicyStatement {
	return awsiam.NewPolicyStatement(&awsiam.PolicyStatementProps{Sid: &sid, Actions: actions,
		Resources: resources})
}

// networkActions have no resource that could be named before the interfaces exist.
func networkActions() *[]*string {
	return jsii.Strings("ec2:AssignPrivateIpAddresses", "ec2:CreateNetworkInterface",
		"ec2:DeleteNetworkInterface", "ec2:DescribeNetworkInterfaces",
		"ec2:DescribeSubnets", "ec2:UnassignPrivateIpAddresses")
}

// notByTheFunction restricts Lambda's rights to Lambda itself: the function's own code
// cannot use them.
func (s *Stack) notByTheFunction(name string) awsiam.PolicyStatement {
	deny := awsiam.NewPolicyStatement(&awsiam.PolicyStatementProps{
		Sid: jsii.String("NotByTheFunction"), Effect: awsiam.Effect_DENY, Actions: networkActions(),
		Resources: jsii.Strings("*"),
	})
	deny.AddCondition(jsii.String("ArnEquals"),
		map[string]any{"lambda:SourceFunctionArn": s.functionARN(name)})
	return deny
}

func texts(values map[string]string) *map[string]*string {
	all := map[string]*string{}
	for name, value := range values {
		all[name] = &value
	}
	return &all
}
