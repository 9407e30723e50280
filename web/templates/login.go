package templates

// LoginPage asks for a name and a password.
type LoginPage struct {
	Page   Page
	Submit string // address of the form
	Next   string // where to go afterwards
	User   string // typed before
	Error  string // why the attempt before this one failed
}
