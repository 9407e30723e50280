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
	Name    string
	Value   string
	Note    string
	Bad     bool
	Address string // address of a list of what the figure counts; may be empty
}

// TalkerRow is a caller of a ranking.
type TalkerRow struct {
	Name    string
	Address string
	Plan    string // empty for an unregistered caller
	Calls   string
	Blocked string
	Share   string
}
