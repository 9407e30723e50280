package simulate

import (
	"slices"
	"strconv"

	"tidegate/internal/accuracy"
)

// algorithmNotes explain the line of each algorithm in the chart.
var algorithmNotes = map[string]string{
	accuracy.Log: "Keeps the time of every admitted call. Its line lies on the exact log's: it fills up to " +
		"the limit, and one call fits " +
		"as soon as one has left the rolling window.",
	accuracy.LogGrouped: "A log with few slots: each stands for several calls and carries the time of the " +
		"latest. The line never passes " +
		"the limit and may stay under it by less than one slot. Limits up to 64 have a slot for each call " +
		"and lie on the exact log's line.",
	accuracy.LogCountDenied: "Denied calls are entered as well, so whoever keeps calling stays out. Above " +
		"the limit the line sinks " +
		"towards zero and rises only when the caller pauses.",
	accuracy.Counter: "Two counts of aligned windows; the older one is weighted by how much of it still " +
		"overlaps, as if its calls had " +
		"been spread evenly. A burst at the end of a window breaks that guess: up to twice the limit less " +
		"one passes.",
	accuracy.TokenBucket: "Also known as leaky bucket (as a meter) and GCRA: both names mean the same " +
		"decisions. A full bucket lets the " +
		"whole limit pass at once and refills evenly all the while, so the first rolling window can hold " +
		"twice the limit less one; after that " +
		"the rate is even.",
	accuracy.FixedWindow: "Counts from zero at every boundary. A burst just before one and a burst just " +
		"after both pass: twice the " +
		"limit in an instant, as the first preset shows.",
	accuracy.TwoWindow: "The two-count estimate, rounded down and by a clock of milliseconds. It errs as " +
		"the counter does, by one call " +
		"more.",
	accuracy.TwoWindowAll: "The two-count estimate of all calls, denied ones too. Bursts hurt it less, but " +
		"steady traffic above the " +
		"limit holds its own estimate up: hardly anything passes.",
	accuracy.ZSETScript: "A log in a sorted set by a clock of milliseconds. It strays by the calls that " +
		"share a millisecond, if any.",
	accuracy.ZSETPipeline: "A log in a sorted set that stores denied calls too. Above the limit the line " +
		"sinks as that of a log that " +
		"counts them; calls with the same time count as one.",
	accuracy.ZSETAll: "As the pipeline, but a call is stored before the set is counted.",
}

// shapeNotes say what traffic is played.
var shapeNotes = map[accuracy.Shape]string{
	accuracy.Boundary: "Once in four windows: silence, twice the limit in the last thousandth of a window, " +
		"twice the limit in the first " +
		"thousandth of the next, the rate until that one ends, silence.",
	accuracy.Poisson: "Calls at independent random instants.",
	accuracy.OnOff: "A third of a window at the rate, then silence for 0.78 windows, so that the bursts " +
		"wander over the boundaries.",
	accuracy.Greedy:   "Calls at even distances.",
	accuracy.Recorded: "As many calls in each minute as recorded, at random instants of it.",
}

// seriesOf names the line of an algorithm, so that it looks the same in every experiment.
func seriesOf(name string) string {
	i := slices.IndexFunc(accuracy.Algorithms(), func(c accuracy.Algorithm) bool { return c.Name == name })
	return "s" + strconv.Itoa(i+1)
}
