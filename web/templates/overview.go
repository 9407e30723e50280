package templates

// OverviewPage shows all calls together.
type OverviewPage struct {
	Page    Page
	Live    Live
	Range   Range
	Figures []Figure
	Chart   TimeSeries
	Empty   *Empty // nil when there were calls
	Busiest []TalkerRow
	Blocked []TalkerRow
}

// Figure is a number to know at a glance.
type Figure struct {
	Name  string
	Value string
	Note  string
	Bad   bool
	// what it counts, as a list; empty without one
	Address string
}

// TalkerRow is a caller among the first.
type TalkerRow struct {
	Name    string
	Address string
	Plan    string // empty for a caller without a record
	Calls   string
	Blocked string
	Share   string
}
