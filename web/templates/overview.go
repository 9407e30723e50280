package templates

// OverviewPage shows the calls of all callers.
type OverviewPage struct {
	Page    Page
	Live    Live
	Range   Range
	Figures []Figure
	Chart   TimeSeries
	Empty   *Empty // nil if there were calls
	Busiest []TalkerRow
	Blocked []TalkerRow
}

// Figure is a key figure.
type Figure struct {
	Name  string
	Value string
	Note  string
	Bad   bool
	// Address leads to what the figure counts; may be empty.
	Address string
}

// TalkerRow is a caller of a ranking.
type TalkerRow struct {
	Name    string
	Address string
	Plan    string // empty for a caller without a record
	Calls   string
	Blocked string
	Share   string
}
