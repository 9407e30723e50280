package templates

// KeysPage lists keys with the live usage of each of their limits.
type KeysPage struct {
	Page    Page
	Live    Live
	Search  Search
	Sorts   KeySorts
	Groups  []Choice // that the search finds
	Rows    []KeyRow
	Empty   Empty    // why there are no rows
	First   string   // address of the first page; empty when it is shown
	Next    string   // address of the page after this; empty on the last
	Scanned string   // how far the search came, if not to the end of a page
	Create  string   // address of the form that creates a key; empty when nothing can be changed
	Export  string   // address of the same list as CSV
	Callers string   // address of the callers without a key
	Bulk    *Bulk    // nil when nothing can be changed
	Jobs    []Choice // that wait to be continued
}

// Search is the form that narrows the list.
type Search struct {
	Anywhere bool // the text may be any part of a name
	Action   string
	Text     string
	Plan     string
	Plans    []Option
	State    string
	States   []Option
	Tag      string
	Group    string
	Order    string
	Orders   []Option
	Live     string // the refresh in force, carried along
	Clear    string // address without the search; empty when there is none
}

// KeySorts are the heads of columns that the list can be sorted by.
type KeySorts struct{ Name, Calls, Blocked, Used Choice }

// Activity is what a key or caller did in the last hour.
type Activity struct {
	Spark           Sparkline
	Allowed, Denied int64
	Calls, Blocked  string
	Used            string // how long ago its last call was
}

// KeyRow is one key of the list.
type KeyRow struct {
	ID       string
	Name     string
	Edit     string // address of the form of its limits; empty when they cannot be edited
	Address  string
	Plan     string
	Tags     []string
	Badges   []Badge
	Readable bool
	Activity Activity
	Ticked   bool // selected from the start
	Windows  []Window
}
