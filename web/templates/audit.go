package templates

// AuditPage lists who changed what, newest first.
type AuditPage struct {
	Page     Page
	Filter   AuditFilter
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
	What    string
	Whats   []Option
	By      string
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
}

// Verified is what a check of the chains found.
type Verified struct {
	Good   bool
	Text   string
	Broken []string
}
