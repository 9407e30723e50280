// Package tidegate is the construct of a deployment: the cache, both functions, the
// dashboard's API, secrets and alarms. It takes what exists, such as a network or a Valkey,
// and makes the rest.
//
//	props := settings.Default("prod")
//	props.VPC, props.Subnets = *vpc.VpcId(), subnets
//	limits := tidegate.NewTidegate(stack, jsii.String("Tidegate"),
//		&tidegate.Props{Props: props, Code: code})
//
// Package authorizer attaches limits.Check to an API.
package tidegate

import (
	"fmt"
	"maps"
	"slices"

	"github.com/aws/aws-cdk-go/awscdk/v2"
	"github.com/aws/aws-cdk-go/awscdk/v2/awskms"
	"github.com/aws/aws-cdk-go/awscdk/v2/awslambda"
	"github.com/aws/constructs-go/constructs/v10"
	"github.com/aws/jsii-runtime-go"

	"tidegate/infra/settings"
)

// Props are the settings of a deployment, as settings.Default returns them, and its code.
type Props struct {
	settings.Props
	// Code returns the zip of a function: check, admin or forward.
	Code func(function string) awslambda.Code

	// template has the parameters of a template; nil where the props are the values.
	template *parameters
}

// Tidegate is one deployment.
type Tidegate struct {
	constructs.Construct
	// Check is the authorizer's function, and Admin the dashboard's.
	Check, Admin awslambda.Function
	// DashboardURL ends in a slash. DashboardTarget is what Domain must point to; "" without.
	DashboardURL, DashboardTarget string
	// FirstLogin is a command that prints the first password; "" without a first user.
	FirstLogin string
	// ChangesLog is the address of the log of changes.
	ChangesLog string
	// AlarmTopic and CrossingsTarget are ARNs; CrossingsTarget may be "".
	AlarmTopic, CrossingsTarget string
	props                       Props
	choices                     choices
	parts                       []part

	keyARN  string
	key     awskms.IKey
	network *network
	store   *store
	secrets *secrets
	check   *function
	admin   *function
	api     *dashboard
	log     *changesLog
	forward *forward // nil for none
}

// NewTidegate makes a deployment. Synthesis fails for props that are not valid.
func NewTidegate(scope constructs.Construct, id *string, props *Props) *Tidegate {
	t := &Tidegate{Construct: constructs.NewConstruct(scope, id), props: *props}
	if props.template != nil {
		t.choices = props.template.choices
	} else {
		if err := props.Validate(); err != nil {
			panic(fmt.Errorf("%s: %w", *t.Node().Path(), err))
		}
		t.choices = choose(&props.Props)
	}
	Tag(t.Construct, &t.props.Props)
	t.newKey()
	t.network = t.newNetwork()
	t.newSecrets()
	t.store = t.newStore()
	t.log = t.newChangesLog()
	t.check = t.newCheck()
	t.api = t.newDashboard()
	t.admin = t.newAdmin()
	t.Check, t.Admin = t.check.Function, t.admin.Function
	t.log.grantAccess(t)
	t.scheduleMinute()
	t.newForward()
	t.routeDashboard()
	t.allowCallers()
	t.newAlarms()
	t.setConditions()
	return t
}

// Tag adds the tags of the settings to every resource of a scope that can have tags.
func Tag(scope constructs.Construct, p *settings.Props) {
	tags := awscdk.Tags_Of(scope)
	tags.Add(jsii.String("Application"), jsii.String("Tidegate"), nil)
	tags.Add(jsii.String("Stage"), &p.Stage, nil)
	for _, name := range slices.Sorted(maps.Keys(p.Tags)) {
		tags.Add(&name, jsii.String(p.Tags[name]), nil)
	}
}

// removal returns the policy for resources with data when the stack is deleted. After a
// failed first deployment they are deleted in any case, so that the next attempt can use
// their names.
func (t *Tidegate) removal() awscdk.RemovalPolicy {
	if t.props.Keep {
		return awscdk.RemovalPolicy_RETAIN_ON_UPDATE_OR_DELETE
	}
	return awscdk.RemovalPolicy_DESTROY
}

// arn returns the ARN of a resource whose name stands behind a colon.
func (t *Tidegate) arn(service, kind, name string) *string {
	return t.stack().FormatArn(&awscdk.ArnComponents{Service: &service, Resource: &kind,
		ResourceName: &name, ArnFormat: awscdk.ArnFormat_COLON_RESOURCE_NAME})
}

func (t *Tidegate) stack() awscdk.Stack { return awscdk.Stack_Of(t.Construct) }

// choice is whether a part is made. It is known at synthesis, or a condition of a template.
type choice struct {
	made      bool
	condition awscdk.CfnCondition // nil if known
}

// maybe reports whether the part is made, or may be.
func (c choice) maybe() bool { return c.made || c.condition != nil }

// value returns own if the part is made, and otherwise other.
func (c choice) value(own, other any) any {
	switch {
	case c.condition != nil:
		return awscdk.Fn_ConditionIf(c.condition.LogicalId(), own, other)
	case c.made:
		return own
	}
	return other
}

// text returns own if the part is made, and otherwise other.
func (c choice) text(own, other string) string {
	if c.condition != nil {
		return *awscdk.Fn_ConditionIf(c.condition.LogicalId(), own, other).ToString()
	}
	if c.made {
		return own
	}
	return other
}

// choices are the parts that a deployment may lack.
type choices struct {
	key, pepper, changes, topic, mail, password choice
	// network is an own one, inside any. groups are own security groups of the functions.
	// adminAccess lets the admin function's own group into an own cache.
	network, inside, groups, adminAccess choice
	// cache is an own one, and restored one from a snapshot.
	cache, restored choice
	// checkInternet and adminInternet let a function reach the internet, with ipv6 over
	// IPv6 too. An own network then has nat gateways or an egressOnly one.
	checkInternet, adminInternet, ipv6, nat, egressOnly choice
	domain, events                                      choice
	users, provider                                     choice // secrets of the operator
	checkReserved, adminReserved                        choice
}

// choose returns the choices of props that are values.
func choose(p *settings.Props) choices {
	known := func(made bool) choice { return choice{made: made} }
	check, admin := p.Egress()
	return choices{
		key: known(p.Key == ""), pepper: known(p.PepperSecret == ""), changes: known(p.ChangesBucket == ""),
		topic: known(p.AlarmTopic == ""), mail: known(p.AlarmEmail != ""),
		password: known(p.AdminUser != settings.NoUser),
		network:  known(p.OwnNetwork()), inside: known(p.Inside()),
		groups:      known(p.Inside() && p.SecurityGroup == ""),
		adminAccess: known(p.Kind != settings.URL && p.SecurityGroup == ""),
		cache:       known(p.Kind != settings.URL), restored: known(p.Snapshot != ""),
		checkInternet: known(check), adminInternet: known(admin), ipv6: known(p.Internet == settings.IPv6),
		nat: known(p.Gateways() > 0), egressOnly: known(p.OwnInternet() && p.Internet == settings.IPv6),
		domain: known(p.Domain != ""), events: known(p.Crossings != ""),
		users: known(p.AdminUsersSecret != ""), provider: known(p.OIDCSecret != ""),
		checkReserved: known(p.CheckConcurrency > 0), adminReserved: known(p.AdminConcurrency > 0),
	}
}

// part is a scope whose resources are made on a condition.
type part struct {
	scope     constructs.Construct
	condition awscdk.CfnCondition
}

// part returns a scope for the resources of a choice.
func (t *Tidegate) part(id string, c choice) constructs.Construct {
	scope := constructs.NewConstruct(t.Construct, &id)
	if c.condition != nil {
		t.parts = append(t.parts, part{scope, c.condition})
	}
	return scope
}

func (t *Tidegate) setConditions() {
	for _, p := range t.parts {
		for _, node := range *p.scope.Node().FindAll(constructs.ConstructOrder_PREORDER) {
			if resource, ok := node.(awscdk.CfnResource); ok {
				resource.CfnOptions().SetCondition(p.condition)
			}
		}
	}
}

// number returns a number of the props, or its parameter.
func (t *Tidegate) number(name string, value int) *float64 {
	if t.props.template != nil {
		return t.props.template.numbers[name].ValueAsNumber()
	}
	return jsii.Number(value)
}

// numeral returns the same number for a text.
func (t *Tidegate) numeral(name string, value int) string {
	if t.props.template != nil {
		return *t.props.template.numbers[name].ValueAsString()
	}
	return fmt.Sprint(value)
}

// texts returns a map of pointers, which the CDK takes.
func texts(values map[string]string) *map[string]*string {
	all := map[string]*string{}
	for name, value := range values {
		all[name] = &value
	}
	return &all
}

func anys(list []string) *[]any {
	var all []any
	for _, item := range list {
		all = append(all, item)
	}
	return &all
}

// AddOutputs adds the outputs that an operator needs after a deployment to the stack.
func (t *Tidegate) AddOutputs() {
	t.output("DashboardUrl", t.DashboardURL, "The dashboard", choice{made: true})
	t.output("DashboardTarget", t.DashboardTarget, "Point the dashboard's host name at this one",
		t.choices.domain)
	t.output("FirstLogin", t.FirstLogin, "Prints the password of the first user", t.choices.password)
	t.output("CheckFunctionArn", *t.Check.FunctionArn(),
		"The authorizer's function, for APIs of other stacks and accounts", choice{made: true})
	t.output("CheckSecurityGroup", t.network.own.check, "The check function's own group", t.choices.groups)
	t.output("AdminSecurityGroup", t.network.own.admin, "The admin function's own group", t.choices.groups)
	t.output("ChangesLog", t.ChangesLog, "The log of changes, which has all keys and policies",
		choice{made: true})
	t.output("EncryptionKey", t.keyARN, "Encrypts all data", choice{made: true})
	t.output("CrossingsTarget", t.CrossingsTarget, "Crossed limits are sent here", t.choices.events)
	t.output("AlarmTopicArn", t.AlarmTopic, "Alarms are published here", choice{made: true})
}

func (t *Tidegate) output(id, value, description string, made choice) {
	if made.maybe() {
		output := awscdk.NewCfnOutput(t.stack(), &id,
			&awscdk.CfnOutputProps{Value: &value, Description: &description})
		if made.condition != nil {
			output.SetCondition(made.condition)
		}
	}
}
