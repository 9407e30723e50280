package house

import (
	"fmt"
	"strings"
)

// direction says what packages may not import. A pattern ends in /… for all below it; std
// stands for the standard library.
type direction struct {
	of, except []string
	not        []string
	only       []string // when set, all that they may import
	inTests    bool
	why        string
}

var (
	web = []string{"net/http/…", "html/template", "text/template", "github.com/a-h/templ/…", "tidegate/web/…"}
	aws = []string{"github.com/aws/…"}
	// forTests only help tests.
	forTests = []string{
		"tidegate/functions/admin/server/sitetest",
		"tidegate/internal/testing/browsertest",
		"tidegate/internal/testing/leaks",
		"tidegate/internal/testing/oidctest",
		"tidegate/internal/testing/s3test",
		"tidegate/internal/testing/waiting",
		"tidegate/internal/testing/valkeytest",
	}
	cdk = []string{"github.com/aws/aws-cdk-go/…", "github.com/aws/constructs-go/…",
		"github.com/aws/jsii-runtime-go/…",
		"github.com/cdklabs/cdk-nag-go/…"}
)

var directions = []direction{
	{
		of: []string{"tidegate/internal/limiter/…", "tidegate/internal/policy/…"}, not: append(web, aws...),
		why: "the limiter and its policies know no AWS, HTTP or template",
	},
	{
		of: []string{"tidegate/internal/limiter/…"},
		not: []string{"tidegate/internal/policy/…", "tidegate/internal/store/…",
			"tidegate/internal/apikey/…"},
		why: "policy imports limiter",
	},
	{
		of: []string{"tidegate/internal/accuracy/…"}, only: []string{"std", "tidegate/internal/limiter"},
		why: "the accuracy lab is plain arithmetic over the models",
	},
	{
		of: []string{"tidegate/internal/testing/rolling"}, only: []string{"std"},
		why: "whether a window was too full is plain arithmetic over times",
	},
	{
		of: []string{"tidegate/local/bench/load/report"}, only: []string{"std", "github.com/a-h/templ/…"},
		why: "a report is plain data that the load tool fills in",
	},
	{
		of: []string{"tidegate/internal/usage/…"}, not: append([]string{"regexp"}, append(web, aws...)...),
		why: "usage counts what it is told, and starts in no time",
	},
	{
		of: []string{"tidegate/internal/usage/…"}, not: []string{"tidegate/internal/policy/…",
			"tidegate/internal/limiter/…", "tidegate/internal/store"},
		why: "usage counts what it is told",
	},
	{
		of: []string{"tidegate/internal/answer/…"}, not: append(web, aws...),
		why: "what clients get is words, whoever sends them",
	},
	{
		of:   []string{"tidegate/internal/telemetry/…", "tidegate/internal/testing/leaks/…"},
		only: []string{"std"},
		why:  "telemetry only writes what it is told",
	},
	{
		of: []string{"tidegate/internal/telemetry/…"}, not: append([]string{"regexp"}, web...),
		why: "a check starts with what it needs",
	},
	{
		of: []string{"tidegate/internal/route/…"}, only: []string{"std"},
		why: "matching a route is plain arithmetic over text",
	},
	{
		of: []string{"tidegate/internal/route/…"}, not: web,
		why: "matching a route needs no server",
	},
	{
		of: []string{"tidegate/internal/apikey/…"}, only: []string{"std", "tidegate/internal/apikey"},
		why: "a caller's id is a hash",
	},
	{
		of: []string{"tidegate/internal/jwt/…"}, only: []string{"std", "github.com/go-jose/…"},
		why: "a token is verified without the store and without AWS",
	},
	{
		of: []string{"tidegate/internal/policy/…"}, only: []string{
			"std", "tidegate/internal/apikey", "tidegate/internal/limiter", "tidegate/internal/route",
		},
		why: "the policy's model is pure: no Valkey, no clock",
	},
	{
		of:  []string{"tidegate/internal/policyset/…"},
		not: []string{"tidegate/internal/enforce/…", "tidegate/internal/registry/…"},
		why: "enforce and registry read the stored set by it",
	},
	{
		of: []string{"tidegate/internal/enforce/…", "tidegate/internal/registry/…"}, not: append(web, aws...),
		why: "checks and edits know no HTTP, template or AWS",
	},
	{
		of:  []string{"tidegate/internal/enforce/…"},
		not: []string{"tidegate/internal/registry/…", "tidegate/internal/audit/…"},
		why: "checks never write what operators configure",
	},
	{
		of: []string{"tidegate/internal/registry/…"}, not: []string{"tidegate/internal/enforce/…"},
		why: "edits do not depend on how calls are decided",
	},
	{
		of: []string{"tidegate/functions/check/…"}, not: []string{
			"tidegate/internal/registry/…", "tidegate/internal/audit/…", "tidegate/internal/journal/…",
		},
		why: "the check function edits nothing",
	},
	{
		of: []string{"tidegate/internal/…"}, not: []string{"tidegate/functions/…", "tidegate/web/…"},
		why: "functions import internal packages",
	},
	{
		of: []string{"tidegate/functions/check/identity/…"}, only: []string{
			"std", "tidegate/internal/apikey", "tidegate/internal/jwt", "tidegate/internal/apikey",
		},
		why: "who calls is found without the store",
	},
	{
		of: []string{"tidegate/functions/check/authorizer/…"}, not: []string{"github.com/valkey-io/…"},
		why: "the authorizer reaches the store through policy",
	},
	{
		of:  []string{"tidegate/functions/check/…"},
		not: append([]string{"tidegate/functions/admin/…"}, web[1:]...),
		why: "the check function carries nothing of the dashboard",
	},
	{
		of: []string{"tidegate/functions/admin/…"}, not: []string{"tidegate/functions/check/…"},
		why: "the dashboard carries nothing of the check function",
	},
	{
		of: []string{"tidegate/functions/admin/…"},
		not: []string{
			"tidegate/functions/admin/server", "tidegate/functions/admin/dashboard/…", "tidegate/web/…",
		},
		except: []string{
			"tidegate/functions/admin", "tidegate/functions/admin/server/…",
			"tidegate/functions/admin/dashboard/…",
		},
		why: "the dashboard puts together what these know of people, tokens and sessions",
	},
	{
		of: []string{
			"tidegate/functions/admin/dashboard/page", "tidegate/functions/admin/dashboard/form",
			"tidegate/functions/admin/dashboard/chart",
		},
		not: []string{"tidegate/internal/registry", "tidegate/functions/admin/app", "github.com/valkey-io/…"},
		why: "what pages share reads nothing from the store",
	},
	{
		of:     []string{"tidegate/functions/admin/…"},
		not:    []string{"github.com/danielgtaylor/huma/…", "github.com/go-json-experiment/…"},
		except: []string{"tidegate/functions/admin/api"},
		why:    "the API alone knows how it is served",
	},
	{
		of:  []string{"tidegate/functions/admin/api"},
		not: []string{"github.com/valkey-io/…", "github.com/danielgtaylor/huma/v2/formats/…"},
		why: "the API reaches the store through policy, and speaks JSON",
	},
	{
		of: []string{"tidegate/functions/admin/policydoc"}, only: []string{
			"std", "go.yaml.in/yaml/v3", "tidegate/internal/limiter", "tidegate/internal/policy",
			"tidegate/internal/route",
		},
		why: "words and files need no server and no store",
	},
	{
		of:  []string{"tidegate/functions/admin/policydoc", "tidegate/functions/admin/app"},
		not: append(append([]string{"tidegate/functions/admin/api"}, web[1:]...), aws...),
		why: "what pages and API share knows neither",
	},
	{
		of: []string{"tidegate/functions/admin/auth"}, only: []string{"std"},
		why: "who may do what depends on nothing",
	},
	{
		of: []string{"tidegate/web/…"},
		not: []string{"tidegate/functions/…", "tidegate/internal/policy/…", "tidegate/internal/store/…",
			"github.com/valkey-io/…"},
		why: "view models are plain data that the dashboard builds",
	},
	{
		of: []string{"tidegate/web/middleware/…"}, only: []string{"std"},
		why: "backends that are not ours carry it",
	},
	{
		of: []string{"tidegate/…"}, except: []string{"tidegate/local/…"}, not: []string{"tidegate/local/…"},
		inTests: true,
		why:     "the emulators are a developer's tool",
	},
	{
		of:  []string{"tidegate/…"},
		not: []string{"tidegate/infra/…"}, inTests: true,
		except: []string{"tidegate/infra/…", "tidegate/local/gateway", "tidegate/functions/check",
			"tidegate/functions/admin"},
		why: "infrastructure is only deployed",
	},
	{
		of:  []string{"tidegate/functions/…"},
		not: []string{"tidegate/infra/…"},
		why: "infrastructure is only deployed, and tests of the functions see whether they start as it " +
			"sets them",
	},
	{
		of: []string{"tidegate/functions/…"}, not: []string{"tidegate/infra", "tidegate/infra/authorizer",
			"tidegate/infra/cost"}, inTests: true,
		why: "tests of the functions read the golden templates alone",
	},
	{
		of: []string{"tidegate/local/gateway"}, not: []string{"tidegate/infra", "tidegate/infra/authorizer",
			"tidegate/infra/cost"}, inTests: true,
		why: "the emulators read the golden templates alone",
	},
	{
		of: []string{"tidegate/infra/…"}, only: append([]string{
			"std", "tidegate/infra/…", "tidegate/functions/check/identity", "tidegate/internal/config",
			"tidegate/internal/config",
			"tidegate/internal/store/acl", "tidegate/internal/telemetry",
		}, cdk...),
		why: "infrastructure is CDK, and what the functions say of their settings, metrics and rights in " +
			"Valkey",
	},
	{
		of:   []string{"tidegate/infra/cost", "tidegate/infra/golden", "tidegate/internal/store/acl"},
		only: []string{"std"},
		why:  "prices, templates and access strings need nothing",
	},
	{
		of:   []string{"tidegate/infra/scale/…"},
		only: []string{"std", "tidegate/infra/cost", "tidegate/infra/scale"},
		why:  "the model computes with prices and what was measured",
	},
	{
		of: []string{"tidegate/…"}, except: forTests, not: append([]string{"testing"}, forTests...),
		why: "only tests test",
	},
}

// imports: dependencies run from the edges to the limiter, never back.
func imports(r repository) []string {
	var broken []string
	for _, s := range r.sources {
		for _, d := range directions {
			if s.test() && !d.inTests || !matches(d.of, s.importPath()) || matches(d.except, s.importPath()) {
				continue
			}
			for _, imported := range s.imports() {
				if matches(d.not, imported) || d.only != nil && !matches(d.only, imported) {
					broken = append(broken, fmt.Sprintf("%s: imports %s, but %s", s.path, imported, d.why))
				}
			}
		}
	}
	return broken
}

func matches(patterns []string, path string) bool {
	for _, pattern := range patterns {
		root, below := strings.CutSuffix(pattern, "/…")
		if path == root || below && strings.HasPrefix(path, root+"/") || pattern == "std" && standard(path) {
			return true
		}
	}
	return false
}

// standard: a path whose first element has no dot belongs to the standard library, our
// own module aside.
func standard(path string) bool {
	first, _, _ := strings.Cut(path, "/")
	return first != module && !strings.Contains(first, ".")
}

// importing is a Go file that imports the paths.
func importing(paths ...string) string {
	text := "package p\n"
	for _, path := range paths {
		text += fmt.Sprintf("\nimport _ %q\n", path)
	}
	return text
}

func importCase(name, path, imported string, broken bool) ruleCase {
	c := ruleCase{rule: "imports run one way", name: name, tree: tree{path: importing(imported)}}
	if broken {
		c.want = []string{path + ": imports " + imported}
	}
	return c
}

var importCases = []ruleCase{
	importCase("limiter and AWS", "internal/limiter/a.go", "github.com/aws/aws-lambda-go/events", true),
	importCase("policy and HTTP", "internal/policy/a.go", "net/http", true),
	importCase("limiter and Valkey", "internal/limiter/a.go", "github.com/valkey-io/valkey-go", false),
	importCase("limiter's test and HTTP", "internal/limiter/a_test.go", "net/http/httptest", false),
	importCase("limiter and policy", "internal/limiter/a.go", "tidegate/internal/policy", true),
	importCase("policy and limiter", "internal/policy/a.go", "tidegate/internal/limiter", false),
	importCase("internal and functions", "internal/usage/a.go", "tidegate/functions/admin/dashboard", true),
	importCase("usage and Valkey", "internal/usage/a.go", "github.com/valkey-io/valkey-go", false),
	importCase("usage and policy", "internal/usage/a.go", "tidegate/internal/policy", true),
	importCase("usage and HTTP", "internal/usage/a.go", "net/http", true),
	importCase("rolling and limiter", "internal/testing/rolling/a.go", "tidegate/internal/limiter", true),
	importCase("a report and policy", "local/bench/load/report/a.go", "tidegate/internal/policy", true),
	importCase("a report and templ", "local/bench/load/report/a.go", "github.com/a-h/templ", false),
	importCase("the model and CDK", "infra/scale/a.go", "github.com/aws/constructs-go/constructs/v10", true),
	importCase("the model and prices", "infra/scale/a.go", "tidegate/infra/cost", false),
	importCase("telemetry and slog", "internal/telemetry/a.go", "log/slog", false),
	importCase("telemetry and AWS", "internal/telemetry/a.go",
		"github.com/aws/aws-lambda-go/lambdacontext", true),
	importCase("telemetry and the store", "internal/telemetry/a.go", "github.com/valkey-io/valkey-go", true),
	importCase("a program and canaries", "functions/check/main.go", "tidegate/internal/testing/leaks", true),
	importCase("route and limiter", "internal/route/a.go", "tidegate/internal/limiter", true),
	importCase("route and HTTP", "internal/route/a.go", "net/http", true),
	importCase("jwt and policy", "internal/jwt/a.go", "tidegate/internal/policy", true),
	importCase("jwt and its library", "internal/jwt/a.go", "github.com/go-jose/go-jose/v4/jwt", false),
	importCase("identity and policy", "functions/check/identity/a.go", "tidegate/internal/policy", true),
	importCase("identity and tokens", "functions/check/identity/a.go", "tidegate/internal/jwt", false),
	importCase("policy and Valkey", "internal/policy/a.go", "github.com/valkey-io/valkey-go", true),
	importCase("enforce and registry", "internal/enforce/a.go", "tidegate/internal/registry", true),
	importCase("check and registry", "functions/check/a.go", "tidegate/internal/registry", true),
	importCase("check and journal", "functions/check/a.go", "tidegate/internal/journal", true),
	importCase("enforce and policy", "internal/enforce/a.go", "tidegate/internal/policy", false),
	importCase("authorizer and Valkey", "functions/check/authorizer/a.go",
		"github.com/valkey-io/valkey-go", true),
	importCase("check's main and Valkey", "functions/check/main.go", "github.com/valkey-io/valkey-go", false),
	importCase("check and admin", "functions/check/authorizer/a.go",
		"tidegate/functions/admin/dashboard", true),
	importCase("check and templates", "functions/check/main.go", "tidegate/web/templates", true),
	importCase("admin and check", "functions/admin/main.go", "tidegate/functions/check/authorizer", true),
	importCase("admin and templates", "functions/admin/dashboard/a.go", "tidegate/web/templates", false),
	importCase("tokens and the dashboard", "functions/admin/auth/token/a.go",
		"tidegate/functions/admin/dashboard", true),
	importCase("the API and the dashboard", "functions/admin/api/a.go",
		"tidegate/functions/admin/dashboard", true),
	importCase("the API and Valkey", "functions/admin/api/a.go", "github.com/valkey-io/valkey-go", true),
	importCase("the API and its library", "functions/admin/api/a.go",
		"github.com/danielgtaylor/huma/v2", false),
	importCase("the API and CBOR", "functions/admin/api/a.go",
		"github.com/danielgtaylor/huma/v2/formats/cbor", true),
	importCase("the dashboard and the API's library", "functions/admin/dashboard/a.go",
		"github.com/danielgtaylor/huma/v2", true),
	importCase("the dashboard and the API", "functions/admin/dashboard/a.go",
		"tidegate/functions/admin/api", false),
	importCase("files of policies and the store", "functions/admin/policydoc/a.go",
		"github.com/valkey-io/valkey-go", true),
	importCase("lists of keys and the API", "functions/admin/app/a.go", "tidegate/functions/admin/api", true),
	importCase("tokens and roles", "functions/admin/auth/token/a.go", "tidegate/functions/admin/auth", false),
	importCase("roles and the store", "functions/admin/auth/a.go", "github.com/valkey-io/valkey-go", true),
	importCase("admin's main and the dashboard", "functions/admin/main.go",
		"tidegate/functions/admin/dashboard", false),
	importCase("templates and the store", "web/templates/a.go", "tidegate/internal/store", true),
	importCase("middleware and a library", "web/middleware/a.go", "github.com/akrylysov/algnhsa", true),
	importCase("middleware and HTTP", "web/middleware/a.go", "net/http", false),
	importCase("a test and local", "functions/check/a_test.go", "tidegate/local/gateway", true),
	importCase("local and local", "local/main.go", "tidegate/local/gateway", false),
	importCase("local and infra", "local/main.go", "tidegate/infra", true),
	importCase("infra and CDK", "infra/stack.go", "github.com/aws/aws-cdk-go/awscdk/v2", false),
	importCase("infra and the standard library", "infra/stack.go", "path/filepath", false),
	importCase("infra and the SDK", "infra/stack.go", "github.com/aws/aws-sdk-go-v2/config", true),
	importCase("the gateways and the golden templates", "local/gateway/a.go", "tidegate/infra/golden", false),
	importCase("the gateways and infra", "local/gateway/a.go", "tidegate/infra/cost", true),
	importCase("infra and access strings", "infra/users.go", "tidegate/internal/store/acl", false),
	importCase("prices and CDK", "infra/cost/a.go", "github.com/aws/constructs-go/constructs/v10", true),
	importCase("infra and us", "infra/stack.go", "tidegate/internal/limiter", true),
	importCase("a program and a test's server", "functions/check/main.go",
		"tidegate/internal/testing/valkeytest", true),
	importCase("a test and a test's server", "functions/check/main_test.go",
		"tidegate/internal/testing/valkeytest", false),
	importCase("a similar name", "internal/a/a.go", "tidegate/locality", false),
}
