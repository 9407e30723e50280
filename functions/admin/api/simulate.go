package api

import (
	"context"
	"fmt"
	"math"
	"slices"
	"time"

	"tidegate/functions/admin/api/rest"
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

func (a *api) registerSimulate() {
	register(a, operation{
		pattern: "POST /simulate", id: "simulate-calls",
		summary: "Decides about calls at given times", role: auth.Viewer, group: "usage",
		details: "Runs the limiter's model; no key is read or changed.",
	}, a.simulate)
	register(a, operation{
		pattern: "POST /simulate/lab", id: "simulate-lab",
		summary: "Compares algorithms with the exact log on the same calls", role: auth.Viewer,
		group:   "usage",
		details: "The dashboard's Simulate. Equal requests have equal answers; no key is read or changed.",
	}, a.lab)
}

func (a *api) simulate(_ context.Context, in *simulateInput) (*simulateOutput, error) {
	var details rest.Details
	limit, unread := policydoc.ReadLimit("limit", in.Body.Limit)
	details = append(details, inBody(unread, "")...)
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
