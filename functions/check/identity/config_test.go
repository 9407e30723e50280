package identity

import (
	"strings"
	"testing"
	"time"

	"tidegate/internal/config"
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
		"JWT_IDENTITY_CLAIM=client_id", "JWT_PLAN_CLAIM=tier", "JWT_LEEWAY=1m", "IPV4_PREFIX=24",
		"IPV6_PREFIX=56")
	if err != nil {
		t.Fatal(err)
	}
	j := got.JWT
	if len(got.Sources) != 3 || got.Sources[0] != JWT || got.Sources[2] != IP || got.IPv4Bits != 24 ||
		got.IPv6Bits != 56 || j.Issuer != issuer ||
		strings.Join(j.Audiences, "|") != "a|b" || j.KeysURL.Host != "issuer.example" ||
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
		"JWT_JWKS=" + string(keySet())}
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
		{"IPV4_PREFIX=33", []string{"IPV4_PREFIX", `"33"`, "from 8 to 32"}},
		{"IPV4_PREFIX=x", []string{"IPV4_PREFIX", "from 8 to 32"}},
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
	_, err = read("IDENTITY_SOURCES=jwt", "IPV4_PREFIX=0", "IPV6_PREFIX=0")
	for _, name := range []string{"JWT_ISSUER", "JWT_AUDIENCE", "JWT_JWKS_URL", "IPV4_PREFIX",
		"IPV6_PREFIX"} {
		if err == nil || !strings.Contains(err.Error(), name) {
			t.Errorf("got %v, want it to name %s", err, name)
		}
	}
}
