package templates

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
