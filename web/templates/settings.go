package templates

// SettingsPage shows the user's account and sessions, the machine tokens and the
// deployment.
type SettingsPage struct {
	Page        Page
	Account     []Fact
	Sessions    Table
	EndSessions string        // address that logs out everywhere
	Tokens      *TokensPanel  // nil for viewers
	Created     *CreatedToken // nil for none
	Deployment  []Fact
	OpenAPI     string // address of the OpenAPI document
}

// TokensPanel lists machine tokens.
type TokensPanel struct {
	Table  Table
	Create string // address of the form
	Export string // address of the list as CSV
}

// CreatedToken is a new token with its secret, which is shown once.
type CreatedToken struct {
	Name    string
	Secret  string
	Expires Instant
}
