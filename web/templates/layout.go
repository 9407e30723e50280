// Package templates owns the markup of the dashboard's pages: templ components, and the
// view models that they print. Only the dashboard and the web server import it. A view
// model holds finished text and addresses; the components must not decide, format or load
// anything.
package templates

// Page is the frame of a page.
type Page struct {
	Title   string
	Nonce   string // the response's script nonce
	Style   string // address of the stylesheet
	Script  string // address of the script
	Chart   string // address of the script that draws charts; empty on pages without one
	Icon    string // address of the icon
	Home    string // address of the start page
	Keys    string // address of the key list
	Find    string // address of the search for anything
	Logout  string // address that ends the session
	User    string // name of the logged-in user; empty on public pages
	Role    string // viewer or editor; empty on public pages
	CanEdit bool   // the user may make changes
	Nav     []Section
	Stage   string // name of the deployment; may be empty
	Theme   Theme
	Toast   Toast // result of the last request
	// Warnings concern the whole deployment.
	Warnings []string
}

// Section is a link of the navigation, with the pages below it. The one that contains the
// page is current.
type Section struct {
	Choice
	Pages []Choice // at least one, which is the section's own
}

// FoundPage lists what a search found. A script shows the results in a dialog too.
type FoundPage struct {
	Page    Page
	Text    string
	Results []Found
}

// Found is a result of a search: a link to a page or an action.
type Found struct {
	Choice
	Kind   string  // what it is
	Badges []Badge // conditions of a key
}

// Theme is the form that chooses the color theme.
type Theme struct {
	Name    string // light, dark, or empty for that of the system
	Submit  string // address that saves the choice
	Next    string // address to return to
	Choices []Option
}

// Toast is a message about the last request. Its Text is empty for no message.
type Toast struct {
	Text string
	Undo string // address that undoes the change; empty if it cannot be undone
}

// ErrorPage describes an error and what to do.
type ErrorPage struct {
	Page    Page
	Status  string // 404
	Heading string
	Advice  string
	Action  Choice // link to continue; its Text is empty if there is none
	Resume  string // address that shows the sent form again; empty if none does
}

// ResumePage shows the form again that the browser kept when it was sent.
type ResumePage struct {
	Page   Page
	Button string // value of the button that shows the form without a save
}
