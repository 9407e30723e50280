package templates

// DenialsPage lists denied calls, newest first.
type DenialsPage struct {
	Page    Page
	Live    Live
	Filter  DenialsFilter
	Refused []Figure // refused calls by cause, without zeros
	Notes   []string // about what the list omits
	Rows    []DenialRow
	Empty   Empty
	First   string // address of the newest rows; empty on the first page
	Next    string // address of older rows; empty on the last page
	Export  string
}

// DenialsFilter is the form that filters the list.
type DenialsFilter struct {
	Action                        string
	Key, Plan, Group, Rule, Limit string
	Cause                         string
	Causes                        []Option
	From, To                      string // values of datetime-local inputs, in UTC
	Problem                       string // error of the filter; empty if it is valid
	Clear                         string
}

// DenialRow is one entry of the denial log.
type DenialRow struct {
	At         Instant
	More       string // later calls of the same minute that the entry stands for; may be empty
	Caller     string
	Address    string // of the caller; empty if there is none
	Plan       string
	Cause      string
	Reason     string // the claim, key or setting that is the cause; may be empty
	Limit      Choice // its address filters by the limit
	Scope      string // whose calls the limit counts; empty for the caller's
	Rule       Choice // its address filters by the rule
	Call       string // method and pattern
	API        string
	Network    string
	RetryAfter string
	Request    string
}
