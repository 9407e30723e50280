package main

import (
	"archive/zip"
	"cmp"
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/aws/aws-cdk-go/awscdk/v2/awslambda"

	"tidegate/infra/settings"
)

// scratch is the folder for the output of the tests' syntheses.
var scratch string

func TestMain(m *testing.M) {
	var err error
	if scratch, err = os.MkdirTemp("", "tidegate-infra"); err != nil {
		panic(err)
	}
	code := m.Run()
	_ = os.RemoveAll(scratch)
	os.Exit(code)
}

// everything turns every option on.
func everything() settings.Props {
	p := settings.Default("prod")
	p.Kind, p.Shards, p.Replicas, p.Version = settings.Nodes, 2, 2, "9.1"
	p.Zones = []string{"eu-west-1a", "eu-west-1b", "eu-west-1c"}
	p.Example, p.Tracing, p.Crossings, p.ChangesLockDays = true, true, settings.EventBridge, 365
	p.AlarmEmail, p.Tags = "ops@example.com", map[string]string{"team": "api", "centre": "42"}
	p.Domain, p.Certificate = "limits.example.com", "arn:aws:acm:eu-west-1:111122223333:certificate/1-2-3"
	p.Callers = []string{"arn:aws:execute-api:eu-west-1:444455556666:abc123/authorizers/def456"}
	p.DirectCallers = []string{"arn:aws:iam::444455556666:role/backend"}
	p.AdminUsersSecret, p.OIDCSecret = "login/users", "login/tidegate"
	p.Check = map[string]string{
		"IDENTITY_SOURCES": "key,jwt,ip", "JWT_ISSUER": "https://login.example.com", "JWT_AUDIENCE": "api",
		"JWT_JWKS_URL": "https://login.example.com/keys", "IPV4_PREFIX": "24", "IPV6_PREFIX": "56",
		"JWT_LEEWAY": "1m", "JWT_IDENTITY_CLAIM": "client_id", "JWT_PLAN_CLAIM": "plan",
		"JWT_PLAN_MAP": `{"gold":"pro"}`, "JWT_REQUIRED_CLAIMS": `{"token_use":"access"}`,
		"JWT_CONTEXT_CLAIMS": "email", "JWT_COOKIE": "session", "JWT_COOKIE_ORIGINS": "https://app.example.com",
		"TRUSTED_PROXIES": "cloudfront", "KEY_HEADERS": "x-api-key,apikey", "FOREIGN_KEYS": "true",
		"VALKEY_TIMEOUT": "200ms", "CALLER_CACHE": "1h", "DENY_CACHE": "0s", "SETTLE_WITHIN": "30m",
		"HTTP_API_DENY": "context", "DIRECT_CALLS": "on", "USAGE_IDENTIFIER": "true", "LOG_LEVEL": "warn",
	}
	p.Admin = map[string]string{
		"OIDC_ISSUER": "https://login.example.com", "OIDC_CLIENT_ID": "tidegate", "OIDC_EDITOR_VALUES": "ops",
		"OIDC_VIEWER_VALUES": "staff,guests", "OIDC_ROLE_CLAIM": "cognito:groups",
		"OIDC_SCOPES": "openid profile", "ADMIN_NETWORKS": "203.0.113.0/24,2001:db8::/32", "OWNER_VIEW": "api",
		"OWNER_NETWORKS": "0.0.0.0/0,::/0", "SESSION_IDLE": "15m", "SESSION_LIFETIME": "8h",
		"RELEASE": "v1.2.3", "LOG_LEVEL": "warn",
	}
	return p
}

// Synthesis takes seconds, so every template is synthesised once.
var (
	dev     = once(settings.Default("dev"))
	prod    = once(everything())
	minimal = once(settings.Default("prod"))
	// published is the template with parameters.
	published = sync.OnceValues(func() (template, error) {
		text, err := synthesiseTemplate(filepath.Join(scratch, "published"))
		made := template{text: text}
		return made, cmp.Or(err, json.Unmarshal(text, &made))
	})
)

func once(p settings.Props) func() (template, error) {
	return sync.OnceValues(func() (template, error) { return synthesised(p) })
}

// with returns props with changes.
func with(p settings.Props, change func(p *settings.Props)) settings.Props {
	change(&p)
	return p
}

func of(t *testing.T, build func() (template, error)) template {
	t.Helper()
	made, err := build()
	if err != nil {
		t.Fatal(err)
	}
	return made
}

// placeholder returns a zip that replaces a built function's.
func placeholder(name string) awslambda.Code {
	path := filepath.Join(scratch, name+".zip")
	if err := writeZip(path); err != nil {
		panic(err)
	}
	return awslambda.Code_FromAsset(&path, nil)
}

func writeZip(path string) error {
	file, err := os.Create(path)
	if err != nil {
		return err
	}
	archive := zip.NewWriter(file)
	if _, err := archive.Create("bootstrap"); err != nil {
		return err
	}
	if err := archive.Close(); err != nil {
		return err
	}
	return file.Close()
}

func synthesised(p settings.Props) (template, error) {
	folder, err := os.MkdirTemp(scratch, "assembly")
	if err != nil {
		return template{}, err
	}
	app, err := newApp(folder, nil)
	if err != nil {
		return template{}, err
	}
	if err := synthesise(app, func() { newStack(app, p, placeholder) }); err != nil {
		return template{}, err
	}
	text, err := os.ReadFile(filepath.Join(folder, p.Name()+".template.json"))
	if err != nil {
		return template{}, err
	}
	made := template{text: text}
	return made, json.Unmarshal(text, &made)
}

func sorted[V any](m map[string]V) []string { return slices.Sorted(maps.Keys(m)) }

// template is a CloudFormation template.
type template struct {
	Resources  map[string]resource
	Outputs    map[string]struct{ Value any }
	Parameters map[string]properties
	text       []byte
}

type resource struct {
	id                  string
	Type                string
	Properties          properties
	DeletionPolicy      string
	UpdateReplacePolicy string
	DependsOn           []string
}

type properties map[string]any

// all returns the resources of a type.
func (t template) all(kind string) []resource {
	var found []resource
	for _, id := range sorted(t.Resources) {
		if r := t.Resources[id]; r.Type == kind {
			r.id = id
			found = append(found, r)
		}
	}
	return found
}

// only returns the resource of a type whose id contains part. It fails the test unless
// there is exactly one.
func (t template) only(test *testing.T, kind, part string) resource {
	test.Helper()
	var found []resource
	for _, r := range t.all(kind) {
		if strings.Contains(r.id, part) {
			found = append(found, r)
		}
	}
	if len(found) != 1 {
		test.Fatalf("got %d of %s %s…, want 1", len(found), kind, part)
	}
	return found[0]
}

// at follows a path of keys and indices.
func (p properties) at(path ...any) any {
	var value any = map[string]any(p)
	for _, step := range path {
		switch key := step.(type) {
		case string:
			m, _ := value.(map[string]any)
			value = m[key]
		case int:
			list, _ := value.([]any)
			if key >= len(list) {
				return nil
			}
			value = list[key]
		}
	}
	return value
}

// text renders a value with its references as ${ID} or ${ID.Attribute}.
func text(value any) string {
	switch v := value.(type) {
	case nil:
		return ""
	case string:
		return v
	case map[string]any:
		return intrinsic(v)
	}
	return fmt.Sprint(value)
}

// intrinsic renders an object that is one intrinsic function.
func intrinsic(v map[string]any) string {
	for name := range maps.Keys(v) {
		argument := v[name]
		list, _ := argument.([]any)
		switch name {
		case "Ref":
			return "${" + text(argument) + "}"
		case "Fn::GetAtt":
			return "${" + text(list[0]) + "." + text(list[1]) + "}"
		case "Fn::Join":
			var parts []string
			items, _ := list[1].([]any)
			for _, item := range items {
				parts = append(parts, text(item))
			}
			return strings.Join(parts, text(list[0]))
		}
	}
	return fmt.Sprint(v)
}

// list returns a JSON value as a slice: a list itself, and another value as its only
// item.
func list(value any) []any {
	switch v := value.(type) {
	case nil:
		return nil
	case []any:
		return v
	}
	return []any{value}
}
