package main

import (
	"fmt"
	"maps"
	"strings"

	"github.com/aws/aws-cdk-go/awscdk/v2"
	"github.com/aws/aws-cdk-go/awscdk/v2/awsec2"
	"github.com/aws/aws-cdk-go/awscdk/v2/awsiam"
	"github.com/aws/aws-cdk-go/awscdk/v2/awslambda"
	"github.com/aws/aws-cdk-go/awscdk/v2/awslogs"
	"github.com/aws/jsii-runtime-go"

	"tidegate/infra/authorizer"
	"tidegate/infra/settings"
)

// function is one of Tidegate's functions, with the properties that other constructs
// need.
type function struct {
	awslambda.Function
	name  string // check or admin
	props settings.Function
	log   awslogs.LogGroup
}

// functionSpec has what differs between the check and the admin function.
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
		// Lambda's own log lines of every call would cost more than the check itself.
		// LOG_LEVEL sets the function's level. A level here would treat metrics lines,
		// which have no level, as INFO.
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

// role creates the role of a function. The function may log in to the cache as its user
// and write its log. Lambda needs the other rights to attach it to the network.
func (s *Stack) role(id, name string, log awslogs.LogGroup) awsiam.Role {
	return awsiam.NewRole(s.Stack, jsii.String(id+"Role"), &awsiam.RoleProps{
		AssumedBy:   awsiam.NewServicePrincipal(jsii.String("lambda.amazonaws.com"), nil),
		Description: jsii.String("What Tidegate's " + name + " function may do"),
		InlinePolicies: &map[string]awsiam.PolicyDocument{
			"Work": awsiam.NewPolicyDocument(&awsiam.PolicyDocumentProps{
				Statements: &[]awsiam.PolicyStatement{
					statement("Cache", jsii.Strings("elasticache:Connect"), s.cacheARNs(name)),
					statement("Log", jsii.Strings("logs:CreateLogStream", "logs:PutLogEvents"),
						&[]*string{log.LogGroupArn()}),
					statement("Network", networkActions(), jsii.Strings("*")),
					s.denyNetworkActions(name),
				},
			})},
	})
}

// cacheARNs returns the cache and the function's user, which a log-in by IAM names.
func (s *Stack) cacheARNs(name string) *[]*string {
	return &[]*string{s.store.arn, s.userARN(name)}
}

func statement(sid string, actions, resources *[]*string) awsiam.PolicyStatement {
	return awsiam.NewPolicyStatement(&awsiam.PolicyStatementProps{Sid: &sid, Actions: actions,
		Resources: resources})
}

// networkActions are Lambda's actions on network interfaces, which have no ARN before
// they exist.
func networkActions() *[]*string {
	return jsii.Strings("ec2:AssignPrivateIpAddresses", "ec2:CreateNetworkInterface",
		"ec2:DeleteNetworkInterface", "ec2:DescribeNetworkInterfaces",
		"ec2:DescribeSubnets", "ec2:UnassignPrivateIpAddresses")
}

// denyNetworkActions denies the network actions to the function's own code, so that only
// Lambda itself can use them.
func (s *Stack) denyNetworkActions(name string) awsiam.PolicyStatement {
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

// newCheck creates the authorizer's function. API Gateway may invoke it only for
// authorizers with a permission of their own.
func (s *Stack) newCheck() *function {
	egress, _ := s.props.Egress()
	return s.newFunction(functionSpec{
		id: "Check", name: "check",
		description: "Tidegate's authorizer: one sliding-window step per API call",
		props:       s.props.Check, timeout: settings.CheckTimeout, group: s.network.check, egress: egress,
		environment: s.props.CheckVariables(),
	})
}

// allowCallers lets the authorizers of other stacks and accounts invoke the check function,
// and roles and users make direct calls.
func (s *Stack) allowCallers() {
	for i, caller := range s.props.Callers {
		id := fmt.Sprintf("Caller%d", i+1)
		if err := authorizer.Allow(s.check, &id, caller); err != nil {
			panic(fmt.Errorf("-c callers=%s: %w", caller, err))
		}
	}
	for i, caller := range s.props.DirectCallers {
		s.check.AddPermission(jsii.String(fmt.Sprintf("DirectCaller%d", i+1)), &awslambda.Permission{
			Principal: awsiam.NewArnPrincipal(&caller), Action: jsii.String("lambda:InvokeFunction")})
	}
}

// adminTimeout is the time-out of the admin function in seconds. An HTTP API waits for at
// most 30.
const adminTimeout = 25

// newAdmin creates the dashboard's function.
func (s *Stack) newAdmin() *function {
	_, egress := s.props.Egress()
	login := s.props.Login
	environment := s.props.AdminVariables()
	maps.Copy(environment, map[string]string{
		"ADMIN_URL":          strings.TrimSuffix(s.panel.url, "/"),
		"ADMIN_USERS":        secretNamed(login.Users),
		"OIDC_CLIENT_SECRET": secretNamed(login.OIDC.ClientSecret),
		"CHANGES_LOG":        s.changes.address(),
	})
	if s.secrets.password != nil {
		environment["ADMIN_USER"], environment["ADMIN_PASSWORD"] = login.User, reference(s.secrets.password)
	}
	return s.newFunction(functionSpec{
		id: "Admin", name: "admin", description: "Tidegate's dashboard",
		props: s.props.Admin, timeout: adminTimeout, group: s.network.admin, egress: egress,
		environment: environment,
	})
}

// retention maps a number of days to RetentionDays.
var retention = map[int]awslogs.RetentionDays{
	1: awslogs.RetentionDays_ONE_DAY, 3: awslogs.RetentionDays_THREE_DAYS, 5: awslogs.RetentionDays_FIVE_DAYS,
	7:  awslogs.RetentionDays_ONE_WEEK,
	14: awslogs.RetentionDays_TWO_WEEKS, 30: awslogs.RetentionDays_ONE_MONTH,
	60: awslogs.RetentionDays_TWO_MONTHS,
	90: awslogs.RetentionDays_THREE_MONTHS, 120: awslogs.RetentionDays_FOUR_MONTHS,
	150: awslogs.RetentionDays_FIVE_MONTHS,
	180: awslogs.RetentionDays_SIX_MONTHS, 365: awslogs.RetentionDays_ONE_YEAR,
	400: awslogs.RetentionDays_THIRTEEN_MONTHS,
	545: awslogs.RetentionDays_EIGHTEEN_MONTHS, 731: awslogs.RetentionDays_TWO_YEARS,
}

func (s *Stack) logGroupName(name string) *string {
	return jsii.String("/tidegate/" + s.props.Stage + "/" + name)
}

// logGroup creates an encrypted log group, which stays when the stack is deleted if data is
// kept.
func (s *Stack) logGroup(id, name string) awslogs.LogGroup {
	return s.newLogGroup(id, name, s.removal())
}

// optionalLogGroup creates the log group of what a flag adds. It is deleted with it, since
// its name would be taken when the flag is set again.
func (s *Stack) optionalLogGroup(id, name string) awslogs.LogGroup {
	return s.newLogGroup(id, name, awscdk.RemovalPolicy_DESTROY)
}

func (s *Stack) newLogGroup(id, name string, removal awscdk.RemovalPolicy) awslogs.LogGroup {
	return awslogs.NewLogGroup(s.Stack, &id, &awslogs.LogGroupProps{
		LogGroupName:  s.logGroupName(name),
		EncryptionKey: s.key,
		Retention:     retention[s.props.LogDays],
		RemovalPolicy: removal,
	})
}
