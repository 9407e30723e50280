package api

import (
	"context"
	"errors"
	"fmt"

	"tidegate/functions/admin/api/rest"
	"tidegate/functions/admin/app"
	"tidegate/functions/admin/auth"
	"tidegate/internal/policy"
)

type (
	bulkInput struct {
		Body struct {
			Do       string      `json:"do" enum:"plan,override,end,reset,revoke" doc:"What to do with each key; end ends overrides"`
			IDs      []string    `json:"ids,omitempty" maxItems:"100" doc:"The keys that are meant"`
			Filter   *BulkFilter `json:"filter,omitempty" doc:"Or all keys that match; {} means every key"`
			Plan     string      `json:"plan,omitempty" maxLength:"100" doc:"With plan: the new plan's name"`
			Override *Override   `json:"override,omitempty" doc:"With override"`
			Reason   string      `json:"reason" minLength:"1" maxLength:"200"`
			Confirm  *int64      `json:"confirm,omitempty" minimum:"0" doc:"With revoke or reset and a filter without a state, in the first request: how many keys match"`
			After    string      `json:"after,omitempty" maxLength:"1000" doc:"next of the answer before"`
		}
	}
	bulkOutput struct {
		Body struct {
			Done    int64    `json:"done" doc:"Keys that were changed by this request"`
			Skipped int64    `json:"skipped" doc:"Keys that were as they should be already, or are not active"`
			Failed  []string `json:"failed" doc:"Ids of keys that could not be changed"`
			Next    string   `json:"next,omitempty" doc:"Send the same again with after set to this; absent when all is done"`
		}
	}
)

// BulkFilter says which keys a bulk change means.
type BulkFilter struct {
	Prefix string `json:"prefix,omitempty" maxLength:"100"`
	Plan   string `json:"plan,omitempty" maxLength:"100" doc:"Name of a plan"`
	Group  string `json:"group,omitempty" maxLength:"64"`
	State  string `json:"state,omitempty" enum:"overridden,blocked,near,shadow,banned,expiring,revoked,unreadable"`
}

func (a *api) registerBulk() {
	register(a, operation{
		pattern: "POST /bulk", id: "change-keys", summary: "Change many keys, some with each request",
		role: auth.Editor, group: "keys",
		details: "A request changes up to 200 keys in about a second and says how to go on. Doing a part " +
			"twice changes nothing twice.",
	}, a.changeKeys)
}

func (a *api) changeKeys(ctx context.Context, in *bulkInput) (*bulkOutput, error) {
	set, err := a.Keys.Set(ctx)
	if err != nil {
		return nil, err
	}
	change, err := in.change(set)
	if err != nil {
		return nil, err
	}
	of, err := in.selection(set)
	if err != nil {
		return nil, err
	}
	if err := a.confirmed(ctx, in, change, of); err != nil {
		return nil, err
	}
	step, err := change.Step(ctx, a.Keys, set, of, app.NewEdit(ctx, in.Body.Reason))
	if err != nil {
		return nil, cursorProblem(err)
	}
	out := &bulkOutput{}
	out.Body.Done, out.Body.Skipped, out.Body.Next = step.Done, step.Skipped, step.Next
	out.Body.Failed = []string{}
	for _, f := range step.Failed {
		var invalid *policy.InvalidError
		if errors.As(f.Cause, &invalid) { // of one key, so of every one
			return nil, f.Cause
		}
		a.Log.Warn("bulk change", "key_id", f.ID, "cause", f.Cause)
		out.Body.Failed = append(out.Body.Failed, f.ID)
	}
	return out, nil
}

// confirmed refuses the first request of a change that harms callers unless it says how
// many keys it means, where that is known.
func (a *api) confirmed(ctx context.Context, in *bulkInput, c app.KeyChange, of app.Selection) error {
	if !c.NeedsCount() || of.Filter == nil || of.Filter.Computed() || of.After != "" {
		return nil
	}
	n, err := a.Keys.Count(ctx, *of.Filter)
	if err != nil {
		return err
	}
	if in.Body.Confirm == nil || *in.Body.Confirm != n {
		return rest.Invalid("body.confirm", fmt.Sprintf("%d keys match: send %d to %s them", n, n, c.Do))
	}
	return nil
}

// change reads what is done to each key. What the store would refuse for every one of
// them is refused at once.
func (in *bulkInput) change(set *policy.Set) (app.KeyChange, error) {
	b := in.Body
	var wrong rest.Details
	add := func(location, message string) {
		wrong = append(wrong, rest.Detail{Location: "body." + location, Message: message})
	}
	if (len(b.IDs) == 0) == (b.Filter == nil) {
		add("ids", "give either ids or a filter")
	}
	if _, known := set.Plan(b.Plan); b.Do == app.Plan && !known {
		add("plan", "no plan has this name")
	}
	c := app.KeyChange{Do: b.Do, Plan: b.Plan}
	if b.Do == app.Override {
		if b.Override == nil {
			add("override", "is missing")
		}
		c.Override = b.Override.read("override.", &wrong)
	}
	return c, wrong.Err()
}

// selection says which keys are meant.
func (in *bulkInput) selection(set *policy.Set) (app.Selection, error) {
	f := in.Body.Filter
	if f == nil {
		return app.Selection{IDs: in.Body.IDs}, nil
	}
	meant, err := filter(set, f.Prefix, f.Plan, f.State, "body.filter.plan")
	meant.Group = f.Group
	return app.Selection{Filter: &meant, After: in.Body.After}, err
}
