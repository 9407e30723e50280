package templates

// AuditPage lists changes, newest first.
type AuditPage struct {
	Page    Page
	Filter  AuditFilter
	Choices *KeyChoices // keys that the typed name matches; nil unless there are several
	Entries []Entry
	Empty   Empty
	First   string // address of the newest entries; empty on the first page
	Next    string // address of older entries; empty on the last page
	Export  string
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
	Chips   []Chip
	Problem string // error of the filter; empty if it is valid
	Clear   string
}

// Entry is one change.
type Entry struct {
	Number  string
	At      Instant
	By      string
	Lead    string // what the entry says: before its subject, and after it
	Tail    string
	Subject string   // may be empty
	Address string   // of the subject; empty for several
	Of      []Choice // the first of several subjects
	More    string   // how many others there are; may be empty
	Reason  string
	Changes []Change
	Undo    string // address that undoes the change; empty if that is not possible
}

// sentence returns what the entry says.
func (e Entry) sentence() string { return e.Lead + e.Subject + e.Tail }
