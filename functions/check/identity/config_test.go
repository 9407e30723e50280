package identity

import (
	"strings"
	"testing"
	"time"

	"tidegate/internal/config"
	"tidegate/internal/jwt"
)

func read(variables ...string) (Config, error) {
	v, problems := config.Read[Variables](variables)
	if err := problems.Err(); err != nil {
		return Config{}, err
	}
	return v.Config()
}

func TestDefaultsAreKeysAlone(t *testing.T) {
	got, err := read()
	if err != nil || len(got.Sources) != 1 || got.Sources[0] != Key || got.IPv4Bits != 32 ||
		got.IPv6Bits != 64 {
		t.Errorf("%+v, %v", got, err)
	}
}

func TestVariables(t *testing.T) {
	got, err := read("IDENTITY_SOURCES= jwt , key,ip", "JWT_ISSUER="+issuer, "JWT_AUDIENCE=a, b",
		"JWT_JWKS_URL=https://issuer.example/keys",
		"JWT_IDENTITY_CLAIM=client_id", "JWT_PLAN_CLAIM=tier", `JWT_PLAN_MAP={"gold":"pro"}`,
		`JWT_REQUIRED_CLAIMS={"token_use":"access"}`, "JWT_LEEWAY=1m", "IPV4_PREFIX=24", "IPV6_PREFIX=56")
	if err != nil {
		t.Fatal(err)
	}
	j := got.JWT.Issuers[0]
	if len(got.Sources) != 3 || got.Sources[0] != JWT || got.Sources[2] != IP || got.IPv4Bits != 24 ||
		got.IPv6Bits != 56 || len(got.JWT.Issuers) != 1 || j.Name != issuer ||
		strings.Join(j.Audiences, "|") != "a|b" || j.KeysURL.Host != "issuer.example" ||
		j.Plans["gold"] != "pro" || j.RequiredClaims["token_use"] != "access" ||
		j.IdentityClaim != "client_id" || j.PlanClaim != "tier" ||
		j.Leeway != time.Minute {
		t.Errorf("%+v", got)
	}
	got.Pepper = pepper
	if _, err := New(got); err != nil {
		t.Error(err)
	}
}

// The error names each bad variable and its bound, and does not contain a secret.
func TestBadVariables(t *testing.T) {
	tokens := []string{"IDENTITY_SOURCES=jwt", "JWT_ISSUER=" + issuer, "JWT_AUDIENCE=a",
		"JWT_JWKS=" + signingKey.Set()}
	for _, c := range []struct {
		set  string
		want []string
	}{
		{"IDENTITY_SOURCES=password", []string{"IDENTITY_SOURCES", `"password"`, "key, jwt and ip"}},
		{"IDENTITY_SOURCES=,", []string{"IDENTITY_SOURCES", "key, jwt and ip"}},
		{"IDENTITY_SOURCES=key,key", []string{"IDENTITY_SOURCES", "key once only"}},
		{"IDENTITY_SOURCES=ip,jwt", []string{"IDENTITY_SOURCES", "ip must stand last"}},
		{"IDENTITY_SOURCES=key", []string{"JWT_ISSUER is set", "IDENTITY_SOURCES"}},
		{"JWT_ISSUER=", []string{"JWT_ISSUER has 0 bytes", "1 to 512"}},
		{"JWT_ISSUER=" + strings.Repeat("i", 513), []string{"JWT_ISSUER has 513 bytes", "1 to 512"}},
		{"JWT_AUDIENCE=", []string{"JWT_AUDIENCE has 0 bytes"}},
		{"JWT_AUDIENCE=a,,b", []string{"JWT_AUDIENCE has 0 bytes"}},
		{"JWT_AUDIENCE=" + strings.Repeat("a,", 16) + "a",
			[]string{"JWT_AUDIENCE has 17 audiences", "1 to 16"}},
		{"JWT_JWKS=", []string{"JWT_JWKS_URL and JWT_JWKS", "exactly one"}},
		{"JWT_JWKS=secret", []string{"JWT_JWKS", "not JSON"}},
		{"JWT_JWKS_URL=https://issuer.example/keys", []string{"JWT_JWKS_URL and JWT_JWKS", "exactly one"}},
		{"JWT_IDENTITY_CLAIM=" + strings.Repeat("i", 513), []string{"JWT_IDENTITY_CLAIM has 513 bytes"}},
		{"JWT_PLAN_CLAIM=" + strings.Repeat("i", 513), []string{"JWT_PLAN_CLAIM has 513 bytes", "0 to 512"}},
		{"JWT_LEEWAY=10", []string{"JWT_LEEWAY", `"10"`, "0s to 5m0s"}},
		{"JWT_LEEWAY=6m", []string{"JWT_LEEWAY", "0s to 5m0s"}},
		{"JWT_LEEWAY=-1s", []string{"JWT_LEEWAY", "0s to 5m0s"}},
		{"JWT_REQUIRED_CLAIMS=token_use=access", []string{"JWT_REQUIRED_CLAIMS has 16 bytes",
			`{"CLAIM": "TEXT"}`}},
		{`JWT_REQUIRED_CLAIMS={"token_use":7}`, []string{"JWT_REQUIRED_CLAIMS has 15 bytes"}},
		{`JWT_REQUIRED_CLAIMS={"token_use":""}`, []string{`claim "token_use" in JWT_REQUIRED_CLAIMS has 0 bytes`}},
		{`JWT_REQUIRED_CLAIMS={"a":"b","c":"d","e":"f","g":"h","i":"j","k":"l","m":"n","o":"p","q":"r"}`,
			[]string{"JWT_REQUIRED_CLAIMS has 9 claims: must have at most 8"}},
		{"JWT_PLAN_MAP=gold=pro", []string{"JWT_PLAN_MAP has 8 bytes", `{"GROUP": "PLAN"}`}},
		{"JWT_PLAN_MAP=null", []string{"JWT_PLAN_MAP has 4 bytes"}},
		{`JWT_PLAN_MAP={"gold":"pro","gold":"free"}`, []string{"JWT_PLAN_MAP has 28 bytes", "twice"}},
		{`JWT_PLAN_MAP={"gold":"pro"}`, []string{"JWT_PLAN_MAP has 1 groups", "JWT_PLAN_CLAIM"}},
		{"JWT_ISSUER=https://a.example/{tenantid}", []string{"JWT_ISSUER: tenants: got 0"}},
		{`JWT_ISSUERS=[{"issuer":"a","audience":"b","jwksUrl":"https://a.example"}]`,
			[]string{"JWT_ISSUER is set beside JWT_ISSUERS", "JWT_JWKS is set beside", "JWT_AUDIENCE is"}},
		{`JWT_ISSUERS=[{"planMap":{"gold":"pro","gold":"free"}}]`,
			[]string{"JWT_ISSUERS has 1 issuers, with a member that is given twice"}},
		{"IDENTITY_SOURCES=jwt+key", []string{"IDENTITY_SOURCES", "key, jwt and ip"}},
		{"KEY_HEADERS=apikey,Authorization", []string{`KEY_HEADERS has "authorization"`, "read anyway"}},
		{"KEY_HEADERS=a b", []string{`KEY_HEADERS has "a b"`}},
		{"KEY_HEADERS=a,b,c,d,e,f,g,h,i", []string{"KEY_HEADERS has 9 names", "at most 8"}},
		{"JWT_COOKIE=session", []string{`JWT_COOKIE_ORIGINS has ""`}},
		{"JWT_COOKIE_ORIGINS=https://a.example", []string{"without JWT_COOKIE"}},
		{"JWT_CONTEXT_CLAIMS=a,,b", []string{"claim in JWT_CONTEXT_CLAIMS has 0 bytes", "1 to 64"}},
		{"JWT_CONTEXT_CLAIMS=a.b,a_b", []string{"claim_a_b twice"}},
		{"JWT_CONTEXT_CLAIMS=a,b,c,d,e,f,g,h,i", []string{"has 9 claims", "at most 8"}},
		{"IPV4_PREFIX=33", []string{"IPV4_PREFIX", `"33"`, "from 8 to 32"}},
		{"IPV4_PREFIX=x", []string{"IPV4_PREFIX", "from 8 to 32"}},
		{"TRUSTED_PROXIES=0", []string{"TRUSTED_PROXIES is 0", "1 to 10"}},
		{"TRUSTED_PROXIES=11", []string{"TRUSTED_PROXIES is 11", "1 to 10"}},
		{"TRUSTED_PROXIES=CDN", []string{"TRUSTED_PROXIES has \"CDN\"", "cloudfront", "number of proxies"}},
		{"TRUSTED_PROXIES=0.0.0.0/0", []string{"TRUSTED_PROXIES trusts every network"}},
		{"TRUSTED_PROXIES=::/0", []string{"TRUSTED_PROXIES trusts every network"}},
		{"IPV6_PREFIX=15", []string{"IPV6_PREFIX", "from 16 to 128"}},
	} {
		_, err := read(append(tokens[:len(tokens):len(tokens)], c.set)...)
		if err == nil {
			t.Errorf("%.40s was accepted", c.set)
			continue
		}
		for _, part := range c.want {
			if !strings.Contains(err.Error(), part) || strings.Contains(err.Error(), "secret") {
				t.Errorf("%.40s: got %v, want it to contain %q and no secret", c.set, err, part)
			}
		}
	}
	_, err := read("IDENTITY_SOURCES=jwt", "JWT_ISSUER=i", "JWT_AUDIENCE=a",
		"JWT_JWKS_URL=http://issuer.example/keys")
	if err == nil || !strings.Contains(err.Error(),
		"JWT_JWKS_URL is http://issuer.example/keys: must be https") {
		t.Errorf("got %v", err)
	}
	for variables, want := range map[[2]string]string{
		{"JWT_COOKIE=a", "JWT_COOKIE_ORIGINS=https://a.example"}:   "jwt is not among IDENTITY_SOURCES",
		{"JWT_COOKIE=a b", "JWT_COOKIE_ORIGINS=https://a.example"}: `JWT_COOKIE is "a b"`,
		{"JWT_COOKIE=a", "JWT_COOKIE_ORIGINS=*"}:                   `JWT_COOKIE_ORIGINS has "*"`,
		{"JWT_COOKIE=a", "JWT_COOKIE_ORIGINS=https://a.example/"}:  "JWT_COOKIE_ORIGINS has",
	} {
		given := variables[:]
		if !strings.HasPrefix(want, "jwt") {
			given = append(tokens[:len(tokens):len(tokens)], given...)
		}
		if _, err := read(given...); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v: got %v, want %s", variables, err, want)
		}
	}
	_, err = read("IDENTITY_SOURCES=jwt", "IPV4_PREFIX=0", "IPV6_PREFIX=0")
	for _, name := range []string{"JWT_ISSUER", "JWT_AUDIENCE", "JWT_JWKS_URL", "IPV4_PREFIX",
		"IPV6_PREFIX"} {
		if err == nil || !strings.Contains(err.Error(), name) {
			t.Errorf("got %v, want it to name %s", err, name)
		}
	}
}

// issuersOf returns the settings of JWT_ISSUERS.
func issuersOf(list string, more ...string) ([]jwt.Issuer, error) {
	got, err := read(append([]string{"IDENTITY_SOURCES=jwt", "JWT_ISSUERS=" + list}, more...)...)
	return got.JWT.Issuers, err
}

// Each issuer of a list has its own settings; the single variables are the defaults of
// claims, plans and leeway.
func TestIssuers(t *testing.T) {
	got, err := issuersOf(`[{"issuer": "https://a.example", "audience": "x", "jwks": `+signingKey.Set()+`,
		"identityClaim": "email", "planClaim": "roles", "planMap": {"staff": "internal"}, "leeway": "0s",
		"requiredClaims": {"typ": "Bearer"},
		"algorithms": ["RS256"]},
		{"issuer": "https://login.example/{tenantid}/v2.0", "tenants": ["t1", "t2"], "audience": ["y", "z"],
		"jwksUrl": "https://login.example/keys"}]`,
		"JWT_IDENTITY_CLAIM=oid", "JWT_PLAN_CLAIM=groups", `JWT_PLAN_MAP={"gold":"pro"}`, "JWT_LEEWAY=1m",
		`JWT_REQUIRED_CLAIMS={"token_use":"access"}`)
	if err != nil || len(got) != 2 {
		t.Fatalf("got %d issuers, %v", len(got), err)
	}
	a, b := got[0], got[1]
	if a.Keys.Len() == 0 || a.IdentityClaim != "email" || a.PlanClaim != "roles" ||
		a.Plans["staff"] != "internal" || a.Plans["gold"] != "" || a.Leeway != 0 ||
		a.Algorithms[0] != "RS256" || a.RequiredClaims["typ"] != "Bearer" || len(a.RequiredClaims) != 1 {
		t.Errorf("the first issuer is %+v", a)
	}
	if len(b.Tenants) != 2 || len(b.Audiences) != 2 || b.KeysURL == nil || b.IdentityClaim != "oid" ||
		b.PlanClaim != "groups" || b.Plans["gold"] != "pro" || b.Leeway != time.Minute ||
		b.RequiredClaims["token_use"] != "access" {
		t.Errorf("the second issuer is %+v", b)
	}
}

// The error says which issuer and member of the list is wrong, and quotes no keys.
func TestBadIssuers(t *testing.T) {
	const good = `"issuer":"a","audience":"b","jwksUrl":"https://a.example"`
	for list, want := range map[string]string{
		"secret":                                  "JWT_ISSUERS has 0 issuers: must be a JSON list of 1 to 8",
		"[]":                                      "JWT_ISSUERS has 0 issuers",
		`{` + good + `}`:                          "must be a JSON list",
		`[{` + good + `}] [1]`:                    "must be a JSON list",
		`[{"audiences":["secret"]}]`:              `with the unknown member "audiences"`,
		`[{"leeway":5}]`:                          `with "leeway" of another type`,
		`[{` + good + `},{"jwks":"secret"}]`:      "JWT_ISSUERS: issuer of issuer 2 has 0 bytes: must have 1",
		`[{` + good + `,"jwks":{"keys":[]}}]`:     "jwksUrl of issuer 1 and JWT_ISSUERS: jwks of issuer 1: exactly one",
		`[{` + good + `,"leeway":"1h"}]`:          "JWT_ISSUERS: leeway of issuer 1 is \"1h\": must be 0s to 5m0s",
		`[{` + good + `,"planMap":{"a":"b"}}]`:    "planMap of issuer 1 has 1 groups",
		`[{` + good + `,"algorithms":["HS256"]}]`: `algorithms: "HS256" is none of RS256`,
		`[{` + good + `,"tenants":["t"]}]`:        "tenants: got 1",
		"[" + strings.Repeat("{},", 8) + "{}]":    "JWT_ISSUERS has 9 issuers",
	} {
		_, err := issuersOf(list)
		if err == nil || !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), "secret") {
			t.Errorf("%.60s: got %v, want %q and no secret", list, err, want)
		}
	}
	if _, err := read(`JWT_ISSUERS=[{` + good + `}]`); err == nil {
		t.Error("issuers were accepted although jwt is no source")
	}
}
