// Package rest registers and documents the operations of the API. It owns their routes,
// the OpenAPI document, strict JSON, problems (RFC 9457), and versions (ETag, If-Match).
// Package api and the packages below it import it. It must not know keys or policies.
package rest

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"sync"
	"time"

	"github.com/danielgtaylor/huma/v2"
	"github.com/danielgtaylor/huma/v2/adapters/humago"

	"tidegate/functions/admin/auth"
	"tidegate/functions/admin/list"
)

// Prefix begins every path.
const Prefix = "/api/v1"

// Config returns huma's configuration: strict JSON, errors as problems, no pages of its
// own. It changes the form of errors for the whole program.
func Config(title, version string) huma.Config {
	useProblems()
	config := huma.DefaultConfig(title, version)
	config.OpenAPIPath, config.DocsPath, config.SchemasPath, config.CreateHooks = "", "", "", nil
	config.Formats = map[string]huma.Format{"application/json": strictJSON, "json": strictJSON}
	config.RejectUnknownQueryParameters = true
	return config
}

// Rules apply to every operation of an API.
type Rules struct {
	// Security returns the credentials that operations of a role accept.
	Security func(auth.Role) []map[string][]string
	// Problem maps an error of the operation with this id to the error that is answered.
	Problem func(id string, err error) error
}

// API is a set of operations with their routes and the document that describes them.
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
	a.huma.UseMiddleware(a.checkQuery)
	a.document = sync.OnceValues(func() ([]byte, error) { return json.Marshal(a.huma.OpenAPI()) })
	return a
}

// Routes returns the routes of the operations.
func (a *API) Routes() []auth.Route { return a.mux.all }

// Document returns the OpenAPI document, once all operations are registered.
func (a *API) Document() ([]byte, error) { return a.document() }

// Group returns the group with a name, which the document shows as a tag.
func (a *API) Group(name string) Group { return Group{a, name} }

// Group is a set of operations that the document lists together.
type Group struct {
	api  *API
	name string
}

// routes collects huma's handlers in place of a mux.
type routes struct{ all []auth.Route }

// HandleFunc adds a route.
func (r *routes) HandleFunc(pattern string, handle func(http.ResponseWriter, *http.Request)) {
	r.all = append(r.all, auth.Route{
		Pattern: pattern,
		Handle:  func(w http.ResponseWriter, q *http.Request) error { handle(w, q); return nil },
	})
}

// ServeHTTP is never called: the server's mux serves the routes.
func (r *routes) ServeHTTP(w http.ResponseWriter, _ *http.Request) {
	http.Error(w, "not served", http.StatusNotFound)
}

// MaxBody is the default bound of a request's body, in bytes.
const MaxBody = 64 << 10

// Operation describes an operation. Its input and output are the types that Register
// gets.
type Operation struct {
	Pattern string // method and path below Prefix
	ID      string
	Summary string
	Role    auth.Role
	Status  int   // of success; 0 for 200
	MaxBody int64 // in bytes; 0 for the constant MaxBody
	Details string
	Answer  string       // media type of an answer that is not JSON
	Schema  *huma.Schema // of an answer that is not JSON
	// Deadline is as in auth.Route.
	Deadline time.Duration
}

// Register adds an operation.
func Register[In, Out any](g Group, o Operation, do func(context.Context, *In) (*Out, error)) {
	a := g.api
	method, path := o.methodAndPath()
	if o.MaxBody == 0 {
		o.MaxBody = MaxBody
	}
	operation := huma.Operation{
		OperationID: o.ID, Method: method, Path: Prefix + path, Summary: o.Summary, Description: o.Details,
		Tags:          []string{g.name},
		DefaultStatus: o.Status, MaxBodyBytes: o.MaxBody,
		BodyReadTimeout: -1, // none: the server and API Gateway have time-outs
		Security:        a.rules.Security(o.Role),
	}
	if o.Answer != "" {
		operation.Responses = map[string]*huma.Response{
			"200": {Description: "OK", Content: map[string]*huma.MediaType{o.Answer: {Schema: o.Schema}}}}
	}
	huma.Register(a.huma, operation, func(ctx context.Context, in *In) (*Out, error) {
		out, err := do(ctx, in)
		if err != nil {
			return nil, a.rules.Problem(o.ID, err)
		}
		return out, nil
	})
	last := &a.mux.all[len(a.mux.all)-1]
	last.Role, last.MaxBody, last.Deadline = o.Role, o.MaxBody, o.Deadline
}

func (o Operation) methodAndPath() (method, path string) {
	if _, err := fmt.Sscan(o.Pattern, &method, &path); err != nil {
		panic("operation " + o.ID + " has no method and path")
	}
	return method, path
}

type (
	// None is an empty input or answer.
	None struct{}
	// Body is an answer without header fields.
	Body[T any] struct{ Body T }
	// VersionedBody is an answer with a version, for the If-Match of a later change.
	VersionedBody[T any] struct {
		ETag string `header:"ETag"`
		Body T
	}
)

// Answer returns an answer with a body.
func Answer[T any](body T) *Body[T] { return &Body[T]{body} }

// Versioned returns an answer with a body and its version.
func Versioned[T any](version int64, body T) *VersionedBody[T] {
	return &VersionedBody[T]{ETag(version), body}
}

// List makes an operation of what answers a query with a page of a list.
func List[Q, T any](read func(context.Context, *Q) (list.Page[T], error)) func(context.Context, *Q) (
	*Body[list.Page[T]], error) {
	return func(ctx context.Context, q *Q) (*Body[list.Page[T]], error) {
		found, err := read(ctx, q)
		if invalid, ok := errors.AsType[*list.InvalidError](err); ok {
			return nil, Invalid("query."+invalid.Name, invalid.Message)
		}
		return Answer(found), err
	}
}

type (
	// AcceptQuery confirms warnings.
	AcceptQuery struct {
		Accept bool `query:"accept" doc:"Saves despite warnings; without it, a save with warnings gets 409"`
	}
)

// Accepts reports whether the request confirms warnings.
func (q AcceptQuery) Accepts([]string) bool { return q.Accept }
