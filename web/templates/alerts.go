package templates

// AlertsPage lists crossed thresholds of limits, newest first.
type AlertsPage struct {
	Page    Page
	Target  string // where alerts are sent; empty for nowhere
	Nowhere string // says so
	Test    string // address that sends a test; empty if nobody can
	Action  string
	Key     string // as typed
	Problem string // error of Key; empty if Key is valid
	Clear   string
	Rows    []AlertRow
	Notes   []string // what the list lacks
	Empty   Empty
	First   string // address of the newest rows; empty on the first page
	Next    string // address of older rows; empty on the last page
}

// AlertRow is one crossed threshold.
type AlertRow struct {
	At        Instant
	Caller    string
	Address   string // of the caller; empty if there is none
	Plan      string
	Limit     string
	Threshold string
	Used      string
	Resets    Instant
	Reached   bool // the whole limit is used
}
