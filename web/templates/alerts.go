package templates

// AlertsPage lists crossed limits, newest first.
type AlertsPage struct {
	Page    Page
	Action  string
	Key     string // as typed
	Problem string // error of Key; empty if it is valid
	Clear   string
	Rows    []AlertRow
	Empty   Empty
	First   string // address of the newest; empty on the first page
	Next    string // address of older ones; empty on the last page
}

// AlertRow is one crossed threshold.
type AlertRow struct {
	At        Instant
	Caller    string
	Address   string // of the caller; empty if there is none
	Plan      string
	Limit     string
	On        string // what shares the limit; empty for the caller alone
	Rule      string
	Threshold string
	Used      string
	Resets    Instant
	Reached   bool // the limit is used up
}
