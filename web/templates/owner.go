package templates

// OwnerPage asks for an API key, and shows it to whoever has its secret.
type OwnerPage struct {
	Page   Page
	Submit string // address of the form
	Error  string // why there is no Key
	Key    *OwnKey
}

// OwnKey is a key as its owner sees it.
type OwnKey struct {
	Name    string
	Facts   []Fact
	Windows []Window
	Shared  []Window // of its group
	Days    []OwnDay // the latest first
}

// OwnDay is the calls of one day.
type OwnDay struct{ Date, Allowed, Denied, Cost string }
