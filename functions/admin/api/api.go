// Package api is the JSON API below /api/v1: everything that the dashboard's pages show
// and do, for machines. Each operation says in one place what it takes, what it answers
// and who may ask for it; the OpenAPI document, the checks of what comes in and the
// routes are made of that.
//
// A caller is known when a request gets here, and may do what its route needs: the
// server sees to both, as for the pages. What changes something that others may change
// too is based on a version, If-Match, and fails with 412 when another change came first.
package api

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"net/http"
	"sync"

	"github.com/danielgtaylor/huma/v2"
	"github.com/danielgtaylor/huma/v2/adapters/humago"

	"tidegate/functions/admin/api/rest"
	"tidegate/functions/admin/app"
	"tidegate/functions/admin/auth"
	"tidegate/functions/admin/auth/token"
	"tidegate/functions/admin/policydoc"
	"tidegate/internal/crossing"
	"tidegate/internal/enforce"
	"tidegate/internal/journal"
	"tidegate/internal/usage"
)

// Prefix begins every path.
const Prefix = "/api/v1"

// Bounds of a request's body, in bytes.
const (
	MaxBody       = 64 << 10
	MaxPolicyBody = policydoc.MaxBytes // of the policies as a whole
)

// Services are the parts of the system that the API works with. Journal and Owners are
// optional.
type Services struct {
	Keys      *app.Registry
	Checker   *enforce.Checker
	Usage     *usage.Reader
	Crossings *crossing.Store
	Tokens    *token.Store
	Journal   *journal.Journal // nil for none
	Owners    *app.Owners      // nil where keys' owners see nothing
	Log       *slog.Logger
}

type api struct {
	Services
	huma     huma.API
	routes   []auth.Route
	document func() ([]byte, error)
}

// Routes returns everything that the API answers. base is what browsers and machines have
// in front of its paths; it stands in the document alone.
func Routes(base string, services Services) []auth.Route {
	a := &api{Services: services}
	a.huma = huma.NewAPI(configOf(base), humago.NewAdapter(a, ""))
	a.document = sync.OnceValues(func() ([]byte, error) { return json.Marshal(a.huma.OpenAPI()) })
	a.register()
	return a.routes
}

func configOf(base string) huma.Config {
	config := rest.Config("Tidegate", "1")
	config.Info.Description = description
	config.Servers = []*huma.Server{{URL: base + "/"}}
	config.Components.SecuritySchemes = map[string]*huma.SecurityScheme{
		"token": {
			Type: "http", Scheme: "bearer",
			Description: "A machine token, tga_…, with scope read, write (which includes the others) or " +
				"settle. An editor makes it in the settings.",
		},
		"key": {
			Type: "apiKey", In: "header", Name: keyHeader,
			Description: "An API key of the deployment's own APIs, or the same as a bearer. It opens what " +
				"its owner may see, and nothing else.",
		},
		"session": {
			Type: "apiKey", In: "cookie", Name: "__Host-tidegate",
			Description: "A browser's session. Whatever is not a GET must come from the dashboard's own " +
				"pages.",
		},
	}
	return config
}

const description = `Keys, policies, usage and audit of a Tidegate deployment. Times are RFC 3339, windows such as 10s, 1h or 30d.
Errors are problems as RFC 9457 has them. Lists come in pages: ask again with after set to
next until there is none.
An ETag is a version; send it in If-Match with a change.`

// register lists every operation.
func (a *api) register() {
	a.registerSelf()
	a.registerKeys()
	a.registerKeyActions()
	a.registerGroups()
	a.registerImport()
	a.registerBulk()
	a.registerCallers()
	a.registerPolicy()
	a.registerPolicyFile()
	a.registerAudit()
	a.registerJournal()
	a.registerUsage()
	a.registerDenials()
	a.registerCrossings()
	a.registerTokens()
	a.registerReservations()
	a.registerSimulate()
	if a.Owners != nil {
		a.registerOwner()
	}
}

// HandleFunc takes a handler from huma, in place of a mux.
func (a *api) HandleFunc(pattern string, handle func(http.ResponseWriter, *http.Request)) {
	a.routes = append(a.routes, auth.Route{Pattern: pattern, Handle: handle})
}

// ServeHTTP is never called: the server's mux serves the routes.
func (a *api) ServeHTTP(w http.ResponseWriter, _ *http.Request) {
	http.Error(w, "not served", http.StatusNotFound)
}

// operation describes an operation, without its input and output.
type operation struct {
	pattern string // method and path below Prefix
	id      string
	summary string
	role    auth.Role
	status  int   // of success; 200 when it is 0
	maxBody int64 // MaxBody when it is 0
	group   string
	details string
	answer  string       // type of the answer's body, where it is written as it is
	schema  *huma.Schema // of such a body
}

// register adds an operation.
func register[In, Out any](a *api, o operation, do func(context.Context, *In) (*Out, error)) {
	method, path := o.methodAndPath()
	if o.maxBody == 0 {
		o.maxBody = MaxBody
	}
	described := huma.Operation{
		OperationID: o.id, Method: method, Path: Prefix + path, Summary: o.summary, Description: o.details,
		Tags: []string{o.group},
		// the server and the gateway have limits of their own
		DefaultStatus: o.status, MaxBodyBytes: o.maxBody, BodyReadTimeout: -1,
		Security: o.security(),
	}
	if o.answer != "" {
		described.Responses = map[string]*huma.Response{
			"200": {Description: "OK", Content: map[string]*huma.MediaType{o.answer: {Schema: o.schema}}}}
	}
	huma.Register(a.huma, described, func(ctx context.Context, in *In) (*Out, error) {
		out, err := do(ctx, in)
		if err != nil {
			return nil, a.problem(o.id, err)
		}
		return out, nil
	})
	last := &a.routes[len(a.routes)-1]
	last.Role, last.MaxBody = o.role, o.maxBody
}

func (o operation) methodAndPath() (method, path string) {
	if _, err := fmt.Sscan(o.pattern, &method, &path); err != nil {
		panic("operation " + o.id + " has no method and path")
	}
	return method, path
}

// security says what a request must bring.
func (o operation) security() []map[string][]string {
	if o.role == auth.Owner {
		return []map[string][]string{{"key": {}}}
	}
	return []map[string][]string{{"token": {o.scope()}}, {"session": {}}}
}

func (o operation) scope() string {
	switch o.role {
	case auth.Editor:
		return string(token.Write)
	case auth.Settler:
		return string(token.Settle)
	default:
		return string(token.Read)
	}
}
