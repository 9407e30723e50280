// Package api owns the JSON API below /api/v1, by which machines do everything that the
// dashboard's pages do. Each operation declares its input, its answer and the role it
// needs. Package rest turns the declarations into routes, validation and the OpenAPI
// document. Package keys has those that read
// keys, package command those that change something.
//
// Package server mounts the routes, and authenticates and authorizes callers first.
// Package api must not know the dashboard. An edit that replaces values needs If-Match; it
// fails with 412 if another change came first. Revocations, bans, resets, deletions and
// the end of an override or a secret do not need it, since they must act at once and mean
// the same for every version; they obey it if it is sent.
package api

import (
	"context"
	"log/slog"
	"reflect"

	"github.com/danielgtaylor/huma/v2"

	"tidegate/functions/admin/api/keys"
	"tidegate/functions/admin/api/rest"
	"tidegate/functions/admin/app"
	"tidegate/functions/admin/auth"
	"tidegate/functions/admin/auth/session"
	"tidegate/functions/admin/auth/token"
	"tidegate/functions/admin/command"
	"tidegate/functions/admin/policydoc"
	"tidegate/internal/cause"
	"tidegate/internal/crossing"
	"tidegate/internal/enforce"
	"tidegate/internal/limits"
	"tidegate/internal/policy"
	"tidegate/internal/proxies"
	"tidegate/internal/records"
	"tidegate/internal/route"
)

// Prefix begins every path.
const Prefix = rest.Prefix

// MaxPolicyBody bounds the body of a request with all policies, in bytes.
const MaxPolicyBody = policydoc.MaxBytes

// Services are the parts of the system that the API uses.
type Services struct {
	Keys      *app.Registry
	Checker   *enforce.Checker
	Records   *records.Reader
	Crossings *crossing.Store
	Tokens    *token.Store
	Sessions  func(context.Context) ([]session.Own, error) // of the calling user
	Owners    *app.Owners                                  // nil if owners of keys may not view them
	Log       *slog.Logger
	Proxies   proxies.Trusted
}

type api struct {
	Services
	*rest.API
}

// Routes returns the routes of all operations. base is the URL in front of their paths;
// it appears in the OpenAPI document only.
func Routes(base string, services Services) []auth.Route {
	a := &api{Services: services}
	a.API = rest.New(configOf(base), rest.Rules{Security: security, Problem: a.problem})
	a.register()
	return a.Routes()
}

func configOf(base string) huma.Config {
	config := rest.Config("Tidegate", "1")
	config.Info.Description = description
	// Answers have values of the domain, whose JSON is that of these types.
	config.Components.Schemas.RegisterTypeAlias(reflect.TypeFor[limits.Limit](),
		reflect.TypeFor[policydoc.LimitFields]())
	config.Components.Schemas.RegisterTypeAlias(reflect.TypeFor[policy.Override](),
		reflect.TypeFor[keys.Override]())
	config.Components.Schemas.RegisterTypeAlias(reflect.TypeFor[route.Pattern](),
		reflect.TypeFor[policydoc.Pattern]())
	config.Components.Schemas.RegisterTypeAlias(reflect.TypeFor[cause.Cause](), reflect.TypeFor[string]())
	config.Servers = []*huma.Server{{URL: base + "/"}}
	config.Components.SecuritySchemes = map[string]*huma.SecurityScheme{
		"machineToken": { // no schema may have such a name: generators make one type of both
			Type: "http", Scheme: "bearer",
			Description: "A machine token, tga_…, with scope read, write (which includes the others) or " +
				"settle. An editor creates it on the settings page.",
		},
		"apiKey": {
			Type: "apiKey", In: "header", Name: keyHeader,
			Description: "An API key of the protected APIs, also as a bearer token. It opens the owner's " +
				"view of that key and nothing else.",
		},
		"browserSession": {
			Type: "apiKey", In: "cookie", Name: "__Host-tidegate",
			Description: "A browser's session. Every request but GET must come from the dashboard's own " +
				"pages.",
		},
	}
	return config
}

const description = `Keys, policies, usage and audit of a Tidegate deployment. Times are RFC 3339, windows such as 10s, 1h or 30d.
Errors are RFC 9457 problems. Lists have pages: repeat the request with after set to next
until next is absent.
An ETag is a version; send it in If-Match with a change. An edit needs it; a revocation,
ban, reset or deletion obeys it. A change that is not in force or not stored yet gets 202,
and the header Tidegate-Note says what there is to know.`

// register adds every operation.
func (a *api) register() {
	a.registerMe()
	a.registerDocument()
	keys.Register(a.API, a.Keys, a.Records)
	command.Operations(a.API, &command.Services{Keys: a.Keys, Records: a.Records, Tokens: a.Tokens})
	a.registerPolicy()
	a.registerPolicyFile()
	a.registerAudit()
	a.registerUsage()
	a.registerExplain()
	a.registerDenials()
	a.registerCrossings()
	a.registerTokens()
	a.registerSettlements()
	if a.Owners != nil {
		a.registerOwner()
	}
}

// security returns the credentials that operations of a role accept.
func security(r auth.Role) []map[string][]string {
	var scope token.Scope
	switch r {
	case auth.Owner:
		return []map[string][]string{{"apiKey": {}}}
	case auth.Editor:
		scope = token.Write
	case auth.Settler:
		scope = token.Settle
	default:
		scope = token.Read
	}
	return []map[string][]string{{"machineToken": {string(scope)}}, {"browserSession": {}}}
}

// Me is the authenticated caller.
type Me struct {
	ID   string `json:"id"`
	Name string `json:"name"`
	Kind string `json:"kind" enum:"user,token"`
	Role string `json:"role" enum:"viewer,editor"`
}

func (a *api) registerMe() {
	group := a.Group("access")
	rest.Register(group, rest.Operation{
		Pattern: "GET /me", ID: "get-me", Role: auth.Viewer, Summary: "Get the caller's name and role",
	}, func(ctx context.Context, _ *rest.None) (*rest.Body[Me], error) {
		actor := auth.From(ctx)
		return rest.Answer(Me{actor.ID, actor.Name, string(actor.Kind), actor.Role.String()}), nil
	})
}

type document struct {
	ContentType string `header:"Content-Type"`
	Body        []byte
}

func (a *api) registerDocument() {
	group := a.Group("access")
	rest.Register(group, rest.Operation{
		Pattern: "GET /openapi.json", ID: "get-openapi", Role: auth.Viewer, Summary: "Get this document",
		Answer: "application/json", Schema: &huma.Schema{Type: huma.TypeObject},
	}, func(context.Context, *rest.None) (*document, error) {
		text, err := a.Document()
		return &document{"application/json", text}, err
	})
}
