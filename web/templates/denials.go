package templates

// DenialsPage lists denied calls, newest first.
type DenialsPage struct {
	Page    Page
	Live    Live
	Filter  DenialsFilter
	Refused []Figure // refused credentials by cause, those that there are
	Notes   []string // what the list leaves out
	Rows    []DenialRow
	Empty   Empty
	First   string // address of the newest; empty when they are shown
	Next    string // address of older ones; empty at the end
	Export  string
}

// DenialsFilter is the form that narrows the list.
type DenialsFilter struct {
	Action                        string
	Key, Plan, Group, Rule, Limit string
	Cause                         string
	Causes                        []Option
	From, To                      string // as the inputs have them, in UTC
	Problem                       string // what is wrong with the filter; empty when it is valid
	Clear                         string
}

// DenialRow is one entry of the denial log.
type DenialRow struct {
	At         Instant
	More       string // how many later calls of its minute it stands for
	Caller     string
	Address    string // of the caller; empty when there is none
	Plan       string
	Cause      string
	Limit      Choice // with the address that filters by it
	Rule       Choice // likewise
	Call       string // method and pattern
	API        string
	Network    string
	RetryAfter string
	Request    string
}
