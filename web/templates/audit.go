package templates

// AuditPage lists who changed what, newest first.
type AuditPage struct {
	Page     Page
	Filter   AuditFilter
	Choices  *KeyChoices // keys with such a name; nil unless there are several
	Entries  []Entry
	Empty    Empty
	First    string // address of the newest entries; empty when they are shown
	Next     string // address of older ones; empty at the end
	Export   string
	Verify   string // address that checks the chains
	Verified *Verified
}

// AuditFilter is the form that narrows the list.
type AuditFilter struct {
	Action  string
	Subject string
	Of      Choice // the key that is meant; its Address is empty when it is none
	What    string
	Whats   []Option
	By      string
	From    string // as an input has it, in UTC
	To      string
	Problem string // what is wrong with the filter; empty when it is valid
	Clear   string
}

// Entry is one change.
type Entry struct {
	ID      string
	At      Instant
	By      string
	What    string
	Subject string
	Address string // of the subject
	Reason  string
	Version string // of the subject; empty when it has none, as a login has
	Changes []Change
	Revert  string // address; empty when it cannot be reverted
	Job     string // address of the bulk job that made the change; empty for none
	Undo    string // address that takes back the job whose end this is; empty for none
}

// Verified is what a check of the chains found.
type Verified struct {
	Good   bool
	Text   string
	Broken []string
}
