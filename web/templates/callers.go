package templates

// CallersPage lists unregistered callers, which have no record.
type CallersPage struct {
	Page  Page
	Live  Live
	Trail []Choice
	Lead  string // which callers are listed
	Sorts KeySorts
	Note  string // about the length of the list; may be empty
	Rows  []CallerRow
	Empty Empty
	First string // address of the first page; empty if it is shown
	Next  string // address of the next page; empty on the last
	Adopt string // address of the form that creates a record; empty for viewers
}

// CallerRow is an unregistered caller.
type CallerRow struct {
	ID       string
	Address  string
	Badges   []Badge
	Activity Activity
}

// CallerPage shows an unregistered caller.
type CallerPage struct {
	Page    Page
	Live    Live
	Range   Range
	Trail   []Choice
	ID      string
	Badges  []Badge
	Chart   TimeSeries
	Recent  Table
	Adopt   string // address of the form that creates a record; empty for viewers
	Denials string // address of the caller's denials
}
