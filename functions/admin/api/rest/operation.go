package rest

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"sync"

	"github.com/danielgtaylor/huma/v2"
	"github.com/danielgtaylor/huma/v2/adapters/humago"

	"tidegate/functions/admin/auth"
)

// Prefix begins every path.
const Prefix = "/api/v1"

// MaxBody bounds a request's body, in bytes, where its operation says nothing else.
const MaxBody = 64 << 10

// Rules are what holds for every operation of an API.
type Rules struct {
	// Security returns what a request for operations of a role must bring.
	Security func(auth.Role) []map[string][]string
	// Problem returns the answer to an error of the operation with this id.
	Problem func(id string, err error) error
}

// API is operations: their routes, and the document that describes them.
type API struct {
	rules    Rules
	huma     huma.API
	mux      routes
	document func() ([]byte, error)
}

// New returns an API without operations.
func New(config huma.Config, rules Rules) *API {
	a := &API{rules: rules}
	a.huma = huma.NewAPI(config, humago.NewAdapter(&a.mux, ""))
	a.document = sync.OnceValues(func() ([]byte, error) { return json.Marshal(a.huma.OpenAPI()) })
	return a
}

// Routes returns the routes of the operations.
func (a *API) Routes() []auth.Route { return a.mux.all }

// Document returns the OpenAPI document, once all operations are registered.
func (a *API) Document() ([]byte, error) { return a.document() }

// Group returns the operations that the document lists under a name.
func (a *API) Group(name string) Group { return Group{a, name} }

// Group is operations that the document lists together.
type Group struct {
	api  *API
	name string
}

// Operation describes an operation, without its input and output.
type Operation struct {
	Pattern string // method and path below Prefix
	ID      string
	Summary string
	Role    auth.Role
	Status  int   // of success; 200 when it is 0
	MaxBody int64 // MaxBody when it is 0
	Details string
	Answer  string       // type of the answer's body, where it is written as it is
	Schema  *huma.Schema // of such a body
}

// Register adds an operation.
func Register[In, Out any](g Group, o Operation, do func(context.Context, *In) (*Out, error)) {
	a := g.api
	method, path := o.methodAndPath()
	if o.MaxBody == 0 {
		o.MaxBody = MaxBody
	}
	described := huma.Operation{
		OperationID: o.ID, Method: method, Path: Prefix + path, Summary: o.Summary, Description: o.Details,
		Tags: []string{g.name},
		// the server and the gateway have limits of their own
		DefaultStatus: o.Status, MaxBodyBytes: o.MaxBody, BodyReadTimeout: -1,
		Security: a.rules.Security(o.Role),
	}
	if o.Answer != "" {
		described.Responses = map[string]*huma.Response{
			"200": {Description: "OK", Content: map[string]*huma.MediaType{o.Answer: {Schema: o.Schema}}}}
	}
	huma.Register(a.huma, described, func(ctx context.Context, in *In) (*Out, error) {
		out, err := do(ctx, in)
		if err != nil {
			return nil, a.rules.Problem(o.ID, err)
		}
		return out, nil
	})
	last := &a.mux.all[len(a.mux.all)-1]
	last.Role, last.MaxBody = o.Role, o.MaxBody
}

func (o Operation) methodAndPath() (method, path string) {
	if _, err := fmt.Sscan(o.Pattern, &method, &path); err != nil {
		panic("operation " + o.ID + " has no method and path")
	}
	return method, path
}

// routes takes handlers from huma, in place of a mux.
type routes struct{ all []auth.Route }

// HandleFunc adds a route.
func (r *routes) HandleFunc(pattern string, handle func(http.ResponseWriter, *http.Request)) {
	r.all = append(r.all, auth.Route{Pattern: pattern, Handle: handle})
}

// ServeHTTP is never called: the server's mux serves the routes.
func (r *routes) ServeHTTP(w http.ResponseWriter, _ *http.Request) {
	http.Error(w, "not served", http.StatusNotFound)
}
