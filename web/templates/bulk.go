package templates

// Bulk is the bar that selects keys and changes them together.
type Bulk struct {
	Action     string
	Hidden     []Hidden // the filter of the list
	Actions    []Option // buttons
	Others     []Option // of a list
	Of         string   // "all" if all matching keys are selected, else "selected"
	Ticked     bool     // all rows are selected
	Page       string   // number of keys on the page
	All        string   // number of matching keys; empty if unknown
	More       bool     // other pages have keys
	SelectPage string   // address that selects all rows
	SelectAll  string   // address that selects all matching keys
	Clear      string   // address that selects nothing
}

// BulkPage shows the progress of a change of many keys.
type BulkPage struct {
	Page      Page
	Heading   string
	Reason    string
	Processed string // number of processed keys
	Of        string // number of keys
	Total     string // Of as a plain number, at least 1, for the progress bar
	Progress  string // Processed as a plain number
	Done      string
	Skipped   string
	Failed    string // number of keys that failed; empty for none
	Named     []UnchangedKey
	More      bool   // more keys match now than the user confirmed
	Problem   string // why the last step did nothing; empty if it did
	Form      *Form  // continues the change; nil if it ended
	Back      string
	Audit     string // address of the audit
}

// UnchangedKey is a key that a change of many did not change.
type UnchangedKey struct{ Name, Address, Why string }
