package templates

// LoginPage asks for a name and a password, or offers a provider, or both.
type LoginPage struct {
	Page     Page
	Submit   string // address of the form
	Next     string // where to go afterwards
	Password bool   // somebody can log in with a password
	Provider Choice // the way to the provider; its Text is empty if there is none
	Ended    *Ended
	Kept     Hidden // a form that was sent without a session, sealed; its Value may be empty
	Resume   string // address that leads back to it
	User     string // typed before
	Error    string // why the attempt before this one failed
}

// Ended says that a session ended here, while the one at the provider may go on.
type Ended struct {
	Host    string
	Address string // logs out there; empty if that is not possible
}
