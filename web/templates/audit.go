package templates

// AuditPage lists changes, newest first.
type AuditPage struct {
	Page     Page
	Filter   AuditFilter
	Choices  *KeyChoices // keys that the typed name matches; nil unless there are several
	Entries  []Entry
	Empty    Empty
	First    string // address of the newest entries; empty on the first page
	Next     string // address of older entries; empty on the last page
	Export   string
	Verify   string // address that verifies the integrity of the audit log
	Verified *Verified
}

// AuditFilter is the form that filters the list.
type AuditFilter struct {
	Action  string
	Subject string
	Of      Choice // the key that Subject names; its Address is empty if there is none
	What    string
	Whats   []Option
	By      string
	From    string // value of a datetime-local input, in UTC
	To      string
	Span    string // the chosen range; empty for all
	Spans   []Choice
	Job     string // id of the job whose changes are listed; empty for all changes
	Chips   []Chip
	Problem string // error of the filter; empty if it is valid
	Clear   string
}

// Entry is one change.
type Entry struct {
	ID      string
	At      Instant
	By      string
	Lead    string // what the entry says: before its subject, and behind it
	Tail    string
	Subject string // may be empty
	Address string // of the subject
	Reason  string
	Version string // version of the subject; empty if it has none, as for a log-in
	Changes []Change
	Revert  string // address that reverts the change; empty if that is not possible
	Job     string // address of the bulk job that made the change; may be empty
	Result  string // what came of a job whose changes are at Job; empty for other entries
	Undo    string // address that undoes the job whose last entry this is; may be empty
}

// Verified is the result of verifying the audit log.
type Verified struct {
	Good   bool
	Text   string
	Broken []string
}

// sentence returns what the entry says.
func (e Entry) sentence() string { return e.Lead + e.Subject + e.Tail }
