// Package rest is what every operation of the API has in common: its route and its part
// of the OpenAPI document, strict JSON, errors as problems (RFC 9457), and changes that
// are based on a version (If-Match). Package api and its rooms say what the operations
// are; rest knows nothing of keys and policies.
package rest

import (
	"encoding/json"
	"net/http"
	"sync"

	"github.com/danielgtaylor/huma/v2"
	"github.com/danielgtaylor/huma/v2/adapters/humago"

	"tidegate/functions/admin/auth"
)

// Prefix begins every path.
const Prefix = "/api/v1"

// Config returns huma's configuration: it reads JSON strictly, answers errors as
// problems, and serves no pages of its own. How errors look is a setting of the whole
// program.
func Config(title, version string) huma.Config {
	useProblems()
	config := huma.DefaultConfig(title, version)
	config.OpenAPIPath, config.DocsPath, config.SchemasPath, config.CreateHooks = "", "", "", nil
	config.Formats = map[string]huma.Format{"application/json": strictJSON, "json": strictJSON}
	config.RejectUnknownQueryParameters = true
	return config
}

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
