package keys

import (
	"context"

	"tidegate/functions/admin/api/rest"
	"tidegate/functions/admin/api/schema"
	"tidegate/functions/admin/app"
	"tidegate/functions/admin/auth"
)

type (
	callersOutput struct {
		Body struct {
			Items []Caller `json:"items"`
			Next  string   `json:"next,omitempty" doc:"Value of after for the next page; absent on the last page"`
		}
	}
)

// Caller is a caller that called today.
type Caller struct {
	ID       string          `json:"id"`
	Name     string          `json:"name,omitempty" doc:"Name, if the caller has a record"`
	Plan     string          `json:"plan,omitempty"`
	DeniedBy []schema.Denier `json:"deniedBy" doc:"Limits that deny its calls now, as far as its last denials tell"`
	Activity
}

func (ops operations) registerCallers(group rest.Group) {
	rest.Register(group, rest.Operation{
		Pattern: "GET /callers", ID: "list-callers", Role: auth.Viewer,
		Summary: "List the callers of the present day in UTC, about the busiest first",
	}, ops.listCallers)
}

func (ops operations) listCallers(ctx context.Context, in *rest.Paging) (*callersOutput, error) {
	page, err := ops.calls.Active(ctx, in.After, in.Count)
	if err != nil {
		return nil, err
	}
	self := func(id string) string { return id }
	known, err := app.Records(ctx, ops.keys, nil, page.IDs, self)
	if err != nil {
		return nil, err
	}
	recent, err := ops.activities(ctx, page.IDs)
	if err != nil {
		return nil, err
	}
	denied, err := ops.keys.CallerDeniers(ctx, page.IDs)
	if err != nil {
		return nil, err
	}
	out := &callersOutput{}
	out.Body.Items, out.Body.Next = make([]Caller, len(recent)), page.Next
	for i, id := range page.IDs {
		out.Body.Items[i] = Caller{id, known[id].Name, known[id].Plan, schema.DeniersOf(denied[i]), recent[i]}
	}
	return out, nil
}
