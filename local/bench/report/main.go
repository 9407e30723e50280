// Command report makes figures of bench.json from the output of go test -bench: of each,
// the median over the rounds. A ratio is that of two values of the same round, so that a
// disturbance of the machine affects both.
package main

import (
	"flag"
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"

	"golang.org/x/perf/benchfmt"

	"tidegate/local/bench"
)

func main() {
	file := flag.String("o", "bench.json", "`file` whose figures are replaced")
	flag.Parse()
	s, err := read(benchfmt.NewReader(os.Stdin, "stdin"))
	if err == nil {
		err = bench.Report(os.Stdout, *file, s.figures())
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "report:", err)
		os.Exit(1)
	}
}

// series has the values of one benchmark and unit by round.
type series map[string]float64

// samples has all series by the benchmark's name, without its round, and its unit.
type samples struct {
	of    map[string]series
	names []string // in order
}

func read(r *benchfmt.Reader) (*samples, error) {
	s := &samples{of: map[string]series{}}
	for r.Scan() {
		result, is := r.Result().(*benchfmt.Result)
		if !is {
			continue
		}
		name, parts := result.Name.Parts()
		of, round := []string{string(name)}, ""
		for _, part := range parts {
			switch {
			case strings.HasPrefix(string(part), "/round="):
				round = string(part)
			case part[0] == '/':
				of = append(of, string(part[1:]))
			}
		}
		s.add(strings.Join(of, "/"), round, result.Values)
	}
	return s, r.Err()
}

func (s *samples) add(name, round string, values []benchfmt.Value) {
	for _, v := range values {
		if v.OrigUnit != "" {
			v.Value, v.Unit = v.OrigValue, v.OrigUnit
		}
		key := name + " " + v.Unit
		if s.of[key] == nil {
			s.of[key] = series{}
			s.names = append(s.names, key)
		}
		s.of[key][round] = v.Value
	}
}

// rule makes figures of the series whose key matches of, in which * stands for a name that
// also replaces * in the figure and in over. With over, the figure is the ratio to it.
type rule struct {
	of, figure, unit string
	scale            float64
	over             string
}

func rules() []rule {
	var all []rule
	for _, v := range []string{"allowed", "denied"} {
		prefix, rates := strings.TrimPrefix(v+"_", "allowed_"), "/"+v+" checks/s"
		all = append(all,
			rule{"Saturated/*" + rates, "limiter.*." + prefix + "rate", "1/s", 1, ""},
			rule{"Saturated/*" + rates, "limiter.*." + prefix + "rate_vs_evalsha", "ratio", 1,
				"Saturated/evalsha/allowed checks/s"},
			rule{"Saturated/*" + rates, "limiter.*." + prefix + "rate_vs_upstash", "ratio", 1,
				"Saturated/upstash" + rates},
			rule{"Saturated/three_*" + rates, "limiter.three_*." + prefix + "rate_vs_one", "ratio", 1,
				"Saturated/log100" + rates},
			rule{"Saturated/*/" + v + " server-ns/op", "limiter.*." + prefix + "cpu_us", "µs", 1e-3, ""})
	}
	all = append(all,
		rule{"OneInFlight/* p50-ns", "limiter.*.p50_us", "µs", 1e-3, ""},
		rule{"OneInFlight/* p50-ns", "limiter.*.p50_vs_ping", "ratio", 1, "OneInFlight/* ping-p50-ns"},
		rule{"OneInFlight/* allocs/call", "limiter.*.allocs", "allocations", 1, ""},
		rule{"Memory/* B/caller", "limiter.*.bytes", "bytes", 1, ""},
		rule{"Answer/* package-MiB", "check.*_package_mib", "MiB", 1, ""})
	for _, m := range []rule{
		{"ColdStart/* p50-ns", "coldstart_ms", "ms", 1e-6, ""},
		{"Answer/* p50-ns", "p50_us", "µs", 1e-3, ""},
		{"Answer/* p99-ns", "p99_us", "µs", 1e-3, ""}, {"Answer/* rss-MiB", "rss_mib", "MiB", 1, ""},
	} {
		name, _, _ := strings.Cut(m.figure, "_")
		all = append(all, rule{m.of, "check.*_" + m.figure, m.unit, m.scale, ""})
		for _, credential := range []string{"", "jwt_"} {
			for _, peer := range []string{"go", "node"} {
				all = append(all, rule{strings.Replace(m.of, "*", credential+peer, 1),
					"check." + credential + name + "_vs_" + peer, "ratio", 1,
					strings.Replace(m.of, "*", credential+"ours", 1)})
			}
		}
	}
	const spent = " server-ns/op"
	return append(all,
		rule{"ServerTime/server" + spent, "check.server_us", "µs", 1e-3, ""},
		rule{"ServerTime/*" + spent, "check.*_vs_evalsha", "ratio", 1, "ServerTime/evalsha" + spent})
}

// figures returns the figures of all rules.
func (s *samples) figures() []bench.Figure {
	var all []bench.Figure
	for _, r := range rules() {
		before, after, _ := strings.Cut(r.of, "*")
		for _, key := range s.names {
			name, is := strings.CutPrefix(key, before)
			if name, is = strings.CutSuffix(name, after); !is || !strings.HasPrefix(key, before) ||
				strings.ContainsAny(name, "/ ") || r.over == key {
				continue
			}
			values := s.ratios(key, strings.Replace(r.over, "*", name, 1))
			if r.over == "" {
				values = slices.Collect(maps.Values(s.of[key]))
			}
			if len(values) > 0 {
				all = append(all, bench.Figure{Name: strings.Replace(r.figure, "*", name, 1),
					Value: bench.Median(values) * r.scale, Unit: r.unit})
			}
		}
	}
	return all
}

// ratios returns the ratio of each round that has both series.
func (s *samples) ratios(key, to string) []float64 {
	var all []float64
	for round, v := range s.of[key] {
		if reference := s.of[to][round]; reference > 0 {
			all = append(all, v/reference)
		}
	}
	return all
}
