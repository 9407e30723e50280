package templates

// KeysPage lists keys with the usage of their limits.
type KeysPage struct {
	Page      Page
	Live      Live
	Search    Search
	Sorts     KeySorts
	Overrides bool     // the filter selects keys with an override, which has a column
	Groups    []Choice // groups that the search finds
	Rows      []KeyRow
	Matching  string // number of keys that match; empty if counting needs their usage
	Total     string // Matching with its noun
	Empty     Empty  // shown without rows
	First     string // address of the first page; empty if it is shown
	Next      string // address of the next page; empty on the last
	Scanned   string // which keys the list covers; may be empty
	Create    string // address of the form that creates a key; empty for viewers
	Export    string // address of the same list as CSV
	Bulk      *Bulk  // nil for viewers
}

// Search is the form that filters and sorts the list.
type Search struct {
	Action string
	Text   string
	Plan   string
	Plans  []Option
	State  string
	States []Option
	Tag    string
	Group  string
	Order  string
	Orders []Option
	Live   string // seconds between refreshes
	Clear  string // address without a filter
	Chips  []Chip
}

// KeySorts are the headers of columns that sort the list.
type KeySorts struct{ Name, Calls, Denied Choice }

// Activity describes the calls of a key or caller in the last hour.
type Activity struct {
	Spark           Sparkline
	Calls, Denied   string
	Refused, Shadow string // empty for none; Shadow: limits in shadow would have denied them
	Used            string // time since the last call
}

// KeyRow is a key of the list.
type KeyRow struct {
	ID       string
	Name     string
	Edit     string // address of the form that overrides the limits; may be empty
	Address  string
	Plan     string
	Tags     []string
	Badges   []Badge
	Override *OverrideCell // nil without the column
	Readable bool
	Activity Activity
	Ticked   bool // selected
	Windows  []Window
}

// OverrideCell describes a key's override in the list. A badge has its end.
type OverrideCell struct {
	Name   string // the key's
	Before string // the plan's limits
	After  string
	Reason string
	End    string // address that ends the override; empty for viewers and for a revoked key
}
