package templates

// SettingsPage shows who somebody is here, their sessions, the machine tokens and the
// deployment.
type SettingsPage struct {
	Page        Page
	Account     []Fact
	Sessions    []SessionRow
	EndSessions string // address that logs out everywhere
	Tokens      *TokensPanel
	Made        *MadeToken
	Deployment  []Fact
	OpenAPI     string // address of the description of the API
}

// SessionRow is one session.
type SessionRow struct {
	Agent   string
	Started Instant
	Ends    Instant
	Current bool
}
