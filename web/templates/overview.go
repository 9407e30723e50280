package templates

// OverviewPage shows the calls of all callers.
type OverviewPage struct {
	Page     Page
	Live     Live
	Range    Range
	Figures  []Figure
	Chart    TimeSeries
	Empty    *Empty // nil if there were calls
	Rankings []Ranking
}

// Ranking is a list of callers, the first in its order first.
type Ranking struct {
	ID, Heading string
	Shadow      bool // some calls would be denied by limits in shadow
	Rows        []TalkerRow
}

// Figure is a key figure.
type Figure struct {
	Name    string
	Value   string
	Note    string
	Bad     bool
	Address string // address of a list of what the figure counts; may be empty
	Now     bool   // the figure is true only at the time of the page
}

// TalkerRow is a caller of a ranking.
type TalkerRow struct {
	Name    string
	Address string
	Plan    string // empty for an unregistered caller
	Calls   string
	Denied  string
	Share   string // of the denied calls
	Refused string
	Shadow  string // calls that limits in shadow would have denied
}
