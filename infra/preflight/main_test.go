package main

import (
	"context"
	"errors"
	"net"
	"path/filepath"
	"strings"
	"testing"

	"tidegate/infra/settings"
)

// account answers commands of the AWS CLI by their first words.
type account map[string]string

func (a account) command(_ context.Context, args ...string) ([]byte, error) {
	answer, ok := a[args[0]+" "+args[1]]
	if code := args[len(args)-1]; args[0] == "service-quotas" && code == "Quota.Value" {
		answer, ok = a[args[5]], true
	}
	if !ok || strings.HasPrefix(answer, "error ") {
		return nil, errors.New(answer)
	}
	return []byte(answer), nil
}

// empty is an account on which every stage can be deployed, with changes.
func empty(changes ...string) account {
	a := account{
		"sts get-caller-identity":                 `{}`,
		"ssm get-parameter":                       `"30"`,
		"cloudformation describe-stacks":          "error Stack with id tidegate-prod does not exist",
		"secretsmanager list-secrets":             `[]`,
		"logs describe-log-groups":                `[]`,
		"elasticache describe-users":              `[]`,
		"elasticache describe-user-groups":        `[]`,
		"elasticache describe-serverless-caches":  `[]`,
		"elasticache describe-replication-groups": `[]`,
		"lambda get-account-settings":             `1000`,
		"ec2 describe-availability-zones": `[{"ZoneName":"us-east-1a","ZoneID":"use1-az1"},` +
			`{"ZoneName":"us-east-1b","ZoneID":"use1-az2"},{"ZoneName":"us-east-1c","ZoneID":"use1-az3"}]`,
		"L-F678F1CE":             `5.0`,
		"ec2 describe-vpcs":      `1`,
		"L-0263D0A3":             `5.0`,
		"ec2 describe-addresses": `0`,
		"lambda list-functions":  `[]`,
		"L-45FE3B85":             `5.0`,
		"ec2 describe-egress-only-internet-gateways": `0`,
		"ec2 describe-instance-type-offerings":       `["us-east-1a","us-east-1b"]`,
	}
	for i := 0; i < len(changes); i += 2 {
		a[changes[i]] = changes[i+1]
	}
	return a
}

// Each obstacle is found by itself, with its remedy.
func TestFindings(t *testing.T) {
	failed := "aws cloudformation delete-stack --stack-name tidegate-prod"
	for name, c := range map[string]struct {
		account account
		flags   map[string]string
		want    string
	}{
		"none":          {account: empty()},
		"not boots":     {empty("ssm get-parameter", "error ParameterNotFound"), nil, "npx cdk bootstrap"},
		"old bootstrap": {empty("ssm get-parameter", `"5"`), nil, "version 5, want at least 6"},
		"failed stack":  {empty("cloudformation describe-stacks", `"ROLLBACK_COMPLETE"`), nil, failed},
		"names": {empty("logs describe-log-groups", `["/tidegate/prod/check"]`), nil,
			"log groups /tidegate/prod/check"},
		"another stage's names": {account: empty(
			"secretsmanager list-secrets", `["tidegate-prod/oidc"]`,
			"logs describe-log-groups", `["/tidegate/prod/mine"]`,
			"elasticache describe-users", `["tidegate-prod-eu-check","tidegate-prod-eu-admin","default"]`,
			"elasticache describe-user-groups", `["tidegate-prod-eu"]`,
			"elasticache describe-serverless-caches", `["tidegate-prod-eu"]`)},
		"cache of nodes": {empty("elasticache describe-replication-groups", `["tidegate-prod"]`,
			"elasticache describe-serverless-caches", `error AccessDenied`),
			map[string]string{"store": "nodes"}, "caches tidegate-prod"},
		"a function's name": {empty("lambda list-functions", `["tidegate-prod-check"]`), nil,
			"functions tidegate-prod-check"},
		"own names": {account: empty("logs describe-log-groups", `["/tidegate/prod/check"]`,
			"cloudformation describe-stacks", `"UPDATE_COMPLETE"`)},
		"concurrency": {empty("lambda get-account-settings", `10`), nil,
			"./scripts/stage prod checkConcurrency=0"},
		"unreserved": {account: empty("lambda get-account-settings", `10`),
			flags: map[string]string{"checkConcurrency": "0", "adminConcurrency": "0"}},
		"zone": {empty(), map[string]string{"zones": "us-east-1a,us-east-1c"},
			"us-east-1c is use1-az3, where Lambda has no functions with a network: " +
				"run ./scripts/stage prod zones=us-east-1a,us-east-1b"},
		"zone without nodes": {empty("ec2 describe-instance-type-offerings", `["us-east-1a","us-east-1c"]`),
			map[string]string{"store": "nodes", "nodeType": "cache.t4g.small"},
			"us-east-1b has no instances for nodes of cache.t4g.small: run ./scripts/stage prod zones="},
		"unknown nodes": {account: empty("ec2 describe-instance-type-offerings", `[]`),
			flags: map[string]string{"store": "nodes"}},
		"first zones": {empty("ec2 describe-availability-zones",
			`[{"ZoneName":"us-east-1a","ZoneID":"use1-az3"},{"ZoneName":"us-east-1b","ZoneID":"use1-az2"},`+
				`{"ZoneName":"us-east-1c","ZoneID":"use1-az1"}]`), nil, "zones=us-east-1b,us-east-1c"},
		"zone of another region": {empty(), map[string]string{"zones": "eu-west-1a,us-east-1a"},
			"eu-west-1a is no zone of this region"},
		"existing Valkey": {account: empty("elasticache describe-users", "error AccessDenied",
			"ec2 describe-vpcs", `5`,
			"secretsmanager list-secrets", `["tidegate-prod/pepper"]`),
			flags: map[string]string{"store": "url", "valkeyUrlSecret": "a",
				"pepperSecret": "tidegate-prod/pepper"}},
		"networks":     {empty("ec2 describe-vpcs", `5`), nil, "5 of 5 VPCs are used"},
		"no addresses": {account: empty("ec2 describe-addresses", `5`)},
		"addresses": {empty("ec2 describe-addresses", `4`), map[string]string{
			"admin.OIDC_ISSUER": "https://a.example", "admin.OIDC_CLIENT_ID": "a", "oidcSecret": "b",
			"admin.OIDC_EDITOR_VALUES": "c"},
			"4 of 5 Elastic IP addresses are used, and the stage needs 2"},
		"gateways": {empty("ec2 describe-egress-only-internet-gateways", `5`), overIPv6("six.example"),
			"5 of 5 egress-only internet gateways are used"},
		"provider with IPv6": {account: empty("ec2 describe-addresses", `5`), flags: overIPv6("six.example")},
		"provider without": {empty(), overIPv6("four.example"),
			"four.example has no IPv6 address, so the functions cannot call it: " +
				"run ./scripts/stage prod internet=nat"},
	} {
		t.Run(name, func(t *testing.T) {
			app := t.TempDir()
			var file settings.StageFile
			if err := file.Set("prod", c.flags); err != nil {
				t.Fatal(err)
			}
			if err := file.Write(filepath.Join(app, settings.StageFolder), "prod"); err != nil {
				t.Fatal(err)
			}
			var out strings.Builder
			err := c.account.look(t).run(app, []string{"prod"}, &out)
			if errors.Is(err, errFound) != (c.want != "") || !strings.Contains(out.String(), c.want) {
				t.Errorf("got %v and\n%s\nwant %q", err, &out, c.want)
			}
			if ok := strings.Count(out.String(), " ok\n"); c.want != "" && ok != len(checks)-1 {
				t.Errorf("got %d checks without a finding, want all but one:\n%s", ok, &out)
			}
		})
	}
}

// overIPv6 are settings of an issuer whose keys are read over IPv6.
func overIPv6(host string) map[string]string {
	return map[string]string{"internet": "ipv6", "check.IDENTITY_SOURCES": "jwt", "check.JWT_AUDIENCE": "a",
		"check.JWT_ISSUER": "https://" + host, "check.JWT_JWKS_URL": "https://" + host + "/keys"}
}

// look returns a look at the account. Only six.example has an IPv6 address.
func (a account) look(t *testing.T) *look {
	return &look{ctx: t.Context(), aws: a.command, lookup: func(_ context.Context, network, host string) (
		[]net.IP, error) {
		if network == "ip6" && host == "six.example" {
			return []net.IP{net.IPv6loopback}, nil
		}
		return nil, &net.DNSError{Err: "no such host", Name: host, IsNotFound: true}
	}}
}

// The published template needs no bootstrapped account and no stage's file. Its parameters
// are named.
func TestTemplate(t *testing.T) {
	var out strings.Builder
	bare := empty("ssm get-parameter", "error ParameterNotFound")
	if err := bare.look(t).run(t.TempDir(), []string{"-template", "orders"}, &out); err != nil {
		t.Errorf("got %v and\n%s\nwant no finding", err, &out)
	}
	out.Reset()
	small := empty("lambda get-account-settings", `10`)
	err := small.look(t).run(t.TempDir(), []string{"-template", "orders"}, &out)
	want := "the parameters CheckConcurrency=0 AdminConcurrency=0"
	if !errors.Is(err, errFound) || !strings.Contains(out.String(), want) {
		t.Errorf("got %v and\n%s\nwant %q", err, &out, want)
	}
}

// A look-up that fails is no success, and what others found stays.
func TestUnread(t *testing.T) {
	for name, c := range map[string]struct {
		account account
		err     error
		want    []string
	}{
		"one check": {empty("ec2 describe-vpcs", "error AccessDenied"), errUnread,
			[]string{"networks     not read: error AccessDenied"}},
		"one of the names": {empty("elasticache describe-users", "error AccessDenied"), errUnread,
			[]string{"names        not read: error AccessDenied"}},
		"names before and after it": {empty("elasticache describe-users", "error AccessDenied",
			"logs describe-log-groups", `["/tidegate/prod/check"]`,
			"elasticache describe-serverless-caches", `["tidegate-prod"]`), errFound,
			[]string{"log groups /tidegate/prod/check; caches tidegate-prod\n",
				"names        not read: error AccessDenied"}},
	} {
		var out strings.Builder
		err := c.account.look(t).run(t.TempDir(), []string{"prod"}, &out)
		if !errors.Is(err, c.err) {
			t.Errorf("%s: got error %v, want %v", name, err, c.err)
		}
		for _, want := range c.want {
			if !strings.Contains(out.String(), want) {
				t.Errorf("%s: got\n%s\nwant %q", name, &out, want)
			}
		}
	}
}

func TestBadUsage(t *testing.T) {
	for _, args := range [][]string{nil, {"-h"}, {"a", "b"}, {"../prod"}, {"-template"},
		{"-template", "Prod"}} {
		if err := empty().look(t).run(t.TempDir(), args, &strings.Builder{}); err == nil ||
			errors.Is(err, errFound) {
			t.Errorf("%v: got %v, want an error of usage", args, err)
		}
	}
	offline := empty("sts get-caller-identity", "error Unable to locate credentials")
	err := offline.look(t).run(t.TempDir(), []string{"dev"}, &strings.Builder{})
	if err == nil || !strings.Contains(err.Error(), "no account to look at") {
		t.Errorf("got %v, want that there is no account", err)
	}
}
