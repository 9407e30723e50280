package main

import (
	"reflect"
	"strings"
	"testing"
)

func TestDefaultsByStage(t *testing.T) {
	for stage, want := range map[string]Props{
		"dev":  {Keep: false, Example: true, LogDays: 14, Store: StoreProps{Shards: 1, SnapshotDays: 0, NodeType: "cache.t4g.small"}, NATGateways: 1},
		"prod": {Keep: true, Example: false, LogDays: 180, Store: StoreProps{Shards: 2, SnapshotDays: 7, NodeType: "cache.r7g.large"}, NATGateways: 2},
	} {
		p := propsOf(t, map[string]string{"stage": stage})
		got := Props{
			Keep: p.Keep, Example: p.Example, LogDays: p.LogDays, NATGateways: p.NATGateways,
			Store: StoreProps{Shards: p.Store.Shards, SnapshotDays: p.Store.SnapshotDays, NodeType: p.Store.NodeType},
		}
		if !reflect.DeepEqual(got, want) {
			t.Errorf("%s: %+v, want %+v", stage, got, want)
		}
		equal(t, stage+" store", p.Store.Kind, Serverless)
		equal(t, stage+" concurrency", []int{p.Check.Concurrency, p.Admin.Concurrency}, []int{100, 5})
	}
}

func propsOf(t *testing.T, flags map[string]string) Props {
	t.Helper()
	f, err := newFlags(flags)
	if err != nil {
		t.Fatal(err)
	}
	p, err := f.props()
	if err != nil {
		t.Fatal(err)
	}
	return p
}

func TestFlagsReachProps(t *testing.T) {
	p := propsOf(t, map[string]string{
		"stage": "qa", "keep": "true", "cidr": "10.0.0.0/16", "maxStorageGB": "9", "maxECPUs": "5000", "snapshotDays": "3", "checkMemory": "256",
		"adminMemory": "1024", "checkConcurrency": "none", "adminConcurrency": "2", "logLevel": "debug", "adminUser": "ada", "logDays": "30",
		"natGateways": "3", "ipv4Prefix": "24", "ipv6Prefix": "48", "identity": "jwt", "jwtIssuer": "https://a.example", "jwtAudience": "x,y",
		"jwtJwks": `{"keys":[]}`, "jwtIdentityClaim": "sub", "jwtPlanClaim": "plan", "example": "false",
	})
	for what, pair := range map[string][2]any{
		"stage": {p.Stage, "qa"}, "keep": {p.Keep, true}, "cidr": {p.CIDR, "10.0.0.0/16"}, "storage": {p.Store.MaxStorageGB, 9},
		"ECPUs": {p.Store.MaxECPUs, 5000}, "snapshots": {p.Store.SnapshotDays, 3}, "memory": {[]int{p.Check.Memory, p.Admin.Memory}, []int{256, 1024}},
		"concurrency": {[]int{p.Check.Concurrency, p.Admin.Concurrency}, []int{Unreserved, 2}}, "log": {p.Check.LogLevel + p.Admin.LogLevel, "debugdebug"},
		"user": {p.Login.User, "ada"}, "days": {p.LogDays, 30}, "NAT": {p.NATGateways, 3},
		"prefixes": {[]int{p.Identity.IPv4Prefix, p.Identity.IPv6Prefix}, []int{24, 48}},
		"audience": {p.Identity.JWT.Audiences, []string{"x", "y"}}, "keys": {p.Identity.JWT.JWKS, `{"keys":[]}`}, "example": {p.Example, false},
		"claims": {p.Identity.JWT.IdentityClaim + p.Identity.JWT.PlanClaim, "subplan"},
	} {
		equal(t, what, pair[0], pair[1])
	}
	p = propsOf(t, everything)
	equal(t, "tags", p.Tags, map[string]string{"team": "api", "centre": "42"})
	equal(t, "zones", len(p.Zones), 3)
	equal(t, "client's secret", p.Login.OIDC.ClientSecret, "login/tidegate")
}

// An operator reads which flag is wrong, and what it must be.
func TestErrorsNameTheFlag(t *testing.T) {
	for name, c := range map[string]struct {
		flags map[string]string
		want  []string
	}{
		"stage":               {map[string]string{"stage": "Prod!"}, []string{"-c stage=Prod!: must be"}},
		"stage too long":      {map[string]string{"stage": "production-eu"}, []string{"-c stage=production-eu: must be"}},
		"truth":               {map[string]string{"keep": "yes"}, []string{"-c keep=yes: must be true or false"}},
		"public range":        {map[string]string{"cidr": "8.8.0.0/16"}, []string{"-c cidr=8.8.0.0/16"}},
		"range with a host":   {map[string]string{"cidr": "10.1.2.3/16"}, []string{"-c cidr=10.1.2.3/16"}},
		"small range":         {map[string]string{"cidr": "10.1.2.0/28"}, []string{"-c cidr="}},
		"one zone":            {map[string]string{"zones": "eu-west-1a"}, []string{"-c zones=eu-west-1a: must be 2 or 3"}},
		"zone":                {map[string]string{"zones": "a,b"}, []string{"-c zones=a: must be names", "-c zones=b: must be names"}},
		"store":               {map[string]string{"store": "redis"}, []string{"-c store=redis: must be serverless or nodes"}},
		"number":              {map[string]string{"shards": "many"}, []string{"-c shards=many: must be a whole number"}},
		"zero":                {map[string]string{"checkConcurrency": "0"}, []string{"-c checkConcurrency=0"}},
		"storage":             {map[string]string{"maxStorageGB": "6000"}, []string{"-c maxStorageGB=6000: must be 1 to 5000"}},
		"ECPUs":               {map[string]string{"maxECPUs": "10"}, []string{"-c maxECPUs=10"}},
		"type":                {map[string]string{"nodeType": "r7g.large"}, []string{"-c nodeType=r7g.large"}},
		"replicas":            {map[string]string{"replicas": "6"}, []string{"-c replicas=6"}},
		"snapshots":           {map[string]string{"snapshotDays": "36"}, []string{"-c snapshotDays=36"}},
		"memory":              {map[string]string{"adminMemory": "64"}, []string{"-c adminMemory=64"}},
		"log":                 {map[string]string{"logLevel": "loud"}, []string{"-c logLevel=loud"}},
		"days":                {map[string]string{"logDays": "8"}, []string{"-c logDays=8: must be one of"}},
		"user":                {map[string]string{"adminUser": "a b"}, []string{"-c adminUser=a b"}},
		"WAF without example": {map[string]string{"waf": "true", "example": "false"}, []string{"-c waf=true"}},
		"wide caller": {
			map[string]string{"callers": "arn:aws:execute-api:eu-west-1:111122223333:*"}, []string{"-c callers=arn", "without wildcards"},
		},
		"mail":         {map[string]string{"alarmEmail": "ops"}, []string{"-c alarmEmail=ops"}},
		"tag":          {map[string]string{"tags": "aws:x=1"}, []string{"-c tags=aws:x"}},
		"tags":         {map[string]string{"tags": "team"}, []string{"-c tags=team: must be name=value"}},
		"domain alone": {map[string]string{"domain": "a.example.com"}, []string{"-c certificate=: goes with domain"}},
		"certificate":  {map[string]string{"domain": "a.example.com", "certificate": "mine"}, []string{"-c certificate=mine: must be the ARN"}},
		"another zone": {
			map[string]string{"domain": "a.example.com", "certificate": everything["certificate"], "zone": "example.org", "zoneId": "Z1"},
			[]string{"-c zone=example.org: must be the zone"},
		},
		"identity":          {map[string]string{"identity": "key,cookie"}, []string{"-c identity=cookie"}},
		"address first":     {map[string]string{"identity": "ip,key"}, []string{"takes ip only last"}},
		"twice":             {map[string]string{"identity": "key,key"}, []string{"has key twice"}},
		"token without all": {map[string]string{"identity": "jwt"}, []string{"-c jwtIssuer=", "-c jwtAudience=", "-c jwtJwksUrl="}},
		"token unasked":     {map[string]string{"jwtIssuer": "https://a.example"}, []string{"-c jwtIssuer=https://a.example: goes with jwt"}},
		"prefix":            {map[string]string{"ipv4Prefix": "33"}, []string{"-c ipv4Prefix=33"}},
		"plain http": {
			map[string]string{"oidcIssuer": "http://a.example", "oidcClientId": "x", "oidcSecretName": "y", "oidcEditors": "z"},
			[]string{"-c oidcIssuer=http://a.example"},
		},
		"OIDC without all": {map[string]string{"oidcIssuer": "https://a.example"}, []string{"-c oidcClientId=", "-c oidcSecretName=", "-c oidcEditors="}},
		"OIDC unasked":     {map[string]string{"oidcViewers": "x"}, []string{"-c oidcIssuer=: is not set"}},
		"NAT":              {map[string]string{"natGateways": "4"}, []string{"-c natGateways=4"}},
		"unknown":          {map[string]string{"stag": "prod"}, []string{"-c stag=prod: there is no such flag", "stage,"}},
		"several":          {map[string]string{"store": "x", "shards": "501"}, []string{"-c store=x", "-c shards=501"}},
	} {
		t.Run(name, func(t *testing.T) {
			f, err := newFlags(c.flags)
			if err == nil {
				_, err = f.props()
			}
			if err == nil {
				t.Fatal("nothing is wrong")
			}
			for _, want := range c.want {
				if !strings.Contains(err.Error(), want) {
					t.Errorf("%v\nwant %q", err, want)
				}
			}
		})
	}
}

// A secret that was given instead of its name is not repeated.
func TestErrorsKeepSecrets(t *testing.T) {
	flags := map[string]string{"oidcIssuer": "https://a.example", "oidcClientId": "x", "oidcEditors": "z", "oidcSecretName": "hush hush!"}
	f, err := newFlags(flags)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := f.props(); err == nil || strings.Contains(err.Error(), "hush") {
		t.Errorf("%v", err)
	}
}

// The whole way from the context to the error that cdk prints.
func TestSynthesisRefusesFlags(t *testing.T) {
	if _, err := synthesised(map[string]string{"store": "redis"}); err == nil || !strings.Contains(err.Error(), "-c store=redis") {
		t.Errorf("%v", err)
	}
}

// docs/deploy.md has every flag and every alarm.
func TestFlagsAndAlarmsAreDocumented(t *testing.T) {
	document := string(read(t, "../docs/deploy.md"))
	for _, name := range flagNames {
		if !strings.Contains(document, "`"+name+"`") && name != "nag" {
			t.Errorf("flag %s is not in docs/deploy.md", name)
		}
	}
	for _, build := range []func() (template, error){dev, prod} {
		for _, a := range of(t, build).all("AWS::CloudWatch::Alarm") {
			name := text(a.Properties["AlarmName"])
			name = strings.TrimRight(name[strings.LastIndex(name, "-")+1:], "0123456789")
			if !strings.Contains(document, name) {
				t.Errorf("alarm %s is not in docs/deploy.md", name)
			}
		}
	}
}
