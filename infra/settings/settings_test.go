package settings

import (
	"os"
	"reflect"
	"strings"
	"testing"
)

// aJWKS is a set of one public key.
const aJWKS = `{"keys":[{"kty":"EC","crv":"P-256","use":"sig","alg":"ES256","kid":"1","x":"MKBCTNIcKUSDii11ySs3526iDZ8AiTo7Tu6KPAqv7D4",` +
	`"y":"4Etl6SRW2YiLUrN5vfvVHuhp7x8PxltmWWlbbM4IFyM"}]}`

// given returns the props of a stage with settings, as ./scripts/stage sets them.
func given(stage string, values ...string) (Props, error) {
	var f StageFile
	all := map[string]string{}
	for i := 0; i < len(values); i += 2 {
		all[values[i]] = values[i+1]
	}
	if err := f.Set(stage, all); err != nil {
		return Props{}, err
	}
	return f.Props(stage)
}

func TestDefaultsByStage(t *testing.T) {
	for stage, want := range map[string]Props{
		"dev": {Example: true, LogDays: 14, Store: Store{Shards: 1, NodeType: "cache.t4g.small"}},
		"prod": {Keep: true, Metrics: true, LogDays: 180, CheckConcurrency: 100, AdminConcurrency: 33,
			Store: Store{Shards: 2, NodeType: "cache.r7g.large"}},
	} {
		p := Default(stage)
		got := Props{Keep: p.Keep, Metrics: p.Metrics, Example: p.Example, LogDays: p.LogDays,
			CheckConcurrency: p.CheckConcurrency, AdminConcurrency: p.AdminConcurrency,
			Store: Store{Shards: p.Shards, NodeType: p.NodeType}}
		if !reflect.DeepEqual(got, want) || p.Validate() != nil || p.Kind != Serverless ||
			p.Version != "8.1" {
			t.Errorf("%s: got %+v and %v, want %+v", stage, p, p.Validate(), want)
		}
		if days := p.Snapshots(); (days == 7) != p.Keep {
			t.Errorf("%s: got %d days of snapshots", stage, days)
		}
	}
}

// Text of the command line becomes values of every kind.
func TestSettingsReachProps(t *testing.T) {
	p, err := given("qa", "keep", "true", "cidr", "10.0.0.0/16", "maxStorageGB", "9",
		"zones", "eu-west-1a,eu-west-1b,eu-west-1c", "tags.team", "api", "valkeyVersion", "7.2",
		"check.IDENTITY_SOURCES", "jwt", "check.JWT_ISSUER", "https://a.example", "check.JWT_AUDIENCE", "x,y",
		"check.JWT_JWKS", aJWKS, "admin.OWNER_VIEW", "off", "adminUser", "none", "adminUsersSecret", "a")
	want := Default("qa")
	want.Keep, want.CIDR, want.MaxStorageGB, want.Version = true, "10.0.0.0/16", 9, "7.2"
	want.Zones = []string{"eu-west-1a", "eu-west-1b", "eu-west-1c"}
	want.Tags, want.Admin = map[string]string{"team": "api"}, map[string]string{"OWNER_VIEW": "off"}
	want.Check = map[string]string{"IDENTITY_SOURCES": "jwt", "JWT_ISSUER": "https://a.example",
		"JWT_AUDIENCE": "x,y", "JWT_JWKS": aJWKS}
	want.AdminUser, want.AdminUsersSecret = NoUser, "a"
	if err != nil || !reflect.DeepEqual(p, want) {
		t.Errorf("got %+v, %v\nwant %+v", p, err, want)
	}
}

// An error names the setting and what its value must be.
func TestErrorsNameTheSetting(t *testing.T) {
	tokens := []string{"check.IDENTITY_SOURCES", "jwt", "check.JWT_ISSUER", "https://a.example",
		"check.JWT_AUDIENCE", "x", "check.JWT_JWKS", aJWKS}
	provider := []string{"admin.OIDC_ISSUER", "https://a.example", "admin.OIDC_CLIENT_ID", "x",
		"oidcSecret", "y", "admin.OIDC_EDITOR_VALUES", "z"}
	also := func(first []string, more ...string) []string {
		return append(first[:len(first):len(first)],
			more...)
	}
	network := []string{"vpc", "vpc-0a1b2c3d", "subnets", "subnet-0a1b2c3d,subnet-1a1b2c3d"}
	for _, c := range []struct {
		values []string
		want   string // several are separated by |
	}{
		{[]string{"keep", "yes"}, "keep=yes: must be true or false"},
		{[]string{"shards", "many"}, "shards=many: must be a whole number"},
		{[]string{"check", "many"}, "check=many: must be set by entry, as NAME.ENTRY=VALUE"},
		{[]string{"stag", "prod"}, "stag=prod: unknown setting: docs/deploy.md lists them"},
		{[]string{"stage", "prod"}, "stage=prod: unknown setting"},
		{[]string{"cidr", "8.8.0.0/16"}, "cidr=8.8.0.0/16: must be a private IPv4 range"},
		{[]string{"cidr", "10.1.2.3/16"}, "cidr=10.1.2.3/16"},
		{[]string{"cidr", "10.1.2.0/28"}, "cidr=10.1.2.0/28"},
		{[]string{"cidr", "10.0.0.0"}, "cidr=10.0.0.0: must be"},
		{[]string{"store", "nodes", "cidr", "10.0.0.0/24", "shards", "10"},
			"shards=10: means 20 nodes, and cidr=10.0.0.0/24 has room for 16"},
		{[]string{"zones", "eu-west-1a"}, "zones=eu-west-1a: must be 2"},
		{[]string{"zones", "eu-west-1a,eu-west-1a"}, "zones=eu-west-1a: must be given once"},
		{[]string{"zones", "a,b"}, "zones=a: must be names|zones=b: must be names"},
		{[]string{"vpc", "vpc-0a1b2c3d"}, "subnets=: set both subnets and vpc"},
		{[]string{"vpc", "mine", "subnets", "a,b"}, "vpc=mine: must be the id|subnets=a,b: must be ids"},
		{also(network, "subnets", "subnet-0a1b2c3d"), "must be at least 2, in different zones"},
		{also(network, "securityGroup", "a"), "securityGroup=a: must be an id"},
		{[]string{"securityGroup", "sg-0a1b2c3d"}, "securityGroup=sg-0a1b2c3d: needs the vpc"},
		{[]string{"key", "alias/a"}, "key=alias/a: must be the ARN of a KMS key"},
		{[]string{"changesBucket", "a-bucket"}, "changesBucket=a-bucket: needs the key"},
		{[]string{"changesBucket", "A"}, "changesBucket=A: must be the name of a bucket"},
		{[]string{"alarmTopic", "ops"}, "alarmTopic=ops: must be the ARN of a topic"},
		{[]string{"pepperSecret", "a b"}, "pepperSecret=…: must be the name or ARN"},
		{[]string{"store", "redis"}, "store=redis: must be serverless, nodes or url"},
		{[]string{"store", "url"}, "valkeyUrlSecret=: set both store=url and valkeyUrlSecret"},
		{[]string{"valkeyUrlSecret", "a"}, "set both store=url and valkeyUrlSecret"},
		{[]string{"store", "url", "valkeyUrlSecret", "a", "snapshot", "b"}, "snapshot=b: is for a new cache"},
		{[]string{"snapshot", "b"}, "snapshot=b: must be the ARN"},
		{[]string{"maxStorageGB", "6000"}, "maxStorageGB=6000: must be a whole number from 1 to 5000"},
		{[]string{"maxECPUs", "10"}, "maxECPUs=10"},
		{[]string{"checkConcurrency", "-1"}, "checkConcurrency=-1"},
		{[]string{"nodeType", "r7g.large"}, "nodeType=r7g.large"},
		{[]string{"replicas", "6"}, "replicas=6"},
		{[]string{"valkeyVersion", "7.0"}, "valkeyVersion=7.0: must be one of 7.2, 8.0, 8.1, 8.2, 9.0, 9.1"},
		{[]string{"snapshotDays", "36"}, "snapshotDays=36"},
		{[]string{"adminMemory", "64"}, "adminMemory=64"},
		{[]string{"changesLockDays", "3651"}, "changesLockDays=3651: must be a whole number from 0 to 3650"},
		{[]string{"logDays", "8"}, "logDays=8: must be one of"},
		{[]string{"crossings", "sqs"}, "crossings=sqs: must be eventbridge or sns"},
		{[]string{"adminUser", "a b"}, "adminUser=a b"},
		{[]string{"adminUser", "none"}, "adminUser=none: leaves nobody to log in"},
		{[]string{"alarmEmail", "ops"}, "alarmEmail=ops"},
		{[]string{"tags.aws:x", "1"}, "tags=aws:x"},
		{[]string{"domain", "a.example.com"}, "certificate=: set both certificate and domain"},
		{[]string{"domain", "a.example.com", "certificate", "mine"}, "certificate=mine: must be the ARN"},
		{[]string{"directCallers", "arn:aws:iam::111122223333:role/*"},
			"directCallers=arn:aws:iam::111122223333:role/*"},
		{[]string{"directCallers", "arn:aws:iam::111122223333:role/a"}, "check.DIRECT_CALLS=: must be on"},
		{[]string{"check.NONSENSE", "1"}, "check.NONSENSE=1: is no variable of this function"},
		{[]string{"check.ADMIN_NETWORKS", "1"}, "check.ADMIN_NETWORKS=1: is no variable of this function"},
		{[]string{"check.KEY_PEPPER", "hush"},
			"check.KEY_PEPPER=…: the construct sets it: see the setting pepperSecret"},
		{[]string{"admin.OIDC_CLIENT_SECRET", "hush"}, "see the setting oidcSecret"},
		{[]string{"admin.FOREIGN_KEYS", "true"}, "set check.FOREIGN_KEYS: both functions get it"},
		{[]string{"check.IDENTITY_SOURCES", "key,cookie"},
			`IDENTITY_SOURCES is "key,cookie": must be one or more`},
		{[]string{"check.IDENTITY_SOURCES", "jwt"}, "JWT_ISSUER has 0 bytes|JWT_AUDIENCE has 0"},
		{[]string{"check.IPV4_PREFIX", "33"}, `IPV4_PREFIX is "33": must be a whole number from 8 to 32`},
		{also(tokens, "check.JWT_JWKS", "{}"), "JWT_JWKS: "},
		{also(tokens, "check.JWT_JWKS", aJWKS[:9]+strings.Repeat(" ", 3000)+aJWKS[9:]),
			"a function's environment has room for 3000"},
		{also(tokens, "check.JWT_JWKS", "", "check.JWT_JWKS_URL",
			"https://keys.s3.eu-west-1.amazonaws.com/jwks"),
			"check.JWT_JWKS_URL=https://keys.s3"},
		{also(tokens, "check.JWT_JWKS", "", "check.JWT_JWKS_URL", "http://127.0.0.1/keys"),
			"must be an https URL"},
		{[]string{"check.TRUSTED_PROXIES", "11"}, "TRUSTED_PROXIES is 11"},
		{[]string{"check.VALKEY_TIMEOUT", "3s"}, "check.VALKEY_TIMEOUT=3s: must be shorter"},
		{[]string{"check.SETTLE_WITHIN", "500ms"}, "check.SETTLE_WITHIN=500ms: is 500ms: must be 1s to 24h"},
		{[]string{"check.DENY_CACHE", "soon"}, "check.DENY_CACHE=soon: must be a duration such as"},
		{[]string{"check.HTTP_API_DENY", "429"}, "check.HTTP_API_DENY=429: must be deny or context"},
		{[]string{"check.FOREIGN_KEYS", "yes"}, "check.FOREIGN_KEYS=yes: must be true or false"},
		{[]string{"admin.SESSION_IDLE", "1s"}, "admin.SESSION_IDLE=1s: is 1s: must be 1m to 720h"},
		{[]string{"admin.SESSION_IDLE", "24h"}, "must not be shorter than SESSION_IDLE=24h0m0s"},
		{[]string{"admin.ADMIN_NETWORKS", "10.0.0.300/8"},
			`admin.ADMIN_NETWORKS=10.0.0.300/8: has "10.0.0.300/8"`},
		{[]string{"admin.OWNER_VIEW", "pages"}, "admin.OWNER_VIEW=pages: must be off or api"},
		{also(provider, "admin.OIDC_SCOPES", "email"), "admin.OIDC_SCOPES=email: must include openid"},
		{also(provider, "admin.OIDC_ISSUER", "https://a.example?x=1"), "must be an https URL"},
		{[]string{"admin.OIDC_ISSUER", "https://a.example"},
			"admin.OIDC_CLIENT_ID=: set both|oidcSecret=…: set both|admin.OIDC_EDITOR_VALUES=: set"},
		{[]string{"store", "x", "shards", "501"}, "store=x|shards=501"},
	} {
		_, err := given("dev", c.values...)
		for want := range strings.SplitSeq(c.want, "|") {
			if err == nil || !strings.Contains(err.Error(), want) {
				t.Errorf("%q: got %v\nwant %q", c.values, err, want)
			}
		}
		if err != nil && strings.Contains(err.Error(), "hush") {
			t.Errorf("%q: got %v, want an error without the secret", c.values, err)
		}
	}
	for _, stage := range []string{"Prod!", "production-eu", "dev--x", "prod-", "1prod", "prod_eu",
		"../prod"} {
		if _, err := ReadStage(t.TempDir(), stage); err == nil || !strings.Contains(err.Error(), wantStage) {
			t.Errorf("%s: got %v, want it refused", stage, err)
		}
	}
}

// Settings accept the minimum and the maximum of the functions' own bounds, and tokens of
// values that only deployment knows.
func TestSettingsAcceptTheirBounds(t *testing.T) {
	for _, values := range [][]string{
		{"check.VALKEY_TIMEOUT", "1ms", "check.CALLER_CACHE", "0s", "check.DENY_CACHE", "0s",
			"admin.SESSION_IDLE", "1m", "admin.SESSION_LIFETIME", "1m"},
		{"check.VALKEY_TIMEOUT", "2666ms", "check.CALLER_CACHE", "24h", "check.DENY_CACHE", "1m",
			"admin.SESSION_IDLE", "720h", "admin.SESSION_LIFETIME", "720h"},
		{"check.IPV4_PREFIX", "8", "check.IPV6_PREFIX", "128"},
		{"store", "url", "valkeyUrlSecret", "arn:aws:secretsmanager:eu-west-1:111122223333:secret:a-b"},
		{"vpc", "${Token[A.1]}", "subnets", "${Token[A.2]},${Token[A.3]}", "key", "${Token[A.4]}",
			"changesBucket", "${Token[A.5]}"},
	} {
		if _, err := given("dev", values...); err != nil {
			t.Errorf("%q: %v", values, err)
		}
	}
}

// Who needs the internet decides about NAT gateways, in an own network alone.
func TestGateways(t *testing.T) {
	issuers := `[{"issuer":"https://a.example","audience":["x","y"],"jwksUrl":"https://a.example/keys"}]`
	p := Default("prod")
	p.Check = map[string]string{"IDENTITY_SOURCES": "jwt", "JWT_ISSUERS": issuers}
	check, admin := p.Egress()
	if p.Gateways() != 2 || !check || admin || p.Validate() != nil {
		t.Errorf("got %d gateways, %t, %t, %v, want 2 for check", p.Gateways(), check, admin, p.Validate())
	}
	if p.Keep = false; p.Gateways() != 1 {
		t.Errorf("got %d gateways without keep, want 1", p.Gateways())
	}
	if p.Internet = IPv6; p.Gateways() != 0 || !p.OwnInternet() || p.Validate() != nil {
		t.Errorf("got %d gateways and %v over IPv6, want none", p.Gateways(), p.Validate())
	}
	if p.Internet = "none"; p.Validate() == nil || !strings.Contains(p.Validate().Error(), "nat or ipv6") {
		t.Errorf("got %v, want the ways to the internet", p.Validate())
	}
	p.Internet = NAT
	if p.VPC = "vpc-0a1b2c3d"; p.Gateways() != 0 || p.OwnInternet() {
		t.Errorf("got %d gateways in a network that exists, want none", p.Gateways())
	}
}

// docs/deploy.md has every setting.
func TestSettingsAreDocumented(t *testing.T) {
	document, err := os.ReadFile("../../docs/deploy.md")
	if err != nil {
		t.Fatal(err)
	}
	for part := range reflect.TypeFor[Props]().Fields() {
		fields := []reflect.StructField{part}
		if part.Anonymous {
			fields = reflect.VisibleFields(part.Type)
		}
		for _, field := range fields {
			if name := field.Tag.Get("json"); name != "-" &&
				!strings.Contains(string(document), "`"+name+"`") {
				t.Errorf("setting %s is not in docs/deploy.md", name)
			}
		}
	}
}
