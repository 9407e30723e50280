package templates

// Bulk is the form that changes many keys.
type Bulk struct {
	Action     string
	Hidden     []Hidden // the filter in force
	Actions    []Option // verbs, each a button
	Of         string   // selected, or all
	Ticked     bool     // every row is
	Page       string   // number of keys on the page
	All        string   // how many keys match; empty when nobody counted them
	More       bool     // there are keys on other pages
	SelectPage string   // address of the list with every row ticked
	SelectAll  string   // the same, and all that match meant
	Clear      string   // address of the list with nothing ticked
}
