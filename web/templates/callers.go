package templates

// CallersPage lists the active callers without a record.
type CallersPage struct {
	Page  Page
	Live  Live
	Trail []Choice
	Sorts KeySorts
	Note  string // how long the list is, if it does not end by itself
	Rows  []CallerRow
	Empty Empty
	First string
	Next  string
	Adopt string // address of the form that makes a record; empty for viewers
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
	Adopt string
	// Denials is the address of its part of the denial log.
	Denials string
}
