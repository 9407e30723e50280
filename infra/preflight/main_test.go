package main

import (
	"context"
	"errors"
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
		"own names": {account: empty("logs describe-log-groups", `["/tidegate/prod/check"]`,
			"cloudformation describe-stacks", `"UPDATE_COMPLETE"`)},
		"concurrency": {empty("lambda get-account-settings", `10`), nil,
			"./scripts/stage prod checkConcurrency=0"},
		"unreserved": {account: empty("lambda get-account-settings", `10`),
			flags: map[string]string{"checkConcurrency": "0", "adminConcurrency": "0"}},
		"zone": {empty(), map[string]string{"zones": "us-east-1a,us-east-1c"},
			"us-east-1c is use1-az3, where Lambda has no functions with a network: " +
				"./scripts/stage prod zones=us-east-1a,us-east-1b"},
		"first zones": {empty("ec2 describe-availability-zones",
			`[{"ZoneName":"us-east-1a","ZoneID":"use1-az3"},{"ZoneName":"us-east-1b","ZoneID":"use1-az2"},`+
				`{"ZoneName":"us-east-1c","ZoneID":"use1-az1"}]`), nil, "zones=us-east-1b,us-east-1c"},
		"zone of another region": {empty(), map[string]string{"zones": "eu-west-1a,us-east-1a"},
			"eu-west-1a is no zone of this region"},
		"existing Valkey": {account: empty("elasticache describe-users", "error AccessDenied", "ec2 describe-vpcs", `5`,
			"secretsmanager list-secrets", `["tidegate-prod/pepper"]`),
			flags: map[string]string{"store": "url", "valkeyUrlSecret": "a", "pepperSecret": "tidegate-prod/pepper"}},
		"networks":     {empty("ec2 describe-vpcs", `5`), nil, "5 of 5 VPCs are used"},
		"no addresses": {account: empty("ec2 describe-addresses", `5`)},
		"addresses": {empty("ec2 describe-addresses", `4`), map[string]string{
			"admin.OIDC_ISSUER": "https://a.example", "admin.OIDC_CLIENT_ID": "a", "oidcSecret": "b",
			"admin.OIDC_EDITOR_VALUES": "c"},
			"4 of 5 Elastic IP addresses are used, and the stage needs 2"},
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
			err := run(t.Context(), app, []string{"prod"}, c.account.command, &out)
			if errors.Is(err, errFound) != (c.want != "") || !strings.Contains(out.String(), c.want) {
				t.Errorf("got %v and\n%s\nwant %q", err, &out, c.want)
			}
			if ok := strings.Count(out.String(), " ok\n"); c.want != "" && ok != len(checks)-1 {
				t.Errorf("got %d checks without a finding, want all but one:\n%s", ok, &out)
			}
		})
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
		err := run(t.Context(), t.TempDir(), []string{"prod"}, c.account.command, &out)
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
	for _, args := range [][]string{nil, {"-h"}, {"a", "b"}, {"../prod"}} {
		if err := run(t.Context(), t.TempDir(), args, empty().command, &strings.Builder{}); err == nil ||
			errors.Is(err, errFound) {
			t.Errorf("%v: got %v, want an error of usage", args, err)
		}
	}
	offline := empty("sts get-caller-identity", "error Unable to locate credentials")
	err := run(t.Context(), t.TempDir(), []string{"dev"}, offline.command, &strings.Builder{})
	if err == nil || !strings.Contains(err.Error(), "no account to look at") {
		t.Errorf("got %v, want that there is no account", err)
	}
}
