package templates

// SettingsPage shows the user's account and sessions, the machine tokens and the
// deployment.
type SettingsPage struct {
	Page        Page
	Account     []Fact
	Sessions    []SessionRow
	EndSessions string        // address that logs out everywhere
	Tokens      *TokensPanel  // nil for viewers
	Created     *CreatedToken // nil for none
	Deployment  []Fact
	OpenAPI     string // address of the OpenAPI document
}

// SessionRow is a session.
type SessionRow struct {
	Agent   string
	Started Instant
	Ends    Instant
	Current bool
}

// TokensPanel lists machine tokens.
type TokensPanel struct {
	Rows   []TokenRow
	Create string // address of the form
}

// TokenRow is a machine token.
type TokenRow struct {
	ID      string
	Name    string
	Scope   string
	By      string
	Used    string // time of the last use; empty if never
	Expires Instant
	Expired bool
	Revoke  string // address that revokes the token
}

// CreatedToken is a new token with its secret, which is shown once.
type CreatedToken struct {
	Name    string
	Secret  string
	Expires Instant
}
