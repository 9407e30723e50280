package main

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"tidegate/infra/settings"
)

// statements returns the statements of every policy in the template, by the resource's
// id.
func (t template) statements() map[string][]properties {
	found := map[string][]properties{}
	for id, r := range t.Resources {
		var documents []any
		for _, name := range []string{"PolicyDocument", "KeyPolicy", "AssumeRolePolicyDocument"} {
			documents = append(documents, r.Properties[name])
		}
		for _, policy := range list(r.Properties["Policies"]) {
			documents = append(documents, properties(policy.(map[string]any))["PolicyDocument"])
		}
		for _, document := range documents {
			if d, ok := document.(map[string]any); ok {
				for _, statement := range list(d["Statement"]) {
					found[id] = append(found[id], statement.(map[string]any))
				}
			}
		}
	}
	return found
}

// No allowed action is a wildcard. The exception is the account's root on the key,
// without which nobody could change the key's policy.
func TestActionsAreNamed(t *testing.T) {
	on(t, func(t *testing.T, made template) {
		seen := 0
		for id, statements := range made.statements() {
			for _, s := range statements {
				if s["Effect"] == "Deny" {
					continue
				}
				for _, action := range list(s["Action"]) {
					seen++
					root := text(action) == "kms:*" &&
						strings.HasSuffix(text(s.at("Principal", "AWS")), ":root")
					if strings.Contains(text(action), "*") && !root {
						t.Errorf("%s allows %s", id, action)
					}
				}
			}
		}
		if seen < 20 {
			t.Errorf("got %d actions, want at least 20", seen)
		}
	})
}

// Only actions on resources without an ARN are allowed on every resource.
func TestResourcesAreNamed(t *testing.T) {
	nameless := append([]string{"xray:PutTelemetryRecords", "xray:PutTraceSegments"},
		"ec2:AssignPrivateIpAddresses", "ec2:CreateNetworkInterface",
		"ec2:DeleteNetworkInterface", "ec2:DescribeNetworkInterfaces", "ec2:DescribeSubnets",
		"ec2:UnassignPrivateIpAddresses")
	on(t, func(t *testing.T, made template) {
		for id, statements := range made.statements() {
			for _, s := range statements {
				for _, r := range list(s["Resource"]) {
					if text(r) != "*" || made.Resources[id].Type == "AWS::KMS::Key" {
						continue
					}
					for _, action := range list(s["Action"]) {
						if !slices.Contains(nameless, text(action)) {
							t.Errorf("%s: got %s on every resource, want named resources", id, action)
						}
					}
				}
			}
		}
	})
}

// Each function may connect only to the cache and only as its own user. Its code cannot
// use the rights on network interfaces.
func TestRoles(t *testing.T) {
	on(t, func(t *testing.T, made template) {
		kind := "serverlesscache"
		if len(made.all("AWS::ElastiCache::ReplicationGroup")) > 0 {
			kind = "replicationgroup"
		}
		for id, name := range map[string]string{"CheckRole": "check", "AdminRole": "admin"} {
			role := made.only(t, "AWS::IAM::Role", id)
			equal(t, "managed policies", role.Properties["ManagedPolicyArns"], nil)
			stage := strings.TrimPrefix(text(made.only(t, "AWS::ElastiCache::User",
				"CheckUser").Properties["UserName"]), "tidegate-")
			stage = strings.TrimSuffix(stage, "-check")
			arn := "arn:${AWS::Partition}:elasticache:${AWS::Region}:${AWS::AccountId}:"
			var connect []string
			denied := 0
			for _, s := range made.rightsOf(strings.TrimSuffix(id, "Role")) {
				if slices.Contains(list(s["Action"]), any("elasticache:Connect")) {
					for _, r := range list(s["Resource"]) {
						connect = append(connect, text(r))
					}
				}
				if s["Effect"] == "Deny" {
					denied++
					equal(t, "denied to", text(s.at("Condition", "ArnEquals", "lambda:SourceFunctionArn")),
						"arn:${AWS::Partition}:lambda:${AWS::Region}:${AWS::AccountId}:function:tidegate-"+
							stage+"-"+name)
				}
			}
			slices.Sort(connect)
			equal(t, id, connect, []string{arn + kind + ":tidegate-" + stage,
				arn + "user:tidegate-" + stage + "-" + name})
			equal(t, id+" denials", denied, 1)
		}
	})
}

// Only single authorizers and direct callers may invoke the check function. Only the
// functions' logs may invoke the forward function, and only API Gateway the other functions.
// The rule of each minute may invoke the admin function.
func TestPermissions(t *testing.T) {
	on(t, func(t *testing.T, made template) {
		check := "${" + ours(t, made, "Check").id + ".Arn}"
		for _, p := range made.all("AWS::Lambda::Permission") {
			source := text(p.Properties["SourceArn"])
			if strings.HasPrefix(text(p.Properties["FunctionName"]), "${Forwarding") {
				equal(t, p.id+" principal", p.Properties["Principal"], "logs.amazonaws.com")
				own := strings.HasPrefix(source, "${CheckLog") || strings.HasPrefix(source, "${AdminLog")
				equal(t, p.id+" source is a function's log", own, true)
				continue
			}
			if strings.HasPrefix(p.id, "CheckDirectCaller") {
				equal(t, p.id+" principal", p.Properties["Principal"], everything().DirectCallers[0])
				equal(t, p.id+" action", p.Properties["Action"], "lambda:InvokeFunction")
				equal(t, p.id+" function", text(p.Properties["FunctionName"]), check)
				continue
			}
			equal(t, p.id+" action", p.Properties["Action"], "lambda:InvokeFunction")
			if p.Properties["Principal"] == "events.amazonaws.com" {
				equal(t, p.id+" function", text(p.Properties["FunctionName"]),
					"${"+ours(t, made, "Admin").id+".Arn}")
				equal(t, p.id+" source", source, "${"+made.only(t, "AWS::Events::Rule", "Minute").id+".Arn}")
				continue
			}
			equal(t, p.id+" principal", p.Properties["Principal"], "apigateway.amazonaws.com")
			if !strings.Contains(source, ":execute-api:") {
				t.Errorf("%s: got source %q, want an API", p.id, source)
			}
			if text(p.Properties["FunctionName"]) == check &&
				(strings.Contains(source, "*") || !strings.Contains(source, "/authorizers/")) {
				t.Errorf("%s: got source %q, want one authorizer", p.id, source)
			}
		}
	})
	var sources []string
	direct := 0
	for _, p := range of(t, prod).all("AWS::Lambda::Permission") {
		if strings.HasPrefix(p.id, "CheckDirectCaller") {
			direct++
		}
		sources = append(sources, text(p.Properties["SourceArn"]))
	}
	equal(t, "permissions of direct callers", direct, 1)
	if !slices.Contains(sources, everything().Callers[0]) {
		t.Errorf("got sources %q, want the authorizer of another account among them", sources)
	}
}

// The stack's alarms may publish to the topic and use its key, and nothing else may
// publish.
func TestAlarmsMayPublish(t *testing.T) {
	on(t, func(t *testing.T, made template) {
		allowed := 0
		for _, s := range made.statements()[made.only(t, "AWS::SNS::TopicPolicy", "").id] {
			if s["Effect"] != "Allow" {
				continue
			}
			allowed++
			equal(t, "action", s["Action"], "sns:Publish")
			equal(t, "who", s.at("Principal", "Service"), "cloudwatch.amazonaws.com")
			equal(t, "account", text(s.at("Condition", "StringEquals", "aws:SourceAccount")),
				"${AWS::AccountId}")
			source := strings.TrimSuffix(text(s.at("Condition", "ArnLike", "aws:SourceArn")), "*")
			_, prefix, _ := strings.Cut(source, ":alarm:")
			for _, a := range made.all("AWS::CloudWatch::Alarm") {
				if name := text(a.Properties["AlarmName"]); prefix == "" || !strings.HasPrefix(name, prefix) {
					t.Errorf("alarm %s: want a source that matches it, got %s", name, source)
				}
			}
		}
		equal(t, "statements that allow", allowed, 1)
		keyUsers := ""
		for _, s := range made.statements()[made.only(t, "AWS::KMS::Key", "").id] {
			keyUsers += text(s.at("Principal", "Service")) + " "
		}
		if !strings.Contains(keyUsers, "cloudwatch.amazonaws.com ") {
			t.Errorf("got key users %q, want CloudWatch among them", keyUsers)
		}
	})
}

// No security group lets anything in, except the cache's from the functions. Functions
// reach only the cache, unless they call an identity provider.
func TestSecurityGroups(t *testing.T) {
	on(t, func(t *testing.T, made template) {
		serverless := len(made.all("AWS::ElastiCache::ServerlessCache")) > 0
		ports := []any{6379.0}
		if serverless {
			ports = append(ports, 6380.0)
		}
		cache := groupOf(t, made, "CacheGroup")
		for _, group := range made.all("AWS::EC2::SecurityGroup") {
			equal(t, group.id+" ingress", group.Properties["SecurityGroupIngress"], nil)
			for _, rule := range list(group.Properties["SecurityGroupEgress"]) {
				egress(t, group, rule.(map[string]any))
			}
		}
		var seen []string
		for _, rule := range made.all("AWS::EC2::SecurityGroupIngress") {
			p := rule.Properties
			equal(t, rule.id+" group", text(p["GroupId"]), cache)
			equal(t, rule.id+" range", p["CidrIp"], nil)
			seen = append(seen, fmt.Sprint(p["FromPort"]))
			if p["FromPort"] != p["ToPort"] || !slices.Contains(ports, p["FromPort"]) {
				t.Errorf("%s: got ports %v to %v, want one of %v", rule.id, p["FromPort"], p["ToPort"], ports)
			}
		}
		equal(t, "rules", len(seen), 2*len(ports)) // of two functions
	})
}

// egress checks that a rule lets nothing out, except to port 443 from a function that
// needs the internet.
func egress(t *testing.T, group resource, rule properties) {
	t.Helper()
	nothing := rule["CidrIp"] == "255.255.255.255/32"
	https := rule["CidrIp"] == "0.0.0.0/0" && rule["FromPort"] == 443.0 &&
		rule["ToPort"] == 443.0
	ofFunction := strings.Contains(group.id, "CheckGroup") || strings.Contains(group.id, "AdminGroup")
	toCache := strings.Contains(text(rule["DestinationSecurityGroupId"]), "CacheGroup")
	mayAsk := strings.HasPrefix(t.Name(), "TestSecurityGroups/prod") && ofFunction ||
		strings.Contains(group.id, "AdminGroup") // the log of changes in S3
	if !nothing && !toCache && (!https || !mayAsk) {
		t.Errorf("%s: got egress rule %v, want none, or port 443 of admin, or of a function in prod",
			group.id, rule)
	}
}

// withKeysByURL returns a prod stage whose check function reads an issuer's keys.
func withKeysByURL(internet string) settings.Props {
	return with(settings.Default("prod"), func(p *settings.Props) {
		p.Internet = internet
		p.Check = map[string]string{"IDENTITY_SOURCES": "jwt", "JWT_ISSUER": "https://login.example.com",
			"JWT_AUDIENCE": "api", "JWT_JWKS_URL": "https://login.example.com/keys"}
	})
}

// overIPv6 reads an issuer's keys over IPv6.
var overIPv6 = once(withKeysByURL(settings.IPv6))

// An issuer with IPv6 costs no NAT gateway: each subnet has a route to a gateway that lets
// calls out and none in, and a function that needs it may take it.
func TestInternetOverIPv6(t *testing.T) {
	made := of(t, overIPv6)
	gateway := ref(t, made, "AWS::EC2::EgressOnlyInternetGateway", "")
	equal(t, "NAT gateways", len(made.all("AWS::EC2::NatGateway")), 0)
	routes := made.all("AWS::EC2::Route")
	equal(t, "routes", len(routes), 2)
	for _, r := range routes {
		equal(t, "route to", r.Properties["DestinationIpv6CidrBlock"], "::/0")
		equal(t, "route by", text(r.Properties["EgressOnlyInternetGatewayId"]),
			strings.Replace(gateway, "}", ".Id}", 1))
	}
	for _, subnet := range made.all("AWS::EC2::Subnet") {
		if subnet.Properties["Ipv6CidrBlock"] == nil ||
			!strings.Contains(strings.Join(subnet.DependsOn, " "), "Range6") {
			t.Errorf("%s: want a range of IPv6, after the network's", subnet.id)
		}
	}
	equal(t, "check over IPv6", ours(t, made, "Check").Properties.at("VpcConfig", "Ipv6AllowedForDualStack"),
		true)
	equal(t, "check without it",
		ours(t, of(t, minimal), "Check").Properties.at("VpcConfig", "Ipv6AllowedForDualStack"), false)
	rules := string(mustJSON(t, made.only(t, "AWS::EC2::SecurityGroup", "CheckGroup").Properties))
	equal(t, "check may call", strings.Contains(rules, `"CidrIpv6":"::/0"`), true)
	rules = string(mustJSON(t, made.only(t, "AWS::EC2::SecurityGroup", "CacheGroup").Properties))
	equal(t, "the cache may call", strings.Contains(rules, "CidrIpv6"), false)
}

// A stack that does not need the internet has no route to it.
func TestNoEgressByDefault(t *testing.T) {
	kinds := []string{"AWS::EC2::InternetGateway", "AWS::EC2::NatGateway", "AWS::EC2::EIP",
		"AWS::EC2::EgressOnlyInternetGateway", "AWS::EC2::Route"}
	for name, build := range map[string]func() (template, error){"dev": dev, "minimal prod": minimal} {
		for _, kind := range kinds {
			if n := len(of(t, build).all(kind)); n > 0 {
				t.Errorf("%s: got %d of %s, want none", name, n, kind)
			}
		}
	}
	made := of(t, prod)
	equal(t, "NAT gateways for OIDC, one in each zone", len(made.all("AWS::EC2::NatGateway")), 3)
	routes := map[string]int{}
	for _, r := range made.all("AWS::EC2::Route") {
		routes[text(r.Properties["NatGatewayId"])]++
	}
	equal(t, "routes: one to each gateway, one to the internet", len(routes), 4)
}
