package rest

import (
	"context"
	"fmt"

	"github.com/danielgtaylor/huma/v2"

	"tidegate/functions/admin/auth"
)

// MaxBody bounds a request's body, in bytes, where its operation says nothing else.
const MaxBody = 64 << 10

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
