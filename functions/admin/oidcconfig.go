package main

import (
	"tidegate/functions/admin/auth/oidc"
	"tidegate/internal/apikey"
	"tidegate/internal/config"
)

// oidcConfig is the part of the environment for an OpenID provider. Without an issuer
// there is none.
type oidcConfig struct {
	// OpenID provider that people may log in at too; register
	// `ADMIN_URL/login/oidc/callback` there, and `ADMIN_URL/login` as the way back from a
	// logout.
	Issuer string `env:"OIDC_ISSUER" unset:"none"`
	// Id that the provider knows the dashboard by; refused without `OIDC_ISSUER`.
	ClientID string `env:"OIDC_CLIENT_ID" unset:"required with OIDC_ISSUER"`
	// Secret that goes with it; refused without `OIDC_ISSUER`.
	ClientSecret string `env:"OIDC_CLIENT_SECRET" unset:"required with OIDC_ISSUER"`
	// Scopes to ask for, with spaces between them; ignored without `OIDC_ISSUER`.
	Scopes []string `env:"OIDC_SCOPES" envSeparator:" " envDefault:"openid profile email"`
	// Claim with somebody's groups, in the id token or at the userinfo endpoint; `a.b`
	// leads into objects; ignored without `OIDC_ISSUER`.
	RoleClaim string `env:"OIDC_ROLE_CLAIM" envDefault:"groups"`
	// What in the claim makes an editor, with commas between them; refused without
	// `OIDC_ISSUER`.
	EditorValues []string `env:"OIDC_EDITOR_VALUES" unset:"this or the next, with OIDC_ISSUER"`
	// What in the claim makes a viewer; whoever has neither gets 403; refused without
	// `OIDC_ISSUER`.
	ViewerValues []string `env:"OIDC_VIEWER_VALUES"`
}

func checkURL(text string) error { return oidc.CheckURL(text) }

func (c *oidcConfig) check(problems *config.Problems) {
	if c.Issuer == "" {
		if c.ClientID != "" || c.ClientSecret != "" || len(c.EditorValues)+len(c.ViewerValues) > 0 {
			problems.Add("OIDC_ISSUER", "is not set, but other OIDC variables are: give the provider's "+
				"address, or none of them")
		}
		return
	}
	if err := checkURL(c.Issuer); err != nil {
		problems.Add("OIDC_ISSUER", err.Error())
	}
	if c.ClientID == "" {
		problems.Add("OIDC_CLIENT_ID", "is not set: give the id that the provider knows this dashboard by")
	}
	if c.ClientSecret == "" {
		problems.Add("OIDC_CLIENT_SECRET", "is not set: give the secret that goes with OIDC_CLIENT_ID")
	}
	if len(c.EditorValues)+len(c.ViewerValues) == 0 {
		problems.Add("OIDC_EDITOR_VALUES",
			"and OIDC_VIEWER_VALUES are not set: name what in OIDC_ROLE_CLAIM makes an editor or a viewer, "+
				"apart by commas")
	}
}

// provider returns nil without an issuer.
func (c *oidcConfig) provider(publicURL string, pepper apikey.Pepper) (*oidc.Provider, error) {
	if c.Issuer == "" {
		return nil, nil //nolint:nilnil // no provider is a valid choice
	}
	return oidc.New(oidc.Config{
		Issuer: c.Issuer, ClientID: c.ClientID, ClientSecret: c.ClientSecret,
		RedirectURL: publicURL + "/login/oidc/callback",
		Scopes:      c.Scopes, RoleClaim: c.RoleClaim, EditorValues: c.EditorValues,
		ViewerValues: c.ViewerValues,
	}, pepper)
}
