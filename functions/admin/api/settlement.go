package api

import (
	"context"

	"tidegate/functions/admin/api/rest"
	"tidegate/functions/admin/api/schema"
	"tidegate/functions/admin/app"
	"tidegate/functions/admin/auth"
	"tidegate/functions/admin/policydoc"
	"tidegate/internal/limits"
)

type (
	settleInput struct {
		Body struct {
			Settlement string         `json:"settlement" minLength:"1" maxLength:"4000" example:"tgr_…" doc:"The text that the backend was given with the call"`
			Cost       policydoc.Cost `json:"cost" doc:"Actual cost, a number or one for each unit. 0 refunds the whole estimate; a unit that is missing keeps its estimate"`
		}
	}
	settleOutput struct {
		Body struct {
			Reserved policydoc.Cost `json:"reserved" doc:"What the call took"`
			Actual   policydoc.Cost `json:"actual"`
			Owed     int64          `json:"owed" doc:"Part of actual that a limit counts above its number; the limit denies until it has drained"`
			Partial  bool           `json:"partial" doc:"A refund is incomplete, or the limits of the group could not be reached"`
		}
	}
)

func (a *api) registerSettlements() {
	rest.Register(a.Group("settlements"), rest.Operation{
		Pattern: "POST /settlements", ID: "settle-call", Role: auth.Settler,
		Summary: "Settle a call with its actual cost",
		Details: "Moves the limits of the caller to the actual cost, and those of its group by at most 10 " +
			"times the estimate. Other limits keep the estimate. A call is settled once: 409 means that it " +
			"was settled before, 410 that it expired. Scope settle is enough.",
	}, a.settle)
}

func (a *api) settle(ctx context.Context, in *settleInput) (*settleOutput, error) {
	cost, problem := in.Body.Cost.Read("cost")
	if len(problem) > 0 {
		return nil, rest.Unprocessable(schema.InBody(problem, "")...)
	}
	s, err := app.Settlements{Checker: a.Checker, Crossings: a.Crossings}.Settle(ctx,
		in.Body.Settlement, cost)
	if err != nil {
		return nil, err
	}
	out := &settleOutput{}
	b := &out.Body
	b.Reserved, b.Actual = costOf(s.Reserved), costOf(s.Actual)
	b.Owed, b.Partial = s.Owed, s.Partial
	return out, nil
}

// costOf converts costs by unit. A cost of 0 without other units is the number 0.
func costOf(units map[string]int64) policydoc.Cost {
	cost, only := units[limits.Cost]
	free := only && len(units) == 1 && cost == 0
	return policydoc.Cost{Costs: limits.Costs{Units: units, Free: free}}
}
