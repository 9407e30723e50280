// Package templates holds the dashboard's pages: templ components and the plain view
// models that they print. The models carry finished text and links; nothing here decides,
// formats or fetches.
package templates

// Page is what the frame around every page needs.
type Page struct {
	Title   string
	Nonce   string   // the response's script nonce
	Style   string   // address of the stylesheet
	Script  string   // address of the script
	Chart   string   // address of the script that draws charts; empty on pages without one
	Icon    string   // address of the icon
	Home    string   // address of the start page
	Keys    string   // address of the list of keys, where a search begins
	Logout  string   // address that ends the session
	User    string   // who is logged in; empty on pages for everybody
	Role    string   // viewer or editor; empty on pages for everybody
	CanEdit bool     // offer changes
	Nav     []Choice // the main pages; the one shown, or above the one shown, is current
	Stage   string   // names the deployment; empty if it has no name
	Theme   Theme
	Toast   Toast // what the request before this one achieved
	// what is wrong with the whole installation
	Warnings []Warning
}

// Warning stands on every page until it no longer holds.
type Warning struct {
	Text    string
	Restore string // address that restores what was lost; empty when that does not help
}

// Theme is the choice of light or dark.
type Theme struct {
	Name    string // light, dark, or empty for what the system says
	Submit  string // address that saves the choice
	Next    string // address to come back to
	Choices []Option
}

// Toast says what became of something. Its Text is empty if there is nothing to say.
type Toast struct {
	Text string
	Undo string // address to post to, which takes it back; empty if that cannot be done
}
