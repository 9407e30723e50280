package simulate

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"tidegate/functions/admin/api/rest"
	"tidegate/internal/accuracy"
	"tidegate/internal/limiter"
)

// maxPlayed is how many calls a simulation plays: about 10 ms for each algorithm.
const maxPlayed = 50_000

type (
	labInput struct {
		Body struct {
			Requests   int64    `json:"requests" minimum:"1" maximum:"10000"`
			Window     string   `json:"window" maxLength:"20" example:"1m"`
			Shape      string   `json:"shape" enum:"boundary,poisson,on-off,greedy,recorded"`
			Rate       int64    `json:"rate,omitempty" minimum:"1" maximum:"1000000" doc:"Calls in a window, in percent of the limit; not of recorded calls"`
			Windows    int64    `json:"windows,omitempty" minimum:"1" maximum:"50000" doc:"How long, in windows; not of recorded calls"`
			Minutes    []int64  `json:"minutes,omitempty" maxItems:"1440" doc:"Recorded calls, minute by minute"`
			Seed       uint64   `json:"seed,omitempty" maximum:"999999999" doc:"Another seed strews other calls"`
			Algorithms []string `json:"algorithms,omitempty" maxItems:"20" doc:"Names; all when it is left out"`
			Points     int      `json:"points,omitempty" maximum:"500" doc:"Length of the series of rolling windows; 0 for none"`
		}
	}
	labOutput struct {
		Body struct {
			Calls    int64     `json:"calls"`
			Exact    Outcome   `json:"exact" doc:"Of the exact log"`
			Outcomes []Outcome `json:"outcomes"`
			Demand   []int64   `json:"demand,omitempty" doc:"Calls in the rolling windows of the series, admitted or not"`
		}
	}
)

// Outcome is what an algorithm made of the calls.
type Outcome struct {
	Algorithm    string  `json:"algorithm"`
	Title        string  `json:"title"`
	Ours         bool    `json:"ours" doc:"Of this limiter; all others are renderings of what others publish"`
	Admitted     int64   `json:"admitted"`
	FalseAllows  int64   `json:"falseAllows" doc:"Admitted, which the exact log denied"`
	FalseDenials int64   `json:"falseDenials" doc:"Denied, which the exact log admitted"`
	Worst        int64   `json:"worst" doc:"The most calls in any rolling window"`
	Series       []int64 `json:"series,omitempty"`
}

func compare(_ context.Context, in *labInput) (*labOutput, error) {
	var details rest.Details
	b := in.Body
	window, err := limiter.ParseWindow(b.Window)
	if err != nil {
		details.Add("window", err)
	}
	for i, name := range b.Algorithms {
		if !isAlgorithm(name) {
			details.Add(fmt.Sprintf("algorithms[%d]", i),
				fmt.Errorf("must be one of %s", strings.Join(algorithmNames(), ", ")))
		}
	}
	traffic := accuracy.Traffic{Shape: accuracy.Shape(b.Shape), Rate: b.Rate, Windows: b.Windows}
	if traffic.Shape == accuracy.Recorded {
		traffic = recorded(b.Minutes, b.Seed, &details)
	} else {
		needed(&details, "rate", b.Rate)
		needed(&details, "windows", b.Windows)
	}
	if err := details.Err(); err != nil {
		return nil, err
	}
	return play(accuracy.Scenario{
		Limit: b.Requests, Window: window, Traffic: traffic, Seed: b.Seed, Algorithms: b.Algorithms,
		Points: b.Points,
	})
}

func play(s accuracy.Scenario) (*labOutput, error) {
	if err := s.Validate(); err != nil {
		return nil, rest.Invalid("body", strings.ReplaceAll(err.Error(), "\n", "; "))
	}
	if n := s.Count(); n < 1 || n > maxPlayed {
		return nil, rest.Invalid("body", fmt.Sprintf("makes %d calls: must be 1 to %d", n, maxPlayed))
	}
	result, err := accuracy.Run(s)
	if err != nil {
		return nil, rest.Invalid("body", "these calls cannot be played")
	}
	out := &labOutput{}
	out.Body.Calls, out.Body.Demand, out.Body.Exact = result.Calls, result.Demand, outcomeOf(result.Exact)
	for _, o := range result.Outcomes {
		out.Body.Outcomes = append(out.Body.Outcomes, outcomeOf(o))
	}
	return out, nil
}

func outcomeOf(o accuracy.Outcome) Outcome {
	return Outcome{o.Name, o.Title, o.Ours, o.AdmittedCalls, o.FalseAllows, o.FalseDenials, o.Worst, o.Series}
}

func algorithmNames() []string {
	var names []string
	for _, c := range accuracy.Algorithms() {
		names = append(names, c.Name)
	}
	return names
}

func isAlgorithm(name string) bool { return slices.Contains(algorithmNames(), name) }

// needed notes a number that is missing.
func needed(details *rest.Details, field string, n int64) {
	if n == 0 {
		details.Add(field, errors.New("is needed, but for recorded calls"))
	}
}

// recorded are the calls of minutes, the first of which begins at a boundary.
func recorded(minutes []int64, seed uint64, details *rest.Details) accuracy.Traffic {
	recording, sum := make(accuracy.Recording, len(minutes)), int64(0)
	for i, calls := range minutes {
		if calls < 0 || calls > maxPlayed {
			details.Add(fmt.Sprintf("minutes[%d]", i), fmt.Errorf("must be 0 to %d", maxPlayed))
			return accuracy.Traffic{}
		}
		recording[i] = accuracy.Minute{
			Begin: time.Unix(1_800_000_000, 0).Add(time.Duration(i) * time.Minute), Calls: calls}
		sum += calls
	}
	if sum < 1 || sum > maxPlayed {
		details.Add("minutes", fmt.Errorf("make %d calls: must be 1 to %d", sum, maxPlayed))
		return accuracy.Traffic{}
	}
	traffic, err := recording.Traffic(seed)
	if err != nil {
		details.Add("minutes", err)
	}
	return traffic
}
