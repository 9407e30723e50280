package templates

// KeysPage lists keys with the live usage of each of their limits.
type KeysPage struct {
	Page   Page
	Live   Live
	Search Search
	Rows   []KeyRow
	Empty  Empty  // why there are no rows
	First  string // address of the first page; empty when it is shown
	Next   string // address of the page after this; empty on the last
}

// Search is the form that narrows the list.
type Search struct {
	Action string
	Text   string
	Live   string // the refresh in force, carried along
	Clear  string // address without the search; empty when there is none
}

// Empty tells why a list holds nothing.
type Empty struct {
	Heading string
	Advice  string
	Command string // a command line to try
}

// KeyRow is one key of the list.
type KeyRow struct {
	ID      string
	Name    string
	Address string
	Plan    string
	Source  string // "plan" or "edited"
	Status  string
	Revoked bool
	Blocked string // when the next call is free; empty when a call is free now
	Windows []Window
}

// Window is the state of one limit of a key.
type Window struct {
	Limit      string   // 100 per 10 seconds
	Marks      []string // what sets it apart: estimate, denied calls count, …
	Counted    string   // exact, or the marks
	Used       string
	Of         string
	Remaining  string
	Share      string // of the limit, in percent: 0 to 100, a number that SVG takes as a width
	Percent    string // the same for people
	Level      string // free, near or full
	Note       string // the level in words; empty when free
	Resets     string
	RetryAfter string
}
