package templates

// OverviewPage shows the calls of all callers.
type OverviewPage struct {
	Page       Page
	Live       Live
	Range      Range
	Lead       []Phrase
	Steps      []Step // to the first call; empty after it
	Outage     string // when calls were decided without Valkey; empty if none were
	Figures    []Figure
	Chart      TimeSeries
	Attention  []AttentionRow
	Closest    []ClosestRow
	Limits     []TopRow // that denied calls, the most first
	Busiest    []BusyRow
	AllDenied  string // address of the keys that are denied now
	AllClosest string // address of the keys near a limit
}

// Step is one of the steps to a first call.
type Step struct {
	Text    string
	Advice  string
	Action  Choice // may be zero
	Command string // command line to try; may be empty
}

// Figure is a key figure.
type Figure struct {
	Name    string
	Value   string
	Note    string
	Bad     bool   // calls are denied
	Address string // address of a list of what the figure counts; may be empty
}

// CallerName names a caller. Its address is empty for one without a page.
type CallerName struct{ Name, Plan, Address string }

// AttentionRow is a caller that somebody should look at.
type AttentionRow struct {
	Caller CallerName
	State  string // in a word: denied, banned, refused
	Level  string // of the state: denied or near
	Reason string
	Left   string // seconds until the state ends, for a script; empty if it does not
	Wait   string // the same in words, which follow Reason
	Calls  string // of the period
	Denied string // how many of them
	Ban    string // address of the form; empty if it does not apply
}

// ClosestRow is a key and its fullest limit.
type ClosestRow struct {
	Caller CallerName
	Window Window
}

// BusyRow is a caller with many calls.
type BusyRow struct {
	Caller CallerName
	Calls  string
	Shadow string // calls that limits in shadow would have denied; empty for none
	Spark  Sparkline
}
