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
	Name      string
	Address   string
	Verdict   string
	Client    string // which client address counts and why; empty without an address
	Allowed   bool
	Rules     []RuleMatch
	Cost      string
	Why       []string
	Limits    []AppliedRow
	Candidate string
	Response  Response
}

// RuleMatch is a route rule that matches the call.
type RuleMatch struct {
	Name    string
	Pattern string
	Won     bool // the most specific rule, which applies
	Reason  string
}

// AppliedRow is a limit that applies to the call.
type AppliedRow struct {
	Scope  string
	Mode   string
	Window Window
}
