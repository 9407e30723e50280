package tidegate

import (
	"fmt"
	"maps"

	"github.com/aws/aws-cdk-go/awscdk/v2"
	"github.com/aws/aws-cdk-go/awscdk/v2/awsiam"
	"github.com/aws/aws-cdk-go/awscdk/v2/awslambda"
	"github.com/aws/aws-cdk-go/awscdk/v2/awslogs"
	"github.com/aws/constructs-go/constructs/v10"
	"github.com/aws/jsii-runtime-go"

	"tidegate/infra/authorizer"
	"tidegate/infra/settings"
	"tidegate/internal/config"
)

// function is one of Tidegate's functions, with what other parts need.
type function struct {
	awslambda.Function
	log awslogs.LogGroup
}

// functionSpec has what differs between the check and the admin function.
type functionSpec struct {
	id, name    string
	description string
	memory      int
	concurrency int
	reserved    choice
	timeout     int // seconds
	group       string
	variables   []string          // that the settings may set
	given       map[string]string // their values
	environment map[string]string // what the construct sets
}

func (t *Tidegate) newFunction(spec functionSpec) *function {
	log := t.logGroup(t.Construct, spec.id+"Log", spec.name, t.removal())
	environment := map[string]string{
		"VALKEY_URL":             t.valkeyURL(spec.name),
		"VALKEY_CONNECT_TIMEOUT": settings.ConnectTimeout.String(),
		"KEY_PEPPER":             t.secrets.pepper,
	}
	maps.Copy(environment, t.variables(spec.variables, spec.given))
	maps.Copy(environment, spec.environment)
	maps.DeleteFunc(environment, func(_, value string) bool { return value == "" })
	tracing := awslambda.Tracing_DISABLED
	if t.props.Tracing {
		tracing = awslambda.Tracing_ACTIVE
	}
	role := t.role(spec.id, spec.name, log)
	f := awslambda.NewFunction(t.Construct, &spec.id, &awslambda.FunctionProps{
		FunctionName:          jsii.String(t.functionName(spec.name)),
		Description:           &spec.description,
		Runtime:               awslambda.Runtime_PROVIDED_AL2023(),
		Architecture:          awslambda.Architecture_ARM_64(),
		Handler:               jsii.String("bootstrap"),
		Code:                  t.props.Code(spec.name),
		MemorySize:            t.number(spec.name+"Memory", spec.memory),
		Timeout:               awscdk.Duration_Seconds(jsii.Number(spec.timeout)),
		Role:                  role,
		Environment:           texts(environment),
		EnvironmentEncryption: t.key,
		Tracing:               tracing,
		LogGroup:              log,
		// Lambda's own log lines of every call would cost more than the check itself.
		// LOG_LEVEL sets the function's level. A level here would treat metrics lines,
		// which have no level, as INFO.
		LoggingFormat:         awslambda.LoggingFormat_JSON,
		SystemLogLevelV2:      awslambda.SystemLogLevel_WARN,
		ApplicationLogLevelV2: awslambda.ApplicationLogLevel_TRACE,
	})
	if spec.reserved.maybe() {
		set(f, "ReservedConcurrentExecutions", spec.reserved.value(
			t.number(spec.name+"Concurrency", spec.concurrency), awscdk.Aws_NO_VALUE()))
	}
	t.allowConnect(spec.id, spec.name, role)
	if t.choices.inside.maybe() {
		set(f, "VpcConfig", t.choices.inside.value(map[string]any{"SubnetIds": t.network.subnets,
			"SecurityGroupIds":        []string{spec.group},
			"Ipv6AllowedForDualStack": t.choices.ipv6.value(true, false)}, awscdk.Aws_NO_VALUE()))
	}
	return &function{Function: f, log: log}
}

// set sets a property of a construct's resource.
func set(construct constructs.Construct, property string, value any) {
	resource, ok := construct.Node().DefaultChild().(awscdk.CfnResource)
	if !ok {
		panic(*construct.Node().Path() + " has no resource")
	}
	resource.AddPropertyOverride(&property, value)
}

// variables returns the variables that the settings set. In a template each is a
// parameter, whose empty default is the function's own.
func (t *Tidegate) variables(known []string, given map[string]string) map[string]string {
	if t.props.template == nil {
		return given
	}
	all := map[string]string{}
	for _, name := range known {
		if _, ours := settings.ByConstruct[name]; !ours {
			all[name] = t.props.template.variable(name)
		}
	}
	return all
}

func (t *Tidegate) functionName(name string) string { return t.props.Name() + "-" + name }

// role creates the role of a function, which may write its log. Lambda needs the other
// rights to attach it to a network. They are denied to the function's own code, so that
// only Lambda itself can use them.
func (t *Tidegate) role(id, name string, log awslogs.LogGroup) awsiam.Role {
	var rights []awsiam.PolicyStatement
	if t.choices.inside.maybe() {
		deny := awsiam.NewPolicyStatement(&awsiam.PolicyStatementProps{
			Sid: jsii.String("NotByTheFunction"), Effect: awsiam.Effect_DENY, Actions: networkActions(),
			Resources: jsii.Strings("*"),
		})
		deny.AddCondition(jsii.String("ArnEquals"),
			map[string]any{"lambda:SourceFunctionArn": t.arn("lambda", "function", t.functionName(name))})
		rights = append(rights, statement("Network", networkActions(), jsii.Strings("*")), deny)
	}
	return workRole(t.Construct, id, name, log, rights...)
}

// workRole creates a role with rights, which may also write a log.
func workRole(scope constructs.Construct, id, name string, log awslogs.LogGroup,
	rights ...awsiam.PolicyStatement) awsiam.Role {
	rights = append([]awsiam.PolicyStatement{statement("Log", jsii.Strings("logs:CreateLogStream",
		"logs:PutLogEvents"), &[]*string{log.LogGroupArn()})}, rights...)
	return awsiam.NewRole(scope, jsii.String(id+"Role"), &awsiam.RoleProps{
		AssumedBy:   awsiam.NewServicePrincipal(jsii.String("lambda.amazonaws.com"), nil),
		Description: jsii.String("What Tidegate's " + name + " function may do"),
		InlinePolicies: &map[string]awsiam.PolicyDocument{
			"Work": awsiam.NewPolicyDocument(&awsiam.PolicyDocumentProps{Statements: &rights})},
	})
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

// newCheck creates the authorizer's function. API Gateway may invoke it only for
// authorizers with a permission of their own.
func (t *Tidegate) newCheck() *function {
	environment := map[string]string{"HTTP_API_RESPONSE": "simple"} // as authorizers use them
	if t.props.Metrics {
		environment["STAGE"] = t.props.Stage // without STAGE the function writes no metrics
	}
	return t.newFunction(functionSpec{
		id: "Check", name: "check",
		description: "Tidegate's authorizer: one sliding-window step per API call",
		memory:      t.props.CheckMemory, concurrency: t.props.CheckConcurrency,
		reserved: t.choices.checkReserved, timeout: settings.CheckTimeout, group: t.network.check,
		variables: config.CheckVariables, given: t.props.Check, environment: environment,
	})
}

// allowCallers lets the authorizers of other stacks and accounts invoke the check function,
// and roles and users make direct calls.
func (t *Tidegate) allowCallers() {
	for i, caller := range t.props.Callers {
		id := fmt.Sprintf("Caller%d", i+1)
		if err := authorizer.Allow(t.check, &id, caller); err != nil {
			panic(fmt.Errorf("callers=%s: %w", caller, err))
		}
	}
	for i, caller := range t.props.DirectCallers {
		t.check.AddPermission(jsii.String(fmt.Sprintf("DirectCaller%d", i+1)), &awslambda.Permission{
			Principal: awsiam.NewArnPrincipal(&caller), Action: jsii.String("lambda:InvokeFunction")})
	}
}

// adminTimeout is the time-out of the admin function in seconds. An HTTP API waits for at
// most 30.
const adminTimeout = 25

// newAdmin creates the dashboard's function.
func (t *Tidegate) newAdmin() *function {
	p := t.props
	environment := map[string]string{
		"STAGE": p.Stage, "ADMIN_URL": t.api.address, "CHANGES_LOG": t.ChangesLog,
		"FOREIGN_KEYS": p.Check["FOREIGN_KEYS"], "TRUSTED_PROXIES": p.Check["TRUSTED_PROXIES"],
	}
	if p.template != nil {
		delete(environment, "FOREIGN_KEYS") // one parameter sets both functions'
		delete(environment, "TRUSTED_PROXIES")
	}
	if t.choices.password.maybe() {
		environment["ADMIN_USER"] = t.choices.password.text(p.AdminUser, "")
		environment["ADMIN_PASSWORD"] = t.choices.password.text(t.secrets.password, "")
	}
	if t.choices.users.maybe() {
		environment["ADMIN_USERS"] = t.choices.users.text(resolve(p.AdminUsersSecret), "")
	}
	if t.choices.provider.maybe() {
		environment["OIDC_CLIENT_SECRET"] = t.choices.provider.text(resolve(p.OIDCSecret), "")
	}
	return t.newFunction(functionSpec{
		id: "Admin", name: "admin", description: "Tidegate's dashboard",
		memory: p.AdminMemory, concurrency: p.AdminConcurrency, reserved: t.choices.adminReserved,
		timeout: adminTimeout, group: t.network.admin,
		variables: config.AdminVariables, given: p.Admin, environment: environment,
	})
}

func (t *Tidegate) logGroupName(name string) *string {
	return jsii.String("/tidegate/" + t.props.Stage + "/" + name)
}

// logGroup creates an encrypted log group.
func (t *Tidegate) logGroup(scope constructs.Construct, id, name string,
	removal awscdk.RemovalPolicy) awslogs.LogGroup {
	group := awslogs.NewLogGroup(scope, &id, &awslogs.LogGroupProps{
		LogGroupName: t.logGroupName(name), EncryptionKey: t.key, RemovalPolicy: removal,
	})
	set(group, "RetentionInDays", t.number("logDays", t.props.LogDays))
	return group
}
