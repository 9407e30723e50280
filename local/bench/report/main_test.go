package main

import (
	"strings"
	"testing"

	"golang.org/x/perf/benchfmt"
)

const printed = `
BenchmarkSaturated/round=1/evalsha/allowed-2 	200	4000 ns/op	1000 checks/s	 100 server-ns/op
BenchmarkSaturated/round=1/log100/allowed-2  	200	4000 ns/op	 300 checks/s	2000 server-ns/op
BenchmarkSaturated/round=1/log100/denied-2   	200	4000 ns/op	 500 checks/s	1500 server-ns/op
BenchmarkSaturated/round=2/evalsha/allowed-2 	200	4000 ns/op	 100 checks/s	 100 server-ns/op
BenchmarkSaturated/round=2/log100/allowed-2  	200	4000 ns/op	  40 checks/s	2200 server-ns/op
BenchmarkOneInFlight/round=1/log100-2        	200	  30000 p50-ns	  20000 ping-p50-ns	5.00 allocs/call
BenchmarkMemory/log100-2                     	  1	    600 B/caller
BenchmarkAnswer/round=1/ours                 	  1	 300000 p50-ns	10 rss-MiB
BenchmarkAnswer/round=1/jwt_ours             	  1	 400000 p50-ns	10 rss-MiB
BenchmarkAnswer/round=1/node                 	  1	 450000 p50-ns	80 rss-MiB
BenchmarkColdStart/round=1/ours              	  1	5000000 p50-ns
BenchmarkColdStart/round=1/node              	  1	60000000 p50-ns
BenchmarkServerTime/round=1/evalsha          	  1	   5000 server-ns/op
BenchmarkServerTime/round=1/server           	  1	  10000 server-ns/op
BenchmarkServerTime/round=1/recorded         	  1	   7000 server-ns/op
`

// A ratio is the median of the ratios of the rounds.
func TestFigures(t *testing.T) {
	s, err := read(benchfmt.NewReader(strings.NewReader(printed), "printed"))
	if err != nil {
		t.Fatal(err)
	}
	got := map[string]float64{}
	for _, f := range s.figures() {
		got[f.Name] = f.Value
	}
	for name, want := range map[string]float64{
		"limiter.log100.rate_vs_evalsha": .4, "limiter.log100.denied_rate_vs_evalsha": .5,
		"limiter.log100.cpu_us": 2.2, "limiter.log100.p50_vs_ping": 1.5, "limiter.log100.allocs": 5,
		"limiter.log100.bytes": 600,
		"check.ours_p50_us":    300, "check.jwt_ours_p50_us": 400, "check.p50_vs_node": 1.5,
		"check.rss_vs_node": 8, "check.coldstart_vs_node": 12, "check.server_vs_evalsha": 2,
		"check.recorded_vs_evalsha": 1.4, "check.server_us": 10,
	} {
		if got[name] < want*.999 || got[name] > want*1.001 {
			t.Errorf("%s: got %g, want %g", name, got[name], want)
		}
	}
}
