//go:build unix

package check

import "tidegate/local/bench/figures"

var goals = map[string]figures.Goal{
	"check.coldstart_over_echo_ms": {Bound: 0.5},
	"check.binary_mib":             {Bound: 9},
	"check.zip_mib":                {Bound: 4},
	"check.coldstart_vs_node":      {Bound: 30, Least: true},
	"check.p50_vs_node":            {Bound: 1.8, Least: true},
	"check.rss_vs_node":            {Bound: 5, Least: true},
	"check.server_vs_evalsha":      {Bound: 2.2},
	"check.server_two_vs_evalsha":  {Bound: 2.8},
	"check.recorded_vs_evalsha":    {Bound: 0.4},
}

func goal(name string) (figures.Goal, bool) {
	g, found := goals[name]
	return g, found
}
