package templates

// AlertsPage lists crossed limits, newest first.
type AlertsPage struct {
	Page    Page
	Action  string
	Key     string // as typed
	Problem string // what is wrong with it; empty when it is valid
	Clear   string
	Rows    []AlertRow
	Empty   Empty
	First   string // address of the newest; empty when they are shown
	Next    string // address of older ones; empty at the end
}

// AlertRow is one crossed threshold.
type AlertRow struct {
	At        Instant
	Caller    string
	Address   string // of the caller; empty when there is none
	Plan      string
	Limit     string
	On        string // what the limit is on; empty for the caller
	Rule      string
	Threshold string
	Used      string
	Resets    Instant
	Reached   bool // the whole limit is used
}
