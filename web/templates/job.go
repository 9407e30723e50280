package templates

// JobPage shows how far a change of many keys is.
type JobPage struct {
	Page     Page
	Heading  string
	Reason   string
	By       string
	Started  Instant
	Looked   string // keys that were seen to
	Of       string // keys in all
	Total    string // the same for the progress bar
	Progress string
	Done     string
	Skipped  string
	Failed   string // empty for none
	Named    []LeftKey
	More     bool // more keys match than were confirmed
	Finished bool
	Stopped  bool
	Paused   string // why the last step ended early, or what waits for the journal; may be empty
	Form     *Form  // goes on; nil when there is nothing to go on with, or for viewers
	Stop     string // address that stops it; empty when it cannot be stopped
	Undo     string // address that takes it back; empty when it cannot be
	Undoes   string // address of the job that it takes back; empty when it is none
	Audit    string // address of its changes
	Back     string
}

// LeftKey is a key that a job left as it was.
type LeftKey struct{ Name, Address, Why string }
