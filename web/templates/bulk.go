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

// JobPage shows the progress of a bulk job.
type JobPage struct {
	Page      Page
	Heading   string
	Reason    string
	By        string
	Started   Instant
	Processed string // number of processed keys
	Of        string // number of keys
	Total     string // Of as a plain number, at least 1, for the progress bar
	Progress  string // Processed as a plain number
	Done      string
	Skipped   string
	Failed    string // number of keys that failed; empty for none
	Named     []UnchangedKey
	More      bool // more keys match now than the user confirmed
	Finished  bool
	Stopped   bool
	Paused    string // why the job is paused; empty if it is not
	Form      *Form  // continues the job; nil if it ended, and for viewers
	Stop      string // address that stops the job; empty if it cannot be stopped
	Undo      string // address that undoes the job; empty if it cannot be undone
	Undoes    string // address of the job that this job undoes; may be empty
	Audit     string // address of the changes of the job
	Back      string
	Jobs      string // address of the list of jobs
}

// JobList lists bulk jobs, newest first.
type JobList struct {
	Page  Page
	Rows  []JobRow
	Audit string // address of the starts of all jobs in the audit log
}

// JobRow is a bulk job.
type JobRow struct {
	Title   string
	Address string
	By      string
	Started Instant
	Reason  string
	State   string
	Result  string
	Undo    string // address that undoes the job; empty if it cannot be undone
	Undone  string // address of the job that undid it; empty for none
}

// UnchangedKey is a key that a job did not change.
type UnchangedKey struct{ Name, Address, Why string }
