// Package simulate is the operations that try limits out on made-up or recorded calls:
// one limit on calls at given times, or many algorithms on the same calls. They read
// nothing from the store and change nothing.
package simulate

import (
	"context"
	"fmt"
	"math"
	"slices"
	"time"

	"tidegate/functions/admin/api/rest"
	"tidegate/functions/admin/api/schema"
	"tidegate/functions/admin/auth"
	"tidegate/functions/admin/policydoc"
	"tidegate/internal/accuracy"
	"tidegate/internal/limiter"
)

type (
	simulateInput struct {
		Body struct {
			Limit policydoc.Limit `json:"limit"`
			Calls []float64       `json:"calls" minItems:"1" maxItems:"500" doc:"Times of the calls, in seconds; an aligned window begins at 0"`
		}
	}
	simulateOutput struct {
		Body struct {
			Allowed   int64      `json:"allowed"`
			Decisions []Decision `json:"decisions"`
		}
	}
)

// Decision is the result of one simulated call.
type Decision struct {
	At         float64  `json:"at" doc:"Seconds"`
	Allowed    bool     `json:"allowed"`
	Remaining  int64    `json:"remaining"`
	RetryAfter *float64 `json:"retryAfter,omitempty" doc:"Seconds, exact; of a call that is denied"`
}

// Register adds the operations.
func Register(a *rest.API) {
	group := a.Group("usage")
	rest.Register(group, rest.Operation{
		Pattern: "POST /simulate", ID: "simulate-calls", Role: auth.Viewer,
		Summary: "Decides about calls at given times",
		Details: "Runs the limiter's model; no key is read or changed.",
	}, decide)
	rest.Register(group, rest.Operation{
		Pattern: "POST /simulate/lab", ID: "simulate-lab", Role: auth.Viewer,
		Summary: "Compares algorithms with the exact log on the same calls",
		Details: "The dashboard's Simulate. Equal requests have equal answers; no key is read or changed.",
	}, compare)
}

func decide(_ context.Context, in *simulateInput) (*simulateOutput, error) {
	var details rest.Details
	limit, unread := policydoc.ToLimit("limit", in.Body.Limit)
	details = append(details, schema.InBody(unread, "")...)
	for _, e := range limit.Errors() {
		details.Add("limit."+e.Field, fmt.Errorf("%s", e.Message))
	}
	at := make([]time.Duration, len(in.Body.Calls))
	for i, seconds := range in.Body.Calls {
		if seconds < 0 || seconds > limiter.MaxWindow.Seconds() {
			details.Add(fmt.Sprintf("calls[%d]", i),
				fmt.Errorf("must be 0 to %.0f", limiter.MaxWindow.Seconds()))
			continue
		}
		at[i] = time.Duration(math.Round(seconds*1e6)) * time.Microsecond
	}
	if err := details.Err(); err != nil {
		return nil, err
	}
	slices.Sort(at)
	decisions, err := accuracy.Trace(limit, at)
	if err != nil {
		return nil, rest.Invalid("body.calls", "these calls cannot be played")
	}
	out := &simulateOutput{}
	for i, d := range decisions {
		played := Decision{At: at[i].Seconds(), Allowed: d.Allowed, Remaining: d.Limits[0].Remaining}
		if d.Allowed {
			out.Body.Allowed++
		} else {
			wait := d.RetryAfter().Seconds()
			played.RetryAfter = &wait
		}
		out.Body.Decisions = append(out.Body.Decisions, played)
	}
	return out, nil
}
