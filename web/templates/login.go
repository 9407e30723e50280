package templates

// LoginPage offers a log-in by password, at an OpenID provider, or both.
type LoginPage struct {
	Page     Page
	Submit   string // address of the form
	Next     string // address of the page after the log-in
	Password bool   // offers the password form
	Provider Choice // link to the provider; its Text is empty if there is none
	Ended    *Ended
	Resumes  bool   // the next page shows a form that was sent without a session
	User     string // the name that the user typed before
	Error    string // why the last attempt failed
}

// Ended reports a log-out here. The session at the provider may continue.
type Ended struct {
	Host    string
	Address string // address that logs out at the provider; empty if there is none
}
