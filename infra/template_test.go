package main

import (
	"archive/zip"
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/aws/aws-cdk-go/awscdk/v2"
	"github.com/aws/aws-cdk-go/awscdk/v2/awslambda"
	"github.com/aws/jsii-runtime-go"

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

// everything has flags that turn every option on.
var everything = map[string]string{
	"stage":                "prod",
	"store":                "nodes",
	"example":              "true",
	"crossings":            "eventbridge",
	"changesLockDays":      "365",
	"alarmEmail":           "ops@example.com",
	"tags":                 "team=api,centre=42",
	"oidcIssuer":           "https://login.example.com",
	"oidcClientId":         "tidegate",
	"oidcSecretName":       "login/tidegate",
	"oidcEditors":          "ops",
	"oidcViewers":          "staff,guests",
	"identity":             "key,jwt,ip",
	"jwtIssuer":            "https://login.example.com",
	"jwtAudience":          "api",
	"jwtJwksUrl":           "https://login.example.com/keys",
	"domain":               "limits.example.com",
	"certificate":          "arn:aws:acm:eu-west-1:111122223333:certificate/1-2-3",
	"zone":                 "example.com",
	"zoneId":               "Z123",
	"callers":              "arn:aws:execute-api:eu-west-1:444455556666:abc123/authorizers/def456",
	"ipv4Prefix":           "24",
	"ipv6Prefix":           "56",
	"jwtLeeway":            "1m",
	"jwtIdentityClaim":     "client_id",
	"jwtPlanClaim":         "plan",
	"trustedProxies":       "cloudfront",
	"jwtPlanMap":           `{"gold":"pro"}`,
	"jwtRequiredClaims":    `{"token_use":"access"}`,
	"oidcRoleClaim":        "cognito:groups",
	"oidcScopes":           "openid,profile",
	"storeTimeout":         "200ms",
	"callerCache":          "1h",
	"denyCache":            "0s",
	"settleWithin":         "30m",
	"httpApiDeny":          "context",
	"directCalls":          "on",
	"keyHeaders":           "x-api-key,apikey",
	"jwtContextClaims":     "email",
	"jwtCookie":            "session",
	"jwtCookieOrigins":     "https://app.example.com",
	"directCallers":        "arn:aws:iam::444455556666:role/backend",
	"usageIdentifier":      "true",
	"foreignKeys":          "true",
	"corsOrigin":           "https://app.example.com",
	"adminUsersSecretName": "login/users",
	"adminNetworks":        "203.0.113.0/24,2001:db8::/32",
	"ownerView":            "api",
	"ownerNetworks":        "0.0.0.0/0,::/0",
	"sessionIdle":          "15m",
	"sessionLifetime":      "8h",
	"release":              "v1.2.3",
	"zones":                "eu-west-1a,eu-west-1b,eu-west-1c",
	"shards":               "2",
	"replicas":             "2",
	"valkeyVersion":        "9.1",
	"valkeyDurability":     "sync",
	"tracing":              "true",
}

// Synthesis takes seconds, so every template is synthesised once.
var (
	dev     = once(nil)
	prod    = once(everything)
	minimal = once(map[string]string{"stage": "prod"})
)

func once(flags map[string]string) func() (template, error) {
	return sync.OnceValues(func() (template, error) { return synthesised(flags) })
}

func of(t *testing.T, build func() (template, error)) template {
	t.Helper()
	made, err := build()
	if err != nil {
		t.Fatal(err)
	}
	return made
}

// newApp returns an app with the context of cdk.json and more, and its output folder.
func newApp(context map[string]any) (awscdk.App, string, error) {
	text, err := os.ReadFile("cdk.json")
	if err != nil {
		return nil, "", err
	}
	var config struct{ Context map[string]any }
	if err := json.Unmarshal(text, &config); err != nil {
		return nil, "", err
	}
	for name, value := range context {
		config.Context[name] = value
	}
	folder, err := os.MkdirTemp(scratch, "assembly")
	return awscdk.NewApp(&awscdk.AppProps{
		Context: &config.Context, Outdir: &folder, AnalyticsReporting: jsii.Bool(false),
	}), folder, err
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

func synthesised(flags map[string]string) (template, error) {
	app, folder, err := newApp(nil)
	if err != nil {
		return template{}, err
	}
	props, err := settings.Read(flags)
	if err != nil {
		return template{}, err
	}
	stack, err := synthesise(app, props, placeholder)
	if err != nil {
		return template{}, err
	}
	text, err := os.ReadFile(filepath.Join(folder, stack.props.Name()+".template.json"))
	if err != nil {
		return template{}, err
	}
	made := template{text: text}
	return made, json.Unmarshal(text, &made)
}

func sorted[V any](m map[string]V) []string { return slices.Sorted(maps.Keys(m)) }

// template is a CloudFormation template.
type template struct {
	Resources map[string]resource
	Outputs   map[string]struct{ Value any }
	text      []byte
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

// only returns the resource of a type whose id begins with prefix. It fails the test
// unless there is exactly one.
func (t template) only(test *testing.T, kind, prefix string) resource {
	test.Helper()
	var found []resource
	for _, r := range t.all(kind) {
		if strings.HasPrefix(r.id, prefix) {
			found = append(found, r)
		}
	}
	if len(found) != 1 {
		test.Fatalf("got %d of %s %s…, want 1", len(found), kind, prefix)
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
