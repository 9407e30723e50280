package templates

// CallsPage shows what becomes of single calls.
type CallsPage struct {
	Page       Page
	Tabs       []Choice
	Action     string
	Limit      Field
	Window     Field
	Unit       Field
	Algorithm  Field
	Times      Field
	Units      []Option
	Algorithms []Option
	Sample     string // of a list of times
	Errors     int
	Bounds     string
	Summary    string
	Rows       []CallRow
}

// CallRow is a call and its answer.
type CallRow struct {
	Number     string
	At         string
	Allowed    bool
	Remaining  string
	RetryAfter string // empty when allowed
	Again      string // the instant at which the retry-after ends
}
