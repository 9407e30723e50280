// Package simulate has the operations that try limits out: one limit on calls at given
// times, or several algorithms on the same made-up or recorded calls. Package api
// registers them. They must not read or change the store.
package simulate

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
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
			Limits []policydoc.Limit `json:"limits" minItems:"1" maxItems:"8" doc:"As of a plan"`
			Calls  []float64         `json:"calls" minItems:"1" maxItems:"500" doc:"Times of the calls, in seconds; aligned windows of the longest limit begin at 0"`
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
	Remaining  int64    `json:"remaining" doc:"As in the RateLimit field"`
	RetryAfter *float64 `json:"retryAfter,omitempty" doc:"Seconds, not rounded; only of a denied call"`
}

// Register adds the operations to a.
func Register(a *rest.API) {
	group := a.Group("usage")
	rest.Register(group, rest.Operation{
		Pattern: "POST /simulate", ID: "simulate-calls", Role: auth.Viewer,
		Summary: "Decide about calls at given times",
		Details: "Runs the limiter's model; no key is read or changed.",
	}, decide)
	rest.Register(group, rest.Operation{
		Pattern: "POST /simulate/lab", ID: "simulate-lab", Role: auth.Viewer,
		Summary: "Compare algorithms with the exact log on the same calls",
		Details: "As on the page Simulate. Equal requests get equal responses; no key is read or changed.",
	}, compare)
}

func decide(_ context.Context, in *simulateInput) (*simulateOutput, error) {
	var details rest.Details
	limits := make([]limiter.Limit, len(in.Body.Limits))
	for i, l := range in.Body.Limits {
		name := fmt.Sprintf("limits[%d]", i)
		limit, unread := policydoc.ToLimit(name, l)
		details, limits[i] = append(details, schema.InBody(unread, "")...), limit
		for _, e := range limit.Errors() {
			details.Add(name+"."+e.Field, fmt.Errorf("%s", e.Message))
		}
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
	decisions, err := accuracy.Trace(limits, at)
	if err != nil {
		return nil, rest.Invalid("body.calls", "cannot be simulated")
	}
	out := &simulateOutput{}
	for i, d := range decisions {
		decision := Decision{At: at[i].Seconds(), Allowed: d.Allowed, Remaining: d.Binding().Remaining}
		if d.Allowed {
			out.Body.Allowed++
		} else {
			wait := d.RetryAfter().Seconds()
			decision.RetryAfter = &wait
		}
		out.Body.Decisions = append(out.Body.Decisions, decision)
	}
	return out, nil
}

type (
	labInput struct {
		Body struct {
			Limits     []LabLimit `json:"limits" minItems:"1" maxItems:"8" doc:"A call passes only if all of these have room"`
			Shape      string     `json:"shape" enum:"boundary,poisson,on-off,greedy,recorded"`
			Rate       int64      `json:"rate,omitempty" minimum:"1" maximum:"1000000" doc:"Calls in a window of the first limit, as a percentage of it; not with recorded"`
			Windows    int64      `json:"windows,omitempty" minimum:"1" maximum:"20000" doc:"Duration, in windows of the first limit; not with recorded"`
			Minutes    []int64    `json:"minutes,omitempty" maxItems:"1440" doc:"With recorded: calls of each minute"`
			Seed       uint64     `json:"seed,omitempty" maximum:"999999999" doc:"Seed of the random call times"`
			Algorithms []string   `json:"algorithms,omitempty" maxItems:"20" doc:"Names of algorithms; if omitted, all"`
			Points     int        `json:"points,omitempty" maximum:"500" doc:"Number of points in each series; 0 for no series"`
		}
	}
	labOutput struct {
		Body struct {
			Calls    int64     `json:"calls"`
			Exact    Outcome   `json:"exact" doc:"Outcome of the exact log"`
			Outcomes []Outcome `json:"outcomes"`
			Demand   []int64   `json:"demand,omitempty" doc:"Calls in each rolling window, admitted or denied"`
		}
	}
)

// LabLimit is a limit that each of the algorithms is tried with.
type LabLimit struct {
	Requests int64  `json:"requests" minimum:"1" maximum:"10000"`
	Window   string `json:"window" maxLength:"20" example:"1m"`
}

// Outcome is the result of an algorithm on the calls.
type Outcome struct {
	Algorithm    string  `json:"algorithm"`
	Title        string  `json:"title"`
	Admitted     int64   `json:"admitted"`
	FalseAllows  int64   `json:"falseAllows" doc:"Calls admitted that the exact log denies"`
	FalseDenials int64   `json:"falseDenials" doc:"Calls denied that the exact log admits"`
	Worst        int64   `json:"worst" doc:"Most admitted calls in any rolling window"`
	Series       []int64 `json:"series,omitempty"`
}

func compare(_ context.Context, in *labInput) (*labOutput, error) {
	var details rest.Details
	b := in.Body
	limits := make([]accuracy.Limit, len(b.Limits))
	for i, l := range b.Limits {
		window, err := limiter.ParseWindow(l.Window)
		if err != nil {
			details.Add(fmt.Sprintf("limits[%d].window", i), err)
		}
		limits[i] = accuracy.Limit{Limit: l.Requests, Window: window}
	}
	var known []string
	for _, a := range accuracy.Algorithms() {
		known = append(known, a.Name)
	}
	for i, name := range b.Algorithms {
		if !slices.Contains(known, name) {
			details.Add(fmt.Sprintf("algorithms[%d]", i),
				fmt.Errorf("must be one of %s", strings.Join(known, ", ")))
		}
	}
	traffic := accuracy.Traffic{Shape: accuracy.Shape(b.Shape), Rate: b.Rate, Windows: b.Windows}
	if traffic.Shape == accuracy.Recorded {
		traffic = recorded(b.Minutes, b.Seed, &details)
	} else {
		requireField(&details, "rate", b.Rate)
		requireField(&details, "windows", b.Windows)
	}
	if err := details.Err(); err != nil {
		return nil, err
	}
	return play(accuracy.Scenario{
		Limit: limits[0].Limit, Window: limits[0].Window, Beside: limits[1:],
		Traffic: traffic, Seed: b.Seed, Algorithms: b.Algorithms, Points: b.Points,
	})
}

func play(s accuracy.Scenario) (*labOutput, error) {
	if err := s.Validate(); err != nil {
		return nil, rest.Invalid("body", strings.ReplaceAll(err.Error(), "\n", "; "))
	}
	if n := s.Count(); n < 1 || n > accuracy.MaxPlayed {
		return nil, rest.Invalid("body",
			fmt.Sprintf("describes %d calls: must be 1 to %d", n, accuracy.MaxPlayed))
	}
	result, err := accuracy.Run(s)
	if err != nil {
		return nil, rest.Invalid("body", "cannot be simulated")
	}
	out := &labOutput{}
	out.Body.Calls, out.Body.Demand, out.Body.Exact = result.Calls, result.Demand, outcomeOf(result.Exact)
	for _, o := range result.Outcomes {
		out.Body.Outcomes = append(out.Body.Outcomes, outcomeOf(o))
	}
	return out, nil
}

func outcomeOf(o accuracy.Outcome) Outcome {
	return Outcome{o.Name, o.Title, o.AdmittedCalls, o.FalseAllows, o.FalseDenials, o.Worst, o.Series}
}

// requireField adds an error if a number is missing.
func requireField(details *rest.Details, field string, n int64) {
	if n == 0 {
		details.Add(field, errors.New("is required, except with shape recorded"))
	}
}

// recorded returns traffic with the given calls in each minute. The first minute begins
// at a window boundary.
func recorded(minutes []int64, seed uint64, details *rest.Details) accuracy.Traffic {
	recording, sum := make(accuracy.Recording, len(minutes)), int64(0)
	for i, calls := range minutes {
		if calls < 0 || calls > accuracy.MaxPlayed {
			details.Add(fmt.Sprintf("minutes[%d]", i), fmt.Errorf("must be 0 to %d", accuracy.MaxPlayed))
			return accuracy.Traffic{}
		}
		recording[i] = accuracy.Minute{
			Begin: time.Unix(1_800_000_000, 0).Add(time.Duration(i) * time.Minute), Calls: calls}
		sum += calls
	}
	if sum < 1 || sum > accuracy.MaxPlayed {
		details.Add("minutes", fmt.Errorf("have %d calls: must be 1 to %d", sum, accuracy.MaxPlayed))
		return accuracy.Traffic{}
	}
	traffic, err := recording.Traffic(seed)
	if err != nil {
		details.Add("minutes", err)
	}
	return traffic
}
