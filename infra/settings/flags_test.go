package settings

import (
	"fmt"
	"os"
	"reflect"
	"slices"
	"strings"
	"testing"
)

func equal(t *testing.T, what string, got, want any) {
	t.Helper()
	if fmt.Sprint(got) != fmt.Sprint(want) {
		t.Errorf("%s: got %v, want %v", what, got, want)
	}
}

func TestDefaultsByStage(t *testing.T) {
	for stage, want := range map[string]Props{
		"dev": {Keep: false, Example: true, LogDays: 14,
			Store: Store{Shards: 1, SnapshotDays: 0, NodeType: "cache.t4g.small"}, NATGateways: 1},
		"prod": {Keep: true, Example: false, LogDays: 180,
			Store: Store{Shards: 2, SnapshotDays: 7, NodeType: "cache.r7g.large"}, NATGateways: 2},
	} {
		p := propsOf(t, map[string]string{"stage": stage})
		got := Props{
			Keep: p.Keep, Example: p.Example, LogDays: p.LogDays, NATGateways: p.NATGateways,
			Store: Store{Shards: p.Store.Shards, SnapshotDays: p.Store.SnapshotDays,
				NodeType: p.Store.NodeType},
		}
		if !reflect.DeepEqual(got, want) {
			t.Errorf("%s: %+v, want %+v", stage, got, want)
		}
		equal(t, stage+" store", p.Store.Kind, Serverless)
		prod := stage == "prod"
		equal(t, stage+" concurrency", []int{p.Check.Concurrency, p.Admin.Concurrency},
			pick(prod, []int{100, 5}, []int{Unreserved, Unreserved}))
		equal(t, stage+" observed", p.Observe, Observe{Metrics: prod, AccessLogs: prod})
		equal(t, stage+" version", p.Store.Version+string(p.Store.Durability), "8.1")
	}
}

func propsOf(t *testing.T, flags map[string]string) Props {
	t.Helper()
	p, err := Read(flags)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// aJWKS is a set of one public key.
const aJWKS = `{"keys":[{"kty":"EC","crv":"P-256","use":"sig","alg":"ES256","kid":"1","x":"MKBCTNIcKUSDii11ySs3526iDZ8AiTo7Tu6KPAqv7D4",` +
	`"y":"4Etl6SRW2YiLUrN5vfvVHuhp7x8PxltmWWlbbM4IFyM"}]}`

func TestFlagsReachProps(t *testing.T) {
	p := propsOf(t, map[string]string{
		"stage": "qa", "keep": "true", "cidr": "10.0.0.0/16", "maxStorageGB": "9", "maxECPUs": "5000",
		"snapshotDays": "3", "checkMemory": "256",
		"adminMemory": "1024", "checkConcurrency": "none", "adminConcurrency": "2", "logLevel": "debug",
		"adminUser": "ada", "logDays": "30",
		"natGateways": "3", "ipv4Prefix": "24", "ipv6Prefix": "48", "identity": "jwt",
		"jwtIssuer": "https://a.example", "jwtAudience": "x,y",
		"jwtJwks": aJWKS, "jwtIdentityClaim": "sub", "jwtPlanClaim": "plan", "example": "false",
	})
	for what, pair := range map[string][2]any{
		"stage": {p.Stage, "qa"}, "keep": {p.Keep, true}, "cidr": {p.CIDR, "10.0.0.0/16"},
		"storage": {p.Store.MaxStorageGB, 9},
		"ECPUs":   {p.Store.MaxECPUs, 5000}, "snapshots": {p.Store.SnapshotDays, 3},
		"memory":      {[]int{p.Check.Memory, p.Admin.Memory}, []int{256, 1024}},
		"concurrency": {[]int{p.Check.Concurrency, p.Admin.Concurrency}, []int{Unreserved, 2}},
		"log":         {p.LogLevel, "debug"},
		"user":        {p.Login.User, "ada"}, "days": {p.LogDays, 30}, "NAT": {p.NATGateways, 3},
		"prefixes": {[]int{p.Identity.IPv4Prefix, p.Identity.IPv6Prefix}, []int{24, 48}},
		"audience": {p.Identity.JWT.Audiences, []string{"x", "y"}}, "keys": {p.Identity.JWT.JWKS, aJWKS},
		"example": {p.Example, false},
		"claims":  {p.Identity.JWT.IdentityClaim + p.Identity.JWT.PlanClaim, "subplan"},
	} {
		equal(t, what, pair[0], pair[1])
	}
	p = propsOf(t, map[string]string{"tracing": "true", "metrics": "true", "accessLogs": "true",
		"valkeyVersion": "7.2"})
	equal(t, "observed", p.Observe,
		Observe{Tracing: true, Metrics: true, AccessLogs: true})
	equal(t, "version", p.Store.Version, "7.2")
	p = propsOf(t, map[string]string{"stage": " prod ", "metrics": " ", "logDays": " 30 "})
	equal(t, "blanks", []any{p.Stage, p.Keep, p.Observe.Metrics, p.LogDays}, "[prod true true 30]")
	p = propsOf(t, map[string]string{"stage": "prod", "store": "nodes", "valkeyDurability": "async"})
	equal(t, "observed", p.Observe, Observe{Metrics: true, AccessLogs: true})
	equal(t, "version with durability", p.Store.Version+" "+string(p.Store.Durability), "9.0 async")
	p = propsOf(t, oidc("zones", "eu-west-1a, eu-west-1b,eu-west-1c", "tags", "team=api,centre=42",
		"oidcSecretName", "login/tidegate"))
	equal(t, "tags", p.Tags, map[string]string{"team": "api", "centre": "42"})
	equal(t, "zones", len(p.Zones), 3)
	equal(t, "client's secret", p.Login.OIDC.ClientSecret, "login/tidegate")
}

// An error names the flag and what its value must be.
func TestErrorsNameTheFlag(t *testing.T) {
	for name, c := range map[string]struct {
		flags map[string]string
		want  []string
	}{
		"stage": {map[string]string{"stage": "Prod!"}, []string{"-c stage=Prod!: must be"}},
		"stage too long": {map[string]string{"stage": "production-eu"},
			[]string{"-c stage=production-eu: must be"}},
		"truth":             {map[string]string{"keep": "yes"}, []string{"-c keep=yes: must be true"}},
		"public range":      {map[string]string{"cidr": "8.8.0.0/16"}, []string{"-c cidr=8.8.0.0/16"}},
		"range with a host": {map[string]string{"cidr": "10.1.2.3/16"}, []string{"-c cidr=10.1.2.3/16"}},
		"small range":       {map[string]string{"cidr": "10.1.2.0/28"}, []string{"-c cidr="}},
		"no range":          {map[string]string{"cidr": "10.0.0.0"}, []string{"-c cidr=10.0.0.0: must be"}},
		"tiny range":        {map[string]string{"cidr": "10.0.0.0/31"}, []string{"-c cidr="}},
		"nodes without addresses": {
			map[string]string{"store": "nodes", "cidr": "10.0.0.0/24", "shards": "10"},
			[]string{"-c shards=10: means 20 nodes, and cidr=10.0.0.0/24 has room for 16"}},
		"keys in S3": {tokens("jwtJwksUrl", "https://keys.s3.eu-west-1.amazonaws.com/jwks"),
			[]string{"-c jwtJwksUrl=https://keys.s3"}},
		"one zone": {map[string]string{"zones": "eu-west-1a"}, []string{"-c zones=eu-west-1a: must be 2"}},
		"a zone twice": {map[string]string{"zones": "eu-west-1a,eu-west-1a"},
			[]string{"-c zones=eu-west-1a: must be given once"}},
		"zone": {map[string]string{"zones": "a,b"},
			[]string{"-c zones=a: must be names", "-c zones=b: must be names"}},
		"store":  {map[string]string{"store": "redis"}, []string{"-c store=redis: must be serverless"}},
		"number": {map[string]string{"shards": "many"}, []string{"-c shards=many: must be a whole number"}},
		"zero":   {map[string]string{"checkConcurrency": "0"}, []string{"-c checkConcurrency=0"}},
		"storage": {map[string]string{"maxStorageGB": "6000"},
			[]string{"-c maxStorageGB=6000: must be a whole number from 1 to 5000"}},
		"ECPUs":    {map[string]string{"maxECPUs": "10"}, []string{"-c maxECPUs=10"}},
		"type":     {map[string]string{"nodeType": "r7g.large"}, []string{"-c nodeType=r7g.large"}},
		"replicas": {map[string]string{"replicas": "6"}, []string{"-c replicas=6"}},
		"version": {map[string]string{"valkeyVersion": "7.0"},
			[]string{"-c valkeyVersion=7.0: must be one of 7.2, 8.0, 8.1, 8.2, 9.0, 9.1"}},
		"new version": {map[string]string{"valkeyVersion": "10.0"},
			[]string{"-c valkeyVersion=10.0: must be one of"}},
		"durability": {durable("valkeyDurability", "fsync"),
			[]string{"-c valkeyDurability=fsync: must be sync or async"}},
		"durable serverless": {durable("store", "serverless"),
			[]string{"-c valkeyDurability=sync: needs store=nodes"}},
		"durable and old": {durable("valkeyVersion", "8.2"),
			[]string{"-c valkeyDurability=sync: needs valkeyVersion=9.0 or newer, not 8.2"}},
		"durable and small": {durable("nodeType", "cache.t4g.small"),
			[]string{"needs a nodeType of R6g", "not cache.t4g.small"}},
		"durable and tiered": {durable("nodeType", "cache.r6gd.xlarge"),
			[]string{"needs a nodeType of R6g", "not cache.r6gd.xlarge"}},
		"snapshots": {map[string]string{"snapshotDays": "36"}, []string{"-c snapshotDays=36"}},
		"memory":    {map[string]string{"adminMemory": "64"}, []string{"-c adminMemory=64"}},
		"log":       {map[string]string{"logLevel": "loud"}, []string{"-c logLevel=loud"}},
		"days":      {map[string]string{"logDays": "8"}, []string{"-c logDays=8: must be one of"}},
		"user":      {map[string]string{"adminUser": "a b"}, []string{"-c adminUser=a b"}},
		"mail":      {map[string]string{"alarmEmail": "ops"}, []string{"-c alarmEmail=ops"}},
		"tag":       {map[string]string{"tags": "aws:x=1"}, []string{"-c tags=aws:x"}},
		"tags":      {map[string]string{"tags": "team"}, []string{"-c tags=team: must be name=value"}},
		"a tag twice": {map[string]string{"tags": "team=a,team=b"},
			[]string{`-c tags=team=a,team=b: must have "team" once`}},
		"domain alone": {map[string]string{"domain": "a.example.com"},
			[]string{"-c certificate=: set both certificate and domain"}},
		"certificate": {map[string]string{"domain": "a.example.com", "certificate": "mine"},
			[]string{"-c certificate=mine: must be the ARN"}},
		"another zone": {
			map[string]string{"domain": "a.example.com", "zone": "example.org", "zoneId": "Z1",
				"certificate": "arn:aws:acm:eu-west-1:111122223333:certificate/1-2-3"},
			[]string{"-c zone=example.org: must be the zone"},
		},
		"identity": {map[string]string{"identity": "key,cookie"},
			[]string{`-c identity is "key,cookie": must be one or more of`}},
		"address first": {map[string]string{"identity": "ip,key"},
			[]string{"-c identity", "ip must stand last"}},
		"twice": {map[string]string{"identity": "key,key"},
			[]string{"-c identity", "must have key once only"}},
		"token without all": {map[string]string{"identity": "jwt"},
			[]string{"-c jwtIssuer has 0 bytes", "-c jwtAudience has 0", "-c jwtJwksUrl and"}},
		"token without source": {map[string]string{"jwtIssuer": "https://a.example"},
			[]string{"-c jwtIssuer is set, but jwt is not among -c identity"}},
		"prefix": {map[string]string{"ipv4Prefix": "33"},
			[]string{`-c ipv4Prefix is "33": must be a whole number from 8 to 32`}},
		"long prefix":    {map[string]string{"ipv6Prefix": "129"}, []string{"-c ipv6Prefix", "16 to 128"}},
		"keys of tokens": {tokens("jwtJwks", "{}"), []string{"-c jwtJwks: "}},
		"many keys": {tokens("jwtJwks", aJWKS[:9]+strings.Repeat(" ", 2500)+aJWKS[9:]),
			[]string{"-c jwtJwks=…: must be at most 2500 bytes"}},
		"proxies": {map[string]string{"trustedProxies": "11"}, []string{"-c trustedProxies is 11"}},
		"issuers and one": {tokens("jwtIssuers", `[{"issuer":"b","audience":"y","jwksUrl":"https://b.example"}]`),
			[]string{"-c jwtIssuer is set beside -c jwtIssuers"}},
		"issuers by http": {map[string]string{"identity": "jwt",
			"jwtIssuers": `[{"issuer":"b","audience":"y","jwksUrl":"http://127.0.0.1/keys"}]`},
			[]string{"-c jwtIssuers=http://127.0.0.1/keys: must be an https URL"}},
		"issuers without audience": {map[string]string{"identity": "jwt",
			"jwtIssuers": `[{"issuer":"b","jwksUrl":"https://b.example"}]`},
			[]string{"-c jwtIssuers: audience of issuer 1 has 0 audiences"}},
		"required claims": {tokens("jwtRequiredClaims", "token_use=access"),
			[]string{"-c jwtRequiredClaims has 16 bytes"}},
		"plans of groups": {tokens("jwtPlanMap", "gold=pro"), []string{"-c jwtPlanMap has 8 bytes"}},
		"keys by http": {tokens("jwtJwksUrl", "http://127.0.0.1/keys"),
			[]string{"-c jwtJwksUrl=http://127.0.0.1/keys: must be an https URL"}},
		"leeway": {tokens("jwtLeeway", "6m"), []string{`-c jwtLeeway is "6m0s": must be 0s to 5m`}},
		"time-out": {map[string]string{"storeTimeout": "11s"},
			[]string{"-c storeTimeout=11s: is 11s: must be 1ms to 10s"}},
		"time-out of the function": {
			map[string]string{"storeTimeout": "2667ms"},
			[]string{"-c storeTimeout=2.667s: must be shorter", "5s to connect", "ends after 9 s"},
		},
		"known callers": {map[string]string{"callerCache": "25h"},
			[]string{"-c callerCache=25h0m0s", "0s to 24h"}},
		"denials": {map[string]string{"denyCache": "61s"}, []string{"-c denyCache=1m1s", "0s to 1m"}},
		"direct callers": {map[string]string{"directCallers": "arn:aws:iam::111122223333:root"},
			[]string{"-c directCallers=arn:aws:iam::111122223333:root: must be the ARN of a role",
				"-c directCalls=: must be on with directCallers"}},
		"any role": {map[string]string{"directCalls": "on",
			"directCallers": "arn:aws:iam::111122223333:role/*"},
			[]string{"-c directCallers=arn:aws:iam::111122223333:role/*: must be"}},
		"lease": {map[string]string{"settleWithin": "500ms"},
			[]string{"-c settleWithin=500ms", "1s to 24h"}},
		"no time": {map[string]string{"denyCache": "soon"},
			[]string{"-c denyCache=soon: must be a duration such as"}},
		"deny": {map[string]string{"httpApiDeny": "429"}, []string{"-c httpApiDeny=429: must be deny"}},
		"idle": {map[string]string{"sessionIdle": "1s"}, []string{"-c sessionIdle=1s", "1m to 720h"}},
		"lock": {map[string]string{"changesLockDays": "3651"},
			[]string{"-c changesLockDays=3651", "from 1 to 3650"}},
		"short session": {map[string]string{"sessionIdle": "1h", "sessionLifetime": "30m"},
			[]string{"-c sessionLifetime=30m0s: must not be shorter"}},
		"idle beyond the default lifetime": {map[string]string{"sessionIdle": "24h"},
			[]string{"-c sessionLifetime=12h0m0s: must not be shorter than sessionIdle=24h0m0s"}},
		"lifetime below the default idle": {map[string]string{"sessionLifetime": "20m"},
			[]string{"-c sessionLifetime=20m0s: must not be shorter than sessionIdle=30m0s"}},
		"nobody": {map[string]string{"adminUser": "none"},
			[]string{"-c adminUser=none: leaves nobody to log in"}},
		"users": {map[string]string{"adminUsersSecretName": "ada:editor:$argon2id$"},
			[]string{"-c adminUsersSecretName=…: must be the name"}},
		"networks": {
			map[string]string{"adminNetworks": "203.0.113.0/24,10.0.0.300/8", "ownerNetworks": "all",
				"ownerView": "pages"},
			[]string{`-c adminNetworks=203.0.113.0/24,10.0.0.300/8: has "10.0.0.300/8"`,
				"-c ownerNetworks=all", "-c ownerView=pages: must be off or api"},
		},
		"release": {map[string]string{"release": "a b"}, []string{"-c release=a b"}},
		"scopes":  {oidc("oidcScopes", "email"), []string{"-c oidcScopes=email: must include openid"}},
		"issuer": {oidc("oidcIssuer", "https://a.example?x=1"),
			[]string{"-c oidcIssuer=https://a.example?x=1: must be an https URL"}},
		"plain http": {
			map[string]string{"oidcIssuer": "http://a.example", "oidcClientId": "x", "oidcSecretName": "y",
				"oidcEditors": "z"},
			[]string{"-c oidcIssuer=http://a.example"},
		},
		"OIDC without all": {map[string]string{"oidcIssuer": "https://a.example"},
			[]string{"-c oidcClientId=", "-c oidcSecretName=", "-c oidcEditors="}},
		"OIDC without issuer": {map[string]string{"oidcViewers": "x"},
			[]string{"-c oidcIssuer=: must be set"}},
		"NAT": {map[string]string{"natGateways": "4"}, []string{"-c natGateways=4"}},
		"unknown": {map[string]string{"stag": "prod"},
			[]string{"-c stag=prod: unknown flag", "stage,"}},
		"several": {map[string]string{"store": "x", "shards": "501"},
			[]string{"-c store=x", "-c shards=501"}},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := Read(c.flags)
			if err == nil {
				t.Fatalf("got no error, want %q", c.want)
			}
			for _, want := range c.want {
				if !strings.Contains(err.Error(), want) {
					t.Errorf("got %v\nwant %q", err, want)
				}
			}
		})
	}
}

// tokens returns the flags of a deployment with tokens, with one flag changed.
func tokens(name, value string) map[string]string {
	flags := changed(map[string]string{"identity": "jwt", "jwtIssuer": "https://a.example",
		"jwtAudience": "x"}, name, value)
	if flags["jwtJwks"] == "" && flags["jwtJwksUrl"] == "" {
		flags["jwtJwks"] = aJWKS
	}
	return flags
}

// durable returns the flags of a durable cache, with one flag changed.
func durable(name, value string) map[string]string {
	return changed(map[string]string{"store": "nodes", "nodeType": "cache.m7g.large",
		"valkeyVersion": "9.0", "valkeyDurability": "sync"}, name, value)
}

// oidc returns the flags of a deployment with OpenID Connect, with some flags changed.
func oidc(pairs ...string) map[string]string {
	return changed(map[string]string{"oidcIssuer": "https://a.example", "oidcClientId": "x",
		"oidcSecretName": "y", "oidcEditors": "z"}, pairs...)
}

func changed(flags map[string]string, pairs ...string) map[string]string {
	for pair := range slices.Chunk(pairs, 2) {
		flags[pair[0]] = pair[1]
	}
	return flags
}

// Flags accept the minimum and the maximum of the functions' own bounds.
func TestFlagsAcceptTheirBounds(t *testing.T) {
	for _, flags := range []map[string]string{
		{"storeTimeout": "1ms", "callerCache": "0s", "denyCache": "0s", "settleWithin": "1s",
			"sessionIdle": "1m", "sessionLifetime": "1m"},
		{"storeTimeout": "2666ms", "callerCache": "24h", "denyCache": "1m", "settleWithin": "24h",
			"sessionIdle": "720h", "sessionLifetime": "720h"},
		{"ipv4Prefix": "8", "ipv6Prefix": "16"}, {"ipv4Prefix": "32", "ipv6Prefix": "128"},
		tokens("jwtLeeway", "5m"), tokens("jwtLeeway", "0s"), oidc("adminUser", "none"),
		{"adminUser": "none", "adminUsersSecretName": "a"},
	} {
		propsOf(t, flags)
	}
}

// An error does not repeat a secret that was passed instead of the secret's name.
func TestErrorsDoNotShowSecrets(t *testing.T) {
	flags := map[string]string{"oidcIssuer": "https://a.example", "oidcClientId": "x", "oidcEditors": "z",
		"oidcSecretName": "hush hush!"}
	if _, err := Read(flags); err == nil || strings.Contains(err.Error(), "hush") {
		t.Errorf("got %v, want an error without the secret", err)
	}
}

// The function gets the JWKS of the flag unchanged.
func TestJWKS(t *testing.T) {
	p := propsOf(t, tokens("jwtJwks", aJWKS))
	equal(t, "keys", p.CheckVariables()["JWT_JWKS"], aJWKS)
}

// The function gets the issuers of the flag unchanged, and may reach the internet for
// their keys.
func TestIssuers(t *testing.T) {
	issuers := `[{"issuer":"https://a.example","audience":["x","y"],"jwksUrl":"https://a.example/keys"}]`
	p := propsOf(t, map[string]string{"identity": "jwt", "jwtIssuers": issuers})
	equal(t, "issuers", p.CheckVariables()["JWT_ISSUERS"], issuers)
	check, _ := p.Egress()
	equal(t, "internet", check, true)
}

// docs/deploy.md has every flag.
func TestFlagsAreDocumented(t *testing.T) {
	document, err := os.ReadFile("../../docs/deploy.md")
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range Names() {
		if !strings.Contains(string(document), "`"+name+"`") && name != "nag" {
			t.Errorf("flag %s is not in docs/deploy.md", name)
		}
	}
}
