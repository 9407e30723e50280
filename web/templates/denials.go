package templates

// DenialsPage lists denied calls, newest first.
type DenialsPage struct {
	Page    Page
	Live    Live
	Logs    []Choice // of denials, and of limits in shadow
	OnTrial bool     // the calls passed, and limits in shadow would have denied them
	Filter  DenialsFilter
	Refused []Figure        // refused calls by cause, without zeros
	Notes   []string        // about what the list omits
	Summary *DenialsSummary // nil without denials, and on later pages
	Rows    []DenialRow
	Empty   Empty
	First   string // address of the newest rows; empty on the first page
	Next    string // address of older rows; empty on the last page
	Export  string
}

// DenialsSummary says what denied the calls of the period.
type DenialsSummary struct {
	Chart TimeSeries
	Note  string // which part of the period it covers; empty for all
	Tops  []Top
}

// Top ranks values by their denied calls.
type Top struct {
	Heading string
	Rows    []TopRow
}

// TopRow is a value of a Top. Its address filters by it.
type TopRow struct{ Text, Calls, Share, Address string }

// DenialsFilter is the form that filters the list.
type DenialsFilter struct {
	Action                               string
	Key, Plan, Group, Route, Limit, Call string
	Cause, Request                       string
	Plans, Routes, Limits, Calls, Causes []Option
	From, To                             string // values of datetime-local inputs, in UTC
	Span                                 string // the chosen range; empty for the default
	Spans                                []Choice
	Chips                                []Chip
	Problem                              string // error of the filter; empty if it is valid
	Clear                                string
}

// DenialRow is one kind of denials in a minute, described by the newest.
type DenialRow struct {
	DenialSample

	Calls   string         // number of them; empty for one
	Samples []DenialSample // those that are logged; none for one
	Caller  string
	Address string // of the caller; empty if there is none
	Plan    string
	Cause   string
	Reason  string // the claim, key or setting that is the cause; may be empty
	Limit   Choice // its address filters by the limit
	Route   Choice // that a backend is told; its address filters by it
	Call    string // method and pattern
	API     string
}

// DenialSample is what differs between the denials of a DenialRow.
type DenialSample struct {
	At         Instant
	Network    string
	RetryAfter string
	Request    string
	More       string // later calls that it stands for; may be empty
}
