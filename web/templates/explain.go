package templates

// ExplainPage says what a call would get, and why.
type ExplainPage struct {
	Page    Page
	Form    ExplainForm
	Choices *KeyChoices  // keys with such a name; nil unless there are several
	Answer  *Explanation // nil until something sensible is asked
}

// ExplainForm is the call to explain.
type ExplainForm struct {
	Action string
	Hidden Hidden
	Errors int
	Fields []FormField
}

// Explanation is the answer.
type Explanation struct {
	Name      string
	Address   string
	Verdict   string
	Allowed   bool
	Rules     []RuleMatch
	Cost      string
	Why       []string
	Limits    []AppliedRow
	Candidate string
	Response  Response
}

// RuleMatch is a rule that the call falls under.
type RuleMatch struct {
	Name    string
	Pattern string
	Won     bool
	Reason  string
}

// AppliedRow is a limit that the call is held against.
type AppliedRow struct {
	Scope  string
	Mode   string
	Window Window
}
