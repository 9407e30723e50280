package templates

// ExplainPage explains the decision on a call.
type ExplainPage struct {
	Page    Page
	Form    ExplainForm
	Choices *KeyChoices  // keys that the typed name matches; nil unless there are several
	Answer  *Explanation // nil without a valid call
}

// ExplainForm is the call to explain.
type ExplainForm struct {
	Action string
	Hidden Hidden
	Errors int
	Fields []FormField
}

// Explanation is a decision and its reasons.
type Explanation struct {
	Name     string
	Address  string
	Verdict  string
	Client   string // which client address counts and why; empty without an address
	Allowed  bool
	Routes   []RouteMatch
	Cost     string
	Why      []string
	Limits   []AppliedRow
	Response Response
}

// RouteMatch is a route that the call falls under.
type RouteMatch struct {
	Name     string
	Pattern  string
	Cost     string
	SetsCost bool // of the call
}

// AppliedRow is a limit that applies to a call or to a caller.
type AppliedRow struct {
	Window Window
	From   string  // where the limit stands
	Takes  string  // what the explained call takes; empty without a call
	Denied Instant // when it denied the last call; zero if another limit did
	Note   string  // in place of the usage, if that is unknown
	Would  string  // what a limit in shadow would have denied; empty for another
	Since  Instant // of the first call that it counts; zero where that is a window ago
}
