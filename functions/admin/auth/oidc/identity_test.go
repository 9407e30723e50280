package oidc

import (
	"errors"
	"strings"
	"testing"
	"time"

	"tidegate/functions/admin/auth"
)

// A role comes from a whole value of the claim, which may be a text, a list, an object's name, or
// nested.
func TestRoleFromClaim(t *testing.T) {
	nested := map[string]any{"realm_access": map[string]any{"roles": []any{"staff", 7, "ops"}}}
	zitadel := map[string]any{"urn:zitadel:iam:org:project:roles": map[string]any{
		"ops": map[string]any{"312000": "shop.example"}}}
	rows := []struct {
		claim   string
		claims  map[string]any
		want    auth.Role
		present bool
	}{
		{"groups", map[string]any{"groups": []any{"ops"}}, auth.Editor, true},
		{"groups", map[string]any{"groups": "staff"}, auth.Viewer, true},
		{"groups", map[string]any{"groups": []any{"staff", "ops"}}, auth.Editor, true},
		{"groups", map[string]any{"groups": []any{"OPS", "ops ", "opsx", "x,ops"}}, auth.Nobody, true},
		{"groups", map[string]any{"groups": ""}, auth.Nobody, true},
		{"groups", map[string]any{"groups": []any{}}, auth.Nobody, true},
		{"groups", map[string]any{"groups": nil}, auth.Nobody, false},
		{"groups", map[string]any{"groups": map[string]any{"ops": true}}, auth.Editor, true},
		{"groups", map[string]any{"groups": map[string]any{"ops": false, "staff": nil}}, auth.Nobody, true},
		{"groups", map[string]any{"groups": map[string]any{"staff": map[string]any{"ops": 1}}},
			auth.Viewer, true},
		{"urn:zitadel:iam:org:project:roles", zitadel, auth.Editor, true},
		{"groups", map[string]any{"Groups": "ops"}, auth.Nobody, false},
		{"cognito:groups", map[string]any{"cognito:groups": []any{"ops"}}, auth.Editor, true},
		{"https://example.com/roles", map[string]any{"https://example.com/roles": "ops"}, auth.Editor, true},
		{"realm_access.roles", nested, auth.Editor, true},
		{"realm_access.groups", nested, auth.Nobody, false},
		{"resource_access.shop.example.com.roles", map[string]any{"resource_access": map[string]any{
			"shop": "x", "shop.example.com": map[string]any{"roles": "ops"}}}, auth.Editor, true},
		{"realm_access.roles.x", nested, auth.Nobody, false},
	}
	for _, row := range rows {
		c := Config{RoleClaim: row.claim, EditorValues: []string{"ops", ""}, ViewerValues: []string{"staff"}}
		role, present := c.role(row.claims), c.refusal(row.claims).Present
		if role != row.want || present != row.present {
			t.Errorf("%s in %v: got %v %v, want %v %v", row.claim, row.claims, role, present,
				row.want, row.present)
		}
	}
}

func TestCheckURL(t *testing.T) {
	for _, good := range []string{
		"https://login.example.com", "https://login.example.com/realms/x/", "http://127.0.0.1:80",
		"http://localhost:1", "http://[::1]:1",
	} {
		if err := CheckURL(good); err != nil {
			t.Errorf("%s: %v", good, err)
		}
	}
	for _, bad := range []string{
		"", "login.example.com", "http://login.example.com", "ftp://x", "https://", "https://u:p@x",
		"https://x?y=1", "https://x#y", "javascript:alert(1)",
		"http://127.0.0.1.example.com", "://",
	} {
		if err := CheckURL(bad); err == nil {
			t.Errorf("%s is accepted", bad)
		}
	}
}

func TestNewRefuses(t *testing.T) {
	good := Config{Issuer: "https://x", ClientID: "c", RedirectURL: "https://y/cb", RoleClaim: "groups",
		EditorValues: []string{"ops"}}
	if _, err := New(good, secret); err != nil {
		t.Fatal(err)
	}
	for name, spoil := range map[string]func(*Config){
		"issuer":   func(c *Config) { c.Issuer = "http://x" },
		"redirect": func(c *Config) { c.RedirectURL = "/cb" },
		"client":   func(c *Config) { c.ClientID = "" },
		"claim":    func(c *Config) { c.RoleClaim = "" },
		"values":   func(c *Config) { c.EditorValues = nil },
	} {
		bad := good
		spoil(&bad)
		if _, err := New(bad, secret); err == nil {
			t.Errorf("%s: an invalid value is accepted", name)
		}
	}
	changed := good
	changed.EditorValues = []string{"leads"}
	if good.fingerprint() == changed.fingerprint() || good.fingerprint() != (Config{
		Issuer: "https://x", ClientID: "c", ClientSecret: "rotated", RedirectURL: "https://y/cb",
		RoleClaim: "groups", EditorValues: []string{"ops"},
	}).fingerprint() {
		t.Error("the fingerprint must change with the values of roles, and not with the secret")
	}
}

// A subject that is empty, too long or not printable is refused, so that no two users
// have the same id.
func TestSubjects(t *testing.T) {
	p := newProvider(t, Config{Issuer: "https://x", ClientID: "c"})
	claims := map[string]any{"groups": "ops"}
	if got, err := p.identify("a b|ü", claims, "/"); err != nil || got.Actor.ID != "oidc:a b|ü" {
		t.Errorf("got %+v, %v, want the id oidc:a b|ü", got, err)
	}
	for _, subject := range []string{"", "a\x00", "\xff", "a\u202eb", strings.Repeat("s", maxID+1)} {
		if got, err := p.identify(subject, claims, "/"); !isKind(err, invalid) || got.Actor.Known() {
			t.Errorf("%q: got %+v, %v, want a TokenError", subject, got, err)
		}
	}
}

// The cookie of a login in progress fits into a browser's limit, even with the longest
// address to return to.
func TestFlowFitsACookie(t *testing.T) {
	p, err := New(Config{Issuer: "https://x", ClientID: "c", ClientSecret: "s", RedirectURL: "https://y/cb",
		RoleClaim: "groups", EditorValues: []string{"ops"}}, secret)
	if err != nil {
		t.Fatal(err)
	}
	want, now := newFlow("/keys?"+strings.Repeat("&", 1990)), time.Now()
	text, err := p.sealer.Seal(flowLabel, want, now.Add(FlowLife))
	var got flow
	if err != nil || len(text) > 3800 || !p.sealer.Open(flowLabel, text, &got, now) || got != want {
		t.Errorf("got %d bytes, %v and %+v, want at most 3800 and %+v", len(text), err, got, want)
	}
}

// Names to display are bounded and printable.
func TestNames(t *testing.T) {
	if got := nameIn(map[string]any{"preferred_username": "  ", "email": "a\u202eb\x00"},
		"s"); got != "a�b�" {
		t.Errorf("got %q, want the printable characters of the email", got)
	}
	if got := nameIn(map[string]any{}, strings.Repeat("s", 1000)); len([]rune(got)) != maxName {
		t.Errorf("got %d characters, want %d", len([]rune(got)), maxName)
	}
}

// An e-mail address gives a role only if the provider says that it has verified it.
func TestEmailMustBeVerified(t *testing.T) {
	p := newProvider(t, Config{Issuer: "https://x", ClientID: "c"})
	p.config.RoleClaim, p.config.EditorValues = "email", []string{"ada@example.com"}
	for name, c := range map[string]struct {
		verified any
		want     bool
	}{
		"true": {true, true}, "the text true": {"true", true}, "false": {false, false},
		"the text false": {"false", false}, "absent": {nil, false}, "a number": {1.0, false},
	} {
		claims := map[string]any{"email": "ada@example.com"}
		if c.verified != nil {
			claims["email_verified"] = c.verified
		}
		got, err := p.identify("s", claims, "/")
		refused, ok := errors.AsType[*NoRoleError](err)
		if c.want != (got.Actor.Role == auth.Editor) || !c.want && (!ok || !refused.Unverified) {
			t.Errorf("%s: got %+v, %v, want a role: %t", name, got, err, c.want)
		}
	}
}

// A refusal names what came: up to ten values, what the claim is if it has none, and the
// value that is nearly right. Its error, for the log, names the values that give a role too.
func TestRefusalNamesValues(t *testing.T) {
	c := Config{RoleClaim: "groups", EditorValues: []string{"ops"}, ViewerValues: []string{"staff"}}
	many := make([]any, 12)
	for i := range many {
		many[i] = strings.Repeat("g", 100)
	}
	for name, row := range map[string]struct {
		value any
		text  string // of the error
		near  string
	}{
		"values":        {[]any{"guests", "x\x00"}, `it is ["guests" "x�"] and 0 more`, ""},
		"many":          {many, "and 2 more", ""},
		"case":          {[]any{"guests", " Ops"}, "guests", " Ops"},
		"a number":      {7.0, "it is a number", ""},
		"an empty list": {[]any{}, "it is an empty list", ""},
		"objects":       {[]any{map[string]any{"name": "ops"}}, "it is a list without texts", ""},
		"empty":         {"", "it is empty", ""},
	} {
		e := c.refusal(map[string]any{"groups": row.value})
		if !strings.Contains(e.Error(), row.text) || e.Near != row.near || len(e.Values) > maxValues ||
			!strings.Contains(e.Error(), `editors need one of ["ops"], viewers one of ["staff"]`) {
			t.Errorf("%s: got %v, near %q, want %q and near %q", name, e, e.Near, row.text, row.near)
		}
	}
	if e := c.refusal(nil); !strings.Contains(e.Error(), "it is absent") {
		t.Errorf("got %v, want absent", e)
	}
}

// A claim that the provider left out because it is too long is named as such.
func TestOverageIsNamed(t *testing.T) {
	p := newProvider(t, Config{Issuer: "https://x", ClientID: "c"})
	for claim, want := range map[string]bool{"groups": true, "wids": false} {
		_, err := p.identify("s", map[string]any{"_claim_names": map[string]any{claim: "src1"}}, "/")
		if refused, ok := errors.AsType[*NoRoleError](err); !ok || refused.Overage != want {
			t.Errorf("%s: got %v, want overage %t", claim, err, want)
		}
	}
}
