package templates

// OwnerPage asks for the secret of an API key and shows the key.
type OwnerPage struct {
	Page   Page
	Submit string // address of the form
	Error  string // why Key is nil; empty before the form is sent
	Key    *OwnKey
}

// OwnKey is what the owner of a key sees.
type OwnKey struct {
	Name    string
	Facts   []Fact
	Windows []Window
	Shared  []Window // limits of the key's group
	Days    []OwnDay // newest first
}

// OwnDay counts the calls of a day.
type OwnDay struct{ Date, Allowed, Denied, Cost string }
