// Package rest is what every operation of the API has in common: its route and its part
// of the OpenAPI document, strict JSON, errors as problems (RFC 9457), and changes that
// are based on a version (If-Match). Package api and its rooms say what the operations
// are; rest knows nothing of keys and policies.
package rest

import "github.com/danielgtaylor/huma/v2"

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
