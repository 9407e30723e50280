package accuracy

import "slices"

// Algorithm is a rate limiting algorithm that Run can simulate.
type Algorithm struct {
	Name  string `json:"name"`
	Title string `json:"title"`
	// Ours reports whether this is package limiter's own model. The others implement here
	// what Source describes.
	Ours   bool   `json:"ours"`
	Source string `json:"source,omitempty"`
	build  func(limit, window int64) decider
}

// The names of the algorithms.
const (
	Log            = "log"
	LogGrouped     = "log-grouped"
	LogCountDenied = "log-count-denied"
	Counter        = "counter"
	TokenBucket    = "token-bucket"
	FixedWindow    = "fixed-window"
	TwoWindow      = "two-window"
	TwoWindowAll   = "two-window-all"
	ZSETScript     = "zset-script"
	ZSETPipeline   = "zset-pipeline"
	ZSETAll        = "zset-all"
)

// decider decides calls in time order and counts the admitted ones. Times are in
// microseconds.
type decider interface {
	Take(now, cost int64) bool
}

// adviser is a decider that also returns when to retry a denied call.
type adviser interface {
	retryAfter() int64           // of the last denial, in microseconds after it
	passes(now, cost int64) bool // reports whether Take would admit the call; counts nothing
}

// unbounded is a decider whose number of stored entries the limit does not bound.
type unbounded interface {
	stored() int
}

var algorithms = []Algorithm{
	{Name: Log, Title: "log", Ours: true, build: ourLog},
	{Name: LogGrouped, Title: "log, 64 slots", Ours: true, build: ourGroupedLog},
	{Name: LogCountDenied, Title: "log, denied calls count", Ours: true, build: ourAttemptsLog},
	{Name: Counter, Title: "counter", Ours: true, build: ourCounter},
	{Name: TokenBucket, Title: "token bucket (GCRA, leaky bucket)", Ours: true, build: ourBucket},
	{Name: FixedWindow, Title: "fixed window", Ours: true, build: ourFixedWindow},
	{
		Name: TwoWindow, Title: "two-window estimate, Upstash", build: newTwoWindow,
		Source: "Upstash Ratelimit's documented slidingWindow; the common script over two INCR keys " +
			"decides alike",
	},
	{
		Name: TwoWindowAll, Title: "two-window estimate, Cloudflare", build: newTwoWindowAll,
		Source: `Cloudflare, "How we built rate limiting capable of scaling to millions of domains" (2017), counted at once and without a mitigation time`,
	},
	{
		Name: ZSETScript, Title: "ZSET log, script", build: newZSETScript,
		Source: "a script often published: milliseconds, a random number in each member",
	},
	{
		Name: ZSETPipeline, Title: "ZSET log, pipeline", build: newZSETPipeline,
		Source: "a pipeline often published: the time is the member, counted before it is added, denied " +
			"calls stored",
	},
	{
		Name: ZSETAll, Title: "ZSET log, add first", build: newZSETAll,
		Source: "a pipeline often published: the time is the member, added before it is counted, denied " +
			"calls stored",
	},
}

// Algorithms lists every algorithm, ours first.
func Algorithms() []Algorithm { return slices.Clone(algorithms) }
