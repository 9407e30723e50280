package keys

import (
	"context"
	"errors"

	"tidegate/functions/admin/api/rest"
	"tidegate/functions/admin/app"
	"tidegate/internal/policy"
)

type (
	keysInput struct {
		Prefix string `query:"prefix" maxLength:"100" doc:"Only names that start so, whatever the case"`
		Plan   string `query:"plan" maxLength:"400" doc:"Only keys of the plan with this name"`
		Group  string `query:"group" maxLength:"64" doc:"Only keys of this group"`
		Tag    string `query:"tag" maxLength:"50" doc:"Only keys that have this tag"`
		State  string `query:"state" enum:"overridden,blocked,near,shadow,banned,expiring,revoked,unreadable" doc:"Banned, blocked and near ones are in an order of their own"`
		Order  string `query:"order" enum:"name,busiest,blocked,used" default:"name" doc:"busiest and blocked: of the 64 callers with the most calls or denials this hour, on one page; used: keys that called within 24 hours, the last first"`
		rest.Paging
	}
	keysOutput struct {
		Body struct {
			Items []KeyNow `json:"items"`
			Next  string   `json:"next,omitempty" doc:"Where the list goes on; absent at its end. With a state or a tag a page may be short before it"`
		}
	}
)

// filter reads which keys are meant.
func filter(set *policy.Set, prefix, plan, state, at string) (app.KeyFilter, error) {
	f := app.KeyFilter{Prefix: prefix, State: app.State(state)}
	if plan == "" {
		return f, nil
	}
	p, known := set.Plan(plan)
	if !known {
		return f, rest.Invalid(at, "no plan has this name")
	}
	f.Plan = p.Number
	return f, nil
}

func (ops operations) listKeys(ctx context.Context, in *keysInput) (*keysOutput, error) {
	set, err := ops.keys.Set(ctx)
	if err != nil {
		return nil, err
	}
	f, err := filter(set, in.Prefix, in.Plan, in.State, "query.plan")
	if err != nil {
		return nil, err
	}
	f.Tag, f.Group = in.Tag, in.Group
	order := app.Order(in.Order)
	if in.Order == "name" {
		order = app.ByName
	}
	found, err := app.FindOrdered(ctx, ops.keys, set, f, order, in.After, in.Count)
	if err != nil {
		return nil, cursorProblem(err)
	}
	out := &keysOutput{}
	out.Body.Next = found.Next
	out.Body.Items, err = ops.keysNow(ctx, found.Subjects)
	return out, err
}

// cursorProblem says that after is no position, if that is what is wrong.
func cursorProblem(err error) error {
	var invalid *policy.InvalidError
	if errors.As(err, &invalid) {
		return rest.Invalid("query.after", invalid.Fields[0].Message)
	}
	return err
}
