package tidegate

import (
	"slices"
	"strings"

	"github.com/aws/aws-cdk-go/awscdk/v2"
	"github.com/aws/aws-cdk-go/awscdk/v2/awslambda"
	"github.com/aws/aws-cdk-go/awscdk/v2/awss3"
	"github.com/aws/jsii-runtime-go"

	"tidegate/infra/settings"
	"tidegate/internal/config"
)

// parameters are those of a template, which stand for the settings of a stage.
type parameters struct {
	stack   awscdk.Stack
	numbers map[string]awscdk.CfnParameter // by setting
	choices choices
	timeout choice // VALKEY_TIMEOUT is given
	subnets any    // the list of VPC's subnets
	zones   *[]*string
	known   map[string]awscdk.CfnParameter
}

// NewTemplate makes a deployment whose settings are parameters of the stack's template. The
// template needs no bootstrapped account: the functions' code is in a bucket of the
// operator. Data stays when the stack is deleted, and the example APIs, nodes and callers
// of other accounts are left out.
func NewTemplate(stack awscdk.Stack) *Tidegate {
	p := &parameters{stack: stack, numbers: map[string]awscdk.CfnParameter{},
		known: map[string]awscdk.CfnParameter{}}
	return NewTidegate(stack, jsii.String("Default"), p.props())
}

// props adds the parameters, and returns props that refer to them.
func (p *parameters) props() *Props {
	standard := settings.Default("prod")
	bucket := p.text("CodeBucket", nil, `[a-z0-9][a-z0-9.-]{1,61}[a-z0-9]`,
		"Bucket of this region with the functions' zip files")
	prefix := p.text("CodePrefix", jsii.String(""), "",
		"What stands before check.zip in the bucket, such as "+
			"tidegate/v1/arm64/. An update of the code needs another one")
	made := settings.Props{Keep: true, Metrics: true,
		Store: settings.Store{Kind: settings.Serverless, Version: standard.Version, SnapshotDays: 1}}
	made.Stage = p.text("Stage", &standard.Stage, `[a-z]([a-z0-9]|-[a-z0-9]){1,11}`,
		"Name of the deployment, and of its resources: at most 12 characters, no two hyphens in a row")
	made.CIDR = p.text("Cidr", &standard.CIDR, `\d+\.\d+\.\d+\.\d+/20`,
		"Private range of an own network, a /20")
	made.AdminUser = p.text("AdminUser", &standard.AdminUser, `[A-Za-z0-9._@-]{1,64}`,
		"First user of the dashboard, or none")
	made.Internet = p.text("Internet", &standard.Internet, settings.NAT+"|"+settings.IPv6,
		"How JwtJwksUrl, JwtIssuers and OidcIssuer are reached: nat, gateways that cost, or ipv6")
	p.addOptional(&made)
	p.addNumbers(&standard)
	p.addVariables()
	p.addLists()
	p.addChoices()
	p.addRules()
	return &Props{Props: made, template: p, Code: func(function string) awslambda.Code {
		from := awss3.Bucket_FromBucketName(p.stack, jsii.String("CodeOf"+function), &bucket)
		return awslambda.Code_FromBucket(from, jsii.String(prefix+function+".zip"), nil)
	}}
}

// addOptional adds the parameters that may be empty.
func (p *parameters) addOptional(made *settings.Props) {
	for _, o := range []struct {
		setting                  *string
		id, pattern, description string
	}{
		{&made.VPC, "VpcId", `vpc-[0-9a-f]+`, "Network that exists, with SubnetIds that reach S3"},
		{&made.SecurityGroup, "SecurityGroupId", `sg-[0-9a-f]+`, "Group of the functions in VpcId"},
		{&made.Key, "KeyArn", `arn:.+:key/.+`, "KMS key that exists, such as an earlier stack's"},
		{&made.PepperSecret, "PepperSecret", `.+`, "Secret with a pepper that exists, by name or ARN"},
		{&made.ChangesBucket, "ChangesBucket", `.+`,
			"Log of changes of an earlier stack, with its KeyArn and PepperSecret"},
		{&made.AlarmTopic, "AlarmTopic", `arn:.+:sns:.+`, "Topic for the alarms, instead of an own one"},
		{&made.AlarmEmail, "AlarmEmail", `[^@\s]+@[^@\s]+`, "Gets the alarms, once its owner has confirmed"},
		{&made.AdminUsersSecret, "AdminUsersSecret", `.+`, "Secret that holds ADMIN_USERS"},
		{&made.OIDCSecret, "OidcSecret", `.+`, "Secret that holds OIDC_CLIENT_SECRET"},
		{&made.Domain, "DomainName", `.+`, "Own host name of the dashboard, with CertificateArn"},
		{&made.Certificate, "CertificateArn", `arn:.+:acm:.+`, "Certificate of DomainName, in this region"},
		{&made.Crossings, "Crossings", settings.EventBridge, "eventbridge sends events of crossed limits"},
		{&made.URLSecret, "ValkeyUrlSecret", `.+`, "Secret with the VALKEY_URL of a Valkey that exists, " +
			"instead of a cache. Without VpcId nothing is in a network then"},
		{&made.Snapshot, "SnapshotArn", `arn:.+`, "Snapshot of a serverless cache that fills the new one"},
	} {
		*o.setting = p.text(o.id, jsii.String(""), "|"+o.pattern, o.description)
	}
}

// addNumbers adds the parameters of the settings that are numbers.
func (p *parameters) addNumbers(standard *settings.Props) {
	for _, n := range []struct {
		setting     string
		standard    int
		low         int
		description string
	}{
		{"maxStorageGB", standard.MaxStorageGB, 1, "Most memory of the cache"},
		{"maxECPUs", standard.MaxECPUs, 1000, "Most ECPUs a second of the cache"},
		{"snapshotDays", standard.Snapshots(), 1, "How long daily snapshots are kept"},
		{"checkMemory", standard.CheckMemory, 128, "MB"},
		{"adminMemory", standard.AdminMemory, 128, "MB"},
		{"checkConcurrency", standard.CheckConcurrency, 0, "Reserved environments, or 0"},
		{"adminConcurrency", standard.AdminConcurrency, 0, "Reserved environments, or 0"},
		{"logDays", standard.LogDays, 1, "A retention that CloudWatch supports"},
	} {
		p.numbers[n.setting] = p.add(upper(n.setting), &awscdk.CfnParameterProps{Type: jsii.String("Number"),
			Default: n.standard, MinValue: jsii.Number(n.low), Description: &n.description})
	}
}

// addVariables adds a parameter for each variable of the functions that settings may set.
func (p *parameters) addVariables() {
	for _, name := range slices.Concat(config.CheckVariables, config.AdminVariables) {
		id, pattern, description := variableParameter(name), "", "Variable "+name
		if name == "VALKEY_TIMEOUT" { // an alarm divides by it
			pattern, description = `|[1-9]\d*ms`, description+", such as 200ms"
		}
		if _, ours := settings.ByConstruct[name]; !ours && p.known[id] == nil {
			p.text(id, jsii.String(""), pattern, description)
		}
	}
}

func (p *parameters) addLists() {
	p.subnets = p.list("SubnetIds", "At least 2 subnets of VpcId").Value()
	zones := p.list("Zones", "2 zones of an own network, instead of the region's first two")
	some := p.condition("HasZones", awscdk.Fn_ConditionNot(awscdk.Fn_ConditionEquals(
		awscdk.Fn_Join(jsii.String(""), zones.ValueAsList()), jsii.String(""))))
	p.zones = awscdk.Token_AsList(some.value(zones.Value(), awscdk.Fn_GetAzs(nil)), nil)
}

func (p *parameters) add(id string, props *awscdk.CfnParameterProps) awscdk.CfnParameter {
	p.known[id] = awscdk.NewCfnParameter(p.stack, &id, props)
	return p.known[id]
}

// text adds a parameter, which is required without a default.
func (p *parameters) text(id string, standard *string, pattern, description string) string {
	props := &awscdk.CfnParameterProps{Description: &description}
	if standard != nil {
		props.Default = *standard
	}
	if pattern != "" {
		props.AllowedPattern = &pattern
	}
	return *p.add(id, props).ValueAsString()
}

func (p *parameters) list(id, description string) awscdk.CfnParameter {
	return p.add(id, &awscdk.CfnParameterProps{Type: jsii.String("CommaDelimitedList"), Default: "",
		Description: &description})
}

// variable returns the value of a variable of the functions.
func (p *parameters) variable(name string) string {
	return *p.known[variableParameter(name)].ValueAsString()
}

// variableParameter returns the parameter of a variable: JwtIssuer for JWT_ISSUER.
func variableParameter(name string) string {
	id := ""
	for _, word := range strings.Split(strings.ToLower(name), "_") {
		id += upper(word)
	}
	return id
}

func upper(name string) string { return strings.ToUpper(name[:1]) + name[1:] }

func (p *parameters) condition(id string, holds awscdk.ICfnConditionExpression) choice {
	return choice{
		condition: awscdk.NewCfnCondition(p.stack, &id, &awscdk.CfnConditionProps{Expression: holds}),
	}
}

// empty returns the expression that a parameter is empty.
func (p *parameters) empty(id string) awscdk.ICfnConditionExpression {
	return awscdk.Fn_ConditionEquals(p.known[id].Value(), jsii.String(""))
}

// given returns the expression that a parameter is not empty.
func (p *parameters) given(id string) awscdk.ICfnConditionExpression {
	return awscdk.Fn_ConditionNot(p.empty(id))
}

// addChoices adds the conditions, as choose decides.
func (p *parameters) addChoices() {
	zero := func(setting string) awscdk.ICfnConditionExpression {
		return awscdk.Fn_ConditionEquals(p.numbers[setting].Value(), jsii.Number(0))
	}
	and, or, not := awscdk.Fn_ConditionAnd, awscdk.Fn_ConditionOr, awscdk.Fn_ConditionNot
	c := &p.choices
	c.key = p.condition("OwnKey", p.empty("KeyArn"))
	c.pepper = p.condition("OwnPepper", p.empty("PepperSecret"))
	c.changes = p.condition("OwnChanges", p.empty("ChangesBucket"))
	c.topic = p.condition("OwnTopic", p.empty("AlarmTopic"))
	c.mail = p.condition("HasMail", p.given("AlarmEmail"))
	c.password = p.condition("HasPassword", not(awscdk.Fn_ConditionEquals(p.known["AdminUser"].Value(),
		jsii.String(settings.NoUser))))
	c.cache = p.condition("OwnCache", p.empty("ValkeyUrlSecret"))
	c.network = p.condition("OwnNetwork", and(p.empty("VpcId"), c.cache.condition))
	c.inside = p.condition("InNetwork", or(p.given("VpcId"), c.cache.condition))
	c.groups = p.condition("OwnGroups", and(c.inside.condition, p.empty("SecurityGroupId")))
	c.adminAccess = p.condition("AdminGroup", and(c.cache.condition, p.empty("SecurityGroupId")))
	c.restored = p.condition("HasSnapshot", p.given("SnapshotArn"))
	c.checkInternet = p.condition("CheckInternet", or(p.given("JwtJwksUrl"), p.given("JwtIssuers")))
	c.adminInternet = p.condition("AdminInternet", p.given("OidcIssuer"))
	c.ipv6 = p.condition("Ipv6", awscdk.Fn_ConditionEquals(p.known["Internet"].Value(),
		jsii.String(settings.IPv6)))
	internet := p.condition("OwnInternet", and(c.network.condition,
		or(c.checkInternet.condition, c.adminInternet.condition)))
	c.nat = p.condition("Nat", and(internet.condition, not(c.ipv6.condition)))
	c.egressOnly = p.condition("EgressOnly", and(internet.condition, c.ipv6.condition))
	c.domain = p.condition("OwnDomain", p.given("DomainName"))
	c.events = p.condition("HasEvents", p.given("Crossings"))
	c.users = p.condition("HasUsers", p.given("AdminUsersSecret"))
	c.provider = p.condition("HasProvider", p.given("OidcSecret"))
	p.timeout = p.condition("HasTimeout", p.given(variableParameter("VALKEY_TIMEOUT")))
	c.checkReserved = p.condition("CheckReserved", not(zero("checkConcurrency")))
	c.adminReserved = p.condition("AdminReserved", not(zero("adminConcurrency")))
}

// addRules refuses parameters that need others, before anything is made.
func (p *parameters) addRules() {
	for _, r := range [][2]string{{"ChangesBucket", "KeyArn"}, {"ChangesBucket", "PepperSecret"},
		{"SecurityGroupId", "VpcId"}, {"DomainName", "CertificateArn"}, {"OidcIssuer", "OidcSecret"}} {
		awscdk.NewCfnRule(p.stack, jsii.String(r[0]+"Needs"+r[1]), &awscdk.CfnRuleProps{
			RuleCondition: p.given(r[0]),
			Assertions: &[]*awscdk.CfnRuleAssertion{{Assert: p.given(r[1]),
				AssertDescription: jsii.String(r[0] + " needs " + r[1])}},
		})
	}
}
