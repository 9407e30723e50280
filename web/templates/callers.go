package templates

// CallersPage lists the active callers without a record.
type CallersPage struct {
	Page  Page
	Live  Live
	Trail []Choice
	Rows  []CallerRow
	Empty Empty
	First string
	Next  string
	Adopt string // address of the form that makes a record; empty for viewers
}

// CallerRow is a caller without a record.
type CallerRow struct {
	ID      string
	Address string
	Last    Instant
	Calls   string // in the last hour
	Blocked string
	Spark   Sparkline
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
}
