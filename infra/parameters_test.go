package main

import (
	"encoding/json"
	"fmt"
	"maps"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"tidegate/infra/settings"
)

// resolver replaces parameters and conditions of a template by what CloudFormation makes
// of them.
type resolver struct {
	conditions map[string]any
	parameters map[string]any
}

// resolved returns the published template as CloudFormation reads it with parameters.
func resolved(t *testing.T, parameters map[string]any) template {
	t.Helper()
	var raw struct {
		Conditions map[string]any
		Resources  map[string]struct{ Condition string }
	}
	if err := json.Unmarshal(of(t, published).text, &raw); err != nil {
		t.Fatal(err)
	}
	r := resolver{raw.Conditions, map[string]any{}}
	for id, p := range of(t, published).Parameters {
		r.parameters[id] = p["Default"]
	}
	maps.Copy(r.parameters, parameters)
	made := template{Resources: map[string]resource{}}
	for id, res := range of(t, published).Resources {
		if c := raw.Resources[id].Condition; c != "" && !r.holds(map[string]any{"Condition": c}) {
			continue
		}
		res.Properties, _ = r.value(map[string]any(res.Properties)).(map[string]any)
		made.Resources[id] = res
	}
	made.text = mustJSON(t, made.Resources)
	return made
}

func (r *resolver) holds(expression any) bool {
	for name, argument := range expression.(map[string]any) {
		list, _ := argument.([]any)
		holds := func(item any) bool { return r.holds(item) }
		switch name {
		case "Condition":
			return r.holds(r.conditions[argument.(string)])
		case "Fn::Equals":
			return fmt.Sprint(r.value(list[0])) == fmt.Sprint(r.value(list[1]))
		case "Fn::Not":
			return !holds(list[0])
		case "Fn::And":
			return !slices.ContainsFunc(list, func(item any) bool { return !holds(item) })
		case "Fn::Or":
			return slices.ContainsFunc(list, holds)
		}
	}
	panic(fmt.Sprint("unknown condition ", expression))
}

// nothing is the value of AWS::NoValue.
type nothing struct{}

func (r *resolver) value(value any) any {
	switch v := value.(type) {
	case []any:
		list := []any{}
		for _, item := range v {
			if item = r.value(item); item != (nothing{}) {
				list = append(list, item)
			}
		}
		return list
	case map[string]any:
		if ref, ok := v["Ref"].(string); ok && ref == "AWS::NoValue" {
			return nothing{}
		} else if p, known := r.parameters[ref]; ok && known {
			return p
		}
		if choice, ok := v["Fn::If"].([]any); ok {
			if r.holds(map[string]any{"Condition": choice[0]}) {
				return r.value(choice[1])
			}
			return r.value(choice[2])
		}
		all := map[string]any{}
		for name, item := range v {
			if item = r.value(item); item != (nothing{}) {
				all[name] = item
			}
		}
		if join, ok := all["Fn::Join"].([]any); ok {
			return joined(join)
		}
		if split, ok := all["Fn::Split"].([]any); ok {
			if whole, ok := split[1].(string); ok {
				return strings.Split(whole, split[0].(string))
			}
		}
		if choice, ok := all["Fn::Select"].([]any); ok {
			if items, ok := choice[1].([]string); ok {
				return items[0]
			}
		}
		return all
	}
	return value
}

// joined joins what is text, as the CDK does with values that it knows.
func joined(join []any) any {
	separator := join[0].(string)
	items, ok := join[1].([]any)
	if !ok {
		return map[string]any{"Fn::Join": join}
	}
	var parts []any
	for _, item := range items {
		if number, ok := item.(float64); ok {
			item = fmt.Sprint(int(number))
		}
		last, ok := "", len(parts) > 0
		if ok {
			last, ok = parts[len(parts)-1].(string)
		}
		if text, is := item.(string); is && ok {
			parts[len(parts)-1] = last + separator + text
		} else {
			parts = append(parts, item)
		}
	}
	if text, ok := parts[0].(string); ok && len(parts) == 1 {
		return text
	}
	return map[string]any{"Fn::Join": []any{separator, parts}}
}

// bare are the parameters without a default.
var bare = map[string]any{"CodeBucket": "code"}

// The published template with its defaults is the stack of stage prod.
func TestTemplateIsTheApp(t *testing.T) {
	got, want := resolved(t, bare), of(t, minimal)
	sameIDs(t, got, want)
	for id, r := range want.Resources {
		a, b := got.Resources[id].Properties, r.Properties
		if strings.Contains(id, "AllowEventRule") {
			continue // its id has the stack's
		}
		for _, p := range []properties{a, b} {
			delete(p, "Code")
			delete(p, "AvailabilityZone")
			delete(p, "CidrBlock")
			if set, ok := p.at("Environment", "Variables").(map[string]any); ok {
				maps.DeleteFunc(set, func(_ string, value any) bool { return value == "" })
			}
		}
		if !reflect.DeepEqual(numbersAsText(t, a), numbersAsText(t, b)) {
			t.Errorf("%s: the template has\n%s\nwant\n%s", id, mustJSON(t, a), mustJSON(t, b))
		}
	}
}

// sameIDs checks that two templates have the same resources.
func sameIDs(t *testing.T, got, want template) {
	t.Helper()
	ids := func(made template) string {
		return regexp.MustCompile(`AllowEventRule\w+`).
			ReplaceAllString(strings.Join(sorted(made.Resources), "\n"), "")
	}
	if diff := cmp.Diff(ids(want), ids(got)); diff != "" {
		t.Errorf("resources (-app +template):\n%s", diff)
	}
}

// numbersAsText returns properties with numbers as text: CloudFormation converts between them.
func numbersAsText(t *testing.T, p properties) string {
	t.Helper()
	return regexp.MustCompile(`"(-?\d+)"`).ReplaceAllString(string(mustJSON(t, p)), "$1")
}

// kept has parameters of what an earlier stack kept, or what an account has.
var kept = map[string]any{
	"KeyArn":        "arn:aws:kms:eu-west-1:111122223333:key/0a1b2c3d-0a1b-0a1b-0a1b-0a1b2c3d4e5f",
	"PepperSecret":  "tidegate-prod/pepper",
	"ChangesBucket": "tidegate-prod-changes",
	"SnapshotArn":   "arn:a",
	"AlarmTopic":    "arn:aws:sns:eu-west-1:111122223333:a",
}

// A deployment takes what exists, and makes the rest. The construct and the template agree.
func TestTakesWhatExists(t *testing.T) {
	network := map[string]any{
		"VpcId":     "vpc-0a1b2c3d",
		"SubnetIds": []any{"subnet-0a1b2c3d", "subnet-1a1b2c3d"},
	}
	for name, c := range map[string]struct {
		parameters map[string]any
		props      settings.Props
		without    []string // types that are not made
		variables  map[string]string
	}{
		"kept": {kept, with(settings.Default("prod"), func(p *settings.Props) {
			p.Key, p.PepperSecret, p.ChangesBucket = kept["KeyArn"].(string), "tidegate-prod/pepper",
				"tidegate-prod-changes"
			p.Snapshot, p.AlarmTopic = kept["SnapshotArn"].(string), kept["AlarmTopic"].(string)
			p.Snapshot = "arn:aws:elasticache:eu-west-1:111122223333:serverlesscachesnapshot:a"
		}), []string{"AWS::KMS::Key", "AWS::S3::Bucket", "AWS::SNS::Topic"},
			map[string]string{
				"KEY_PEPPER": "{{resolve:secretsmanager:tidegate-prod/pepper:SecretString:::}}"}},
		"network": {network, with(settings.Default("prod"), func(p *settings.Props) {
			p.VPC, p.Subnets = "vpc-0a1b2c3d", []string{"subnet-0a1b2c3d", "subnet-1a1b2c3d"}
		}), []string{"AWS::EC2::VPC", "AWS::EC2::Subnet", "AWS::EC2::VPCEndpoint"}, nil},
		"group": {with2(network, "SecurityGroupId", "sg-0a1b2c3d"), with(settings.Default("prod"),
			func(p *settings.Props) {
				p.VPC, p.Subnets = "vpc-0a1b2c3d", []string{"subnet-0a1b2c3d", "subnet-1a1b2c3d"}
				p.SecurityGroup = "sg-0a1b2c3d"
			}), []string{"AWS::EC2::VPC"}, nil},
		"Valkey in a network": {with2(network, "ValkeyUrlSecret", "valkey"), with(settings.Default("prod"),
			func(p *settings.Props) {
				p.VPC, p.Subnets = "vpc-0a1b2c3d", []string{"subnet-0a1b2c3d", "subnet-1a1b2c3d"}
				p.Kind, p.URLSecret = settings.URL, "valkey"
			}), []string{"AWS::ElastiCache::ServerlessCache", "AWS::ElastiCache::User",
			"AWS::EC2::SecurityGroupIngress"},
			map[string]string{"VALKEY_URL": "{{resolve:secretsmanager:valkey:SecretString:::}}"}},
		"Valkey without a network": {map[string]any{"ValkeyUrlSecret": "valkey"},
			with(settings.Default("prod"), func(p *settings.Props) {
				p.Kind, p.URLSecret = settings.URL,
					"valkey"
			}),
			[]string{"AWS::ElastiCache::UserGroup", "AWS::EC2::VPC", "AWS::EC2::SecurityGroup",
				"AWS::EC2::VPCEndpoint",
				"AWS::EC2::Subnet"},
			map[string]string{"VALKEY_URL": "{{resolve:secretsmanager:valkey:SecretString:::}}"}},
	} {
		t.Run(name, func(t *testing.T) {
			parameters := maps.Clone(bare)
			maps.Copy(parameters, c.parameters)
			published, app := resolved(t, parameters), of(t, once(c.props))
			sameIDs(t, published, app)
			for _, made := range []template{published, app} {
				for _, kind := range c.without {
					equal(t, kind, len(made.all(kind)), 0)
				}
				for variable, want := range c.variables {
					equal(t, variable, text(environment(t, made, "Check")[variable]), want)
				}
				inside := ours(t, made, "Check").Properties["VpcConfig"] != nil
				equal(t, "in a network", inside, name != "Valkey without a network")
				connects := slices.ContainsFunc(made.rightsOf("Check"), func(s properties) bool {
					return names(s["Action"], "elasticache:Connect")
				})
				equal(t, "logs in by IAM", connects, !strings.HasPrefix(name, "Valkey"))
				alarms := slices.ContainsFunc(made.all("AWS::CloudWatch::Alarm"),
					func(a resource) bool { return strings.Contains(a.id, "CacheMemory") })
				equal(t, "alarms of a cache", alarms, !strings.HasPrefix(name, "Valkey"))
				noDangling(t, made)
			}
			if name == "group" {
				rules := published.all("AWS::EC2::SecurityGroupIngress")
				equal(t, "rules of one group", len(rules), 2)
				equal(t, "source", text(rules[0].Properties["SourceSecurityGroupId"]), "sg-0a1b2c3d")
			}
		})
	}
}

// with2 returns parameters with one more.
func with2(parameters map[string]any, name string, value any) map[string]any {
	all := maps.Clone(parameters)
	all[name] = value
	return all
}

var reference = regexp.MustCompile(`"(?:Ref":"|Fn::GetAtt":\[")([A-Za-z0-9]+)"`)

// noDangling checks that a template refers only to resources that it makes.
func noDangling(t *testing.T, made template) {
	t.Helper()
	for id, r := range made.Resources {
		for _, match := range reference.FindAllStringSubmatch(string(mustJSON(t, r.Properties)), -1) {
			if _, ok := made.Resources[match[1]]; !ok && match[1] != "BootstrapVersion" {
				t.Errorf("%s refers to %s, which is not made", id, match[1])
			}
		}
		for _, other := range r.DependsOn {
			if _, ok := made.Resources[other]; !ok {
				t.Errorf("%s depends on %s, which is not made", id, other)
			}
		}
	}
}

// A function that calls a provider gets a way to the internet in an own network, and the
// other stays without.
func TestTemplateInternet(t *testing.T) {
	for parameter, groups := range map[string][2]string{"OidcIssuer": {"AdminGroup", "CheckGroup"},
		"JwtJwksUrl": {"CheckGroup", ""}} {
		made := resolved(t, with2(bare, parameter, "https://login.example.com"))
		equal(t, parameter+" NAT gateways", len(made.all("AWS::EC2::NatGateway")), 2)
		for i, group := range groups {
			if group == "" {
				continue
			}
			rules := string(mustJSON(t, made.only(t, "AWS::EC2::SecurityGroup", group).Properties))
			equal(t, parameter+" "+group, strings.Contains(rules, `"FromPort":443`), i == 0)
		}
	}
}

// An alarm on slow checks follows the time that the function waits for the cache.
func TestSlowChecksFollowTheTimeout(t *testing.T) {
	app := of(t, prod) // VALKEY_TIMEOUT is 200ms
	for name, c := range map[string]struct {
		made template
		want string
	}{"app": {app, "100*used/(1.5*200)"}, "default": {resolved(t, bare), "100*used/(1.5*100)"},
		"parameter": {resolved(t, with2(bare, "ValkeyTimeout", "250ms")), "100*used/(1.5*250)"}} {
		queries := list(c.made.only(t, "AWS::CloudWatch::Alarm", "AlarmCheckSlow").Properties["Metrics"])
		expressions := ""
		for _, query := range queries {
			expressions += text(query.(map[string]any)["Expression"])
		}
		equal(t, name, expressions, c.want)
	}
}

// The template reaches an issuer over IPv6 as the app does.
func TestTemplateInternetOverIPv6(t *testing.T) {
	parameters := with2(bare, "JwtJwksUrl", "https://login.example.com/keys")
	made := resolved(t, with2(parameters, "Internet", "ipv6"))
	app := of(t, overIPv6)
	sameIDs(t, made, app)
	for _, kind := range []string{"AWS::EC2::SecurityGroup", "AWS::EC2::Route", "AWS::EC2::RouteTable"} {
		for _, r := range app.all(kind) {
			equal(t, r.id, numbersAsText(t, made.Resources[r.id].Properties), numbersAsText(t, r.Properties))
		}
	}
	equal(t, "function", ours(t, made, "Check").Properties.at("VpcConfig", "Ipv6AllowedForDualStack"), true)
	noDangling(t, made)
}

// The template has the quotas of CloudFormation, and every parameter says what it is.
func TestTemplateParameters(t *testing.T) {
	made := of(t, published)
	if len(made.text) > 1_000_000 || len(made.Parameters) > 200 {
		t.Errorf("got %d bytes and %d parameters", len(made.text), len(made.Parameters))
	}
	for id, p := range made.Parameters {
		if p["Description"] == nil || !strings.Contains(string(made.text), `{"Ref":"`+id+`"}`) {
			t.Errorf("%s: got %v, want a description and a use", id, p)
		}
	}
	equal(t, "assets of a bootstrapped account", strings.Contains(string(made.text), "cdk-"), false)
}
