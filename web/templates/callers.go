package templates

// CallersPage lists the active callers without a record.
type CallersPage struct {
	Page  Page
	Live  Live
	Trail []Choice
	Sorts KeySorts
	Note  string // on the length of the list; may be empty
	Rows  []CallerRow
	Empty Empty
	First string // address of the first page; empty if it is shown
	Next  string // address of the next page; empty on the last
	Adopt string // address of the form that creates a record; empty for viewers
}

// CallerRow is a caller without a record.
type CallerRow struct {
	ID       string
	Address  string
	Last     Instant
	Activity Activity
}

// CallerPage shows one caller without a record.
type CallerPage struct {
	Page  Page
	Live  Live
	Range Range
	Trail []Choice
	ID    string
	Chart TimeSeries
	Adopt string // address of the form that creates a record; empty for viewers
	// Denials is the address of the caller's denials.
	Denials string
}
