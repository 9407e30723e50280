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
	Rules    []RuleMatch
	Cost     string
	Why      []string
	Limits   []AppliedRow
	Response Response
}

// RuleMatch is a route rule that matches the call.
type RuleMatch struct {
	Name    string
	Pattern string
	Won     bool // the most specific rule, which applies
	Reason  string
}

// AppliedRow is a limit that applies to a call or to a caller.
type AppliedRow struct {
	Window Window
	Scope  string
	Tags   []string // such as shadow
	Denied Instant  // when it denied the last call; zero if another limit did
	Note   string   // in place of the usage, if that is unknown
}
