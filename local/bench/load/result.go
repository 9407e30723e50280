//go:build unix

package main

import (
	"fmt"
	"runtime"
	"slices"
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"
)

// result has the figures of a load, as -json writes them.
type result struct {
	Scenario    string         `json:"scenario"`
	About       string         `json:"about"`
	At          time.Time      `json:"at"`
	Machine     string         `json:"machine"`
	Store       string         `json:"store,omitempty"`
	API         string         `json:"api"`
	Rate        float64        `json:"rate"`               // a second, due
	Capacity    float64        `json:"capacity,omitempty"` // a second, as the calibration found it
	Duration    float64        `json:"duration_s"`
	Interrupted bool           `json:"interrupted"`
	Calls       int            `json:"calls"`
	Unsent      int64          `json:"unsent"` // were due, and waited until the load was over
	Unexpected  int            `json:"unexpected"`
	Statuses    map[int16]int  `json:"statuses"` // 0 is no answer
	Kinds       map[string]int `json:"kinds"`
	Latency     quantiles      `json:"latency"` // from when calls were due
	Service     quantiles      `json:"service"` // from when they were sent
	Edits       int            `json:"edits"`
	Proof       *proof         `json:"proof"`
	Step        float64        `json:"step_s"`
	Series      []step         `json:"series"`
	Shape       []percentile   `json:"shape"`
}

// quantiles are in milliseconds.
type quantiles struct {
	P50  float64 `json:"p50_ms"`
	P90  float64 `json:"p90_ms"`
	P99  float64 `json:"p99_ms"`
	P999 float64 `json:"p999_ms"`
	Max  float64 `json:"max_ms"`
}

// step is one point of the series, of the calls that were due then.
type step struct {
	Kinds map[string]int `json:"kinds"`
	P50   float64        `json:"p50_ms"`
	P99   float64        `json:"p99_ms"`
	Max   float64        `json:"max_ms"`
}

// percentile is a point of the distribution of latencies.
type percentile struct {
	Percent float64 `json:"percent"`
	Latency float64 `json:"latency_ms"`
	Service float64 `json:"service_ms"`
}

func newResult(s *session, t *tally) *result {
	r := &result{
		Scenario: s.scenario.name, About: s.scenario.about, At: time.Now().UTC().Truncate(time.Second),
		Machine: fmt.Sprintf("%s/%s, %d cores, %s", runtime.GOOS, runtime.GOARCH, runtime.NumCPU(),
			runtime.Version()), API: s.api,
		Duration: s.duration.Seconds(), Calls: len(t.outcomes), Unexpected: t.unexpected,
		Statuses: t.statuses, Kinds: named(t.counts),
		Latency: quantilesOf(t.latency), Service: quantilesOf(t.service), Step: t.step.Seconds(),
		Proof: prove(s.target.callers, slices.Concat(s.earlier, t.outcomes)),
	}
	if s.local != nil {
		r.Store = s.local.server.Name
	}
	for _, p := range t.series {
		q := quantilesOf(p.latency)
		r.Series = append(r.Series, step{named(p.counts), q.P50, q.P99, q.Max})
	}
	for _, percent := range shapePercents {
		r.Shape = append(r.Shape, percentile{percent, millis(t.latency, percent), millis(t.service, percent)})
	}
	return r
}

// shapePercents are spread evenly over an axis where each further nine is equally wide.
var shapePercents = []float64{0, 10, 25, 50, 75, 90, 95, 97.5, 99, 99.5, 99.75, 99.9, 99.95, 99.975,
	99.99, 99.999}

func named(counts [kinds]int) map[string]int {
	m := map[string]int{}
	for k, n := range counts {
		if n > 0 {
			m[kind(k).String()] = n
		}
	}
	return m
}

func millis(h *hdrhistogram.Histogram, percent float64) float64 {
	return quantile(h, percent).Seconds() * 1e3
}

func quantilesOf(h *hdrhistogram.Histogram) quantiles {
	return quantiles{millis(h, 50), millis(h, 90), millis(h, 99), millis(h, 99.9), millis(h, 100)}
}

// good reports whether every answer was an expected one, and no window was above its
// limit.
func (r *result) good() bool { return r.Unexpected == 0 && r.Proof.holds() }
