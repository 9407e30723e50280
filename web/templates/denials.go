package templates

// DenialsPage lists denied and refused calls, newest first.
type DenialsPage struct {
	Page       Page
	Live       Live
	Filter     DenialsFilter
	Summary    *DenialsSummary // nil on later pages, and if nothing counts what the filter selects
	Rows       []DenialRow
	Requests   []string // ids of the calls of one row
	RequestsOf string   // how many calls the row has, and of how many the ids are known
	Empty      Empty
	First      string // address of the newest rows; empty on the first page
	Next       string // address of older rows; empty on the last page
	Export     string
}

// DenialsSummary says what denied the calls of the period.
type DenialsSummary struct {
	Lead    []Phrase
	Figures []Figure
	Chart   *TimeSeries // nil without denials
	Tops    []Top
}

// Top ranks values by their denied calls.
type Top struct {
	Heading string
	Rows    []TopRow
}

// TopRow is a value of a Top. Its address filters by it; empty if nothing lists it.
type TopRow struct{ Text, Calls, Share, Address string }

// DenialsFilter is the form that filters the list.
type DenialsFilter struct {
	Action                         string
	Key, Plan, Group, Route, Limit string
	Cause, Request                 string
	Plans, Routes, Limits, Causes  []Option
	From, To                       string // values of datetime-local inputs, in UTC
	Span                           string // the chosen range; empty for the default
	Spans                          []Choice
	Chips                          []Chip
	Problem                        string // error of the filter; empty if it is valid
	Clear                          string
}

// DenialRow is the calls of one caller, limit or cause, and minute. It describes the first.
type DenialRow struct {
	At         Instant
	Calls      string // number of them
	Caller     string
	Address    string // of the caller; empty if there is none
	Plan       string
	Cause      string
	Reason     string // the claim, key or setting that is the cause; may be empty
	Limit      Choice // its address filters by the limit
	Route      Choice // the most specific one; its address filters by it
	Call       string // method and pattern
	API        string
	Network    string
	RetryAfter string
	Reference  string // as in the body of a 429; empty for a caller that proved nothing
	Details    string // address of the row alone, with the ids of its first requests
}
