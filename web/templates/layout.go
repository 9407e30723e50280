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
	Retries bool   // a page of an outage, which tries again by itself
	Health  string // how long Valkey took for its last answer; empty if it does not answer
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
	Counts bool     // it tells how many callers are denied now
	Badge  string   // in words; empty for none
	Pages  []Choice // at least one, which is the section's own
}

// icons are the paths of the signs, by the text of their section or by a name.
var icons = map[string]string{
	"Overview": "M2 13h12M4 13V8M8 13V4M12 13V6",
	"Keys":     "M2.5 11a2.5 2.5 0 1 0 5 0a2.5 2.5 0 1 0-5 0M7 9l6-6M11 5l2 2",
	"Denials":  "M2.5 8a5.5 5.5 0 1 0 11 0a5.5 5.5 0 1 0-11 0M4.2 4.2l7.6 7.6",
	"Policies": "M3 4h10M3 8h10M3 12h6",
	"Audit":    "M2.5 8a5.5 5.5 0 1 0 11 0a5.5 5.5 0 1 0-11 0M8 4.5V8l2.5 1.5",
	"Settings": "M6 8a2 2 0 1 0 4 0a2 2 0 1 0-4 0M8 2.5v2M8 11.5v2M2.5 8h2M11.5 8h2" +
		"M4.1 4.1l1.4 1.4M10.5 10.5l1.4 1.4M11.9 4.1l-1.4 1.4M5.5 10.5l-1.4 1.4",
	"find": "M3 7a4 4 0 1 0 8 0a4 4 0 1 0-8 0M10 10l3.5 3.5",
	"user": "M5.5 6a2.5 2.5 0 1 0 5 0a2.5 2.5 0 1 0-5 0M3.5 13c.8-2.3 2.5-3.2 4.5-3.2s3.7.9 4.5 3.2",
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
