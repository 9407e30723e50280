package templates

// DenialsPage lists denied calls, newest first.
type DenialsPage struct {
	Page    Page
	Live    Live
	Filter  DenialsFilter
	Refused []Figure // refused calls by cause, without zeros
	Notes   []string // on what the list omits
	Rows    []DenialRow
	Empty   Empty
	First   string // address of the newest; empty on the first page
	Next    string // address of older ones; empty on the last page
	Export  string
}

// DenialsFilter is the form that filters the list.
type DenialsFilter struct {
	Action                        string
	Key, Plan, Group, Rule, Limit string
	Cause                         string
	Causes                        []Option
	From, To                      string // as the inputs hold them, in UTC
	Problem                       string // error of the filter; empty if it is valid
	Clear                         string
}

// DenialRow is one entry of the denial log.
type DenialRow struct {
	At         Instant
	More       string // number of later calls of its minute that the entry represents
	Caller     string
	Address    string // of the caller; empty if there is none
	Plan       string
	Cause      string
	Limit      Choice // its address filters by the limit
	Rule       Choice // its address filters by the rule
	Call       string // method and pattern
	API        string
	Network    string
	RetryAfter string
	Request    string
}
