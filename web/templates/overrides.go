package templates

// OverridesPage lists the keys that have limits of their own.
type OverridesPage struct {
	Page  Page
	Rows  []OverrideRow
	Empty Empty
	Note  string
	First string
	Next  string
}

// OverrideRow is one override.
type OverrideRow struct {
	Name    string
	Address string
	Plan    string
	Before  string // the plan's limits
	After   string
	Reason  string
	Ends    string
	At      Instant // when it ends, if it does
	Soon    bool
	Ended   bool
	End     string // address that ends it
	Edit    string
}
