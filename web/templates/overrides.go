package templates

// OverridesPage lists the keys with an override.
type OverridesPage struct {
	Page  Page
	Rows  []OverrideRow
	Empty Empty
	Note  string
	First string
	Next  string
}

// OverrideRow is an override.
type OverrideRow struct {
	Name    string
	Address string
	Plan    string
	Before  string // the plan's limits
	After   string
	Reason  string
	Ends    string
	At      Instant // the end; zero for an override without an end
	Soon    bool
	Ended   bool
	End     string // address that ends the override; empty for viewers and for a revoked key
	Edit    string
}
