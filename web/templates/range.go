package templates

// Range is the choice of the time that a page shows.
type Range struct {
	Choices  []Choice
	Action   string // address of the page
	Live     int    // its refresh
	From, To string // as fields of a form have them, in UTC
	Chosen   bool   // From and To were chosen, so none of the choices is current
	Problem  string // why what was chosen cannot be shown; empty if it can
}
