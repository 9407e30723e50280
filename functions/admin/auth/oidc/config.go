// Package oidc logs people in at an OpenID provider: authorization code with PKCE, state
// and nonce, and a role from a claim. It contacts the provider only when somebody logs
// in, so a function that cannot reach the provider still starts and works.
package oidc

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"net"
	"net/url"
)

// Config has the provider and the roles of the people that it logs in.
type Config struct {
	Issuer       string // address of the provider, https; http on this machine only
	ClientID     string
	ClientSecret string
	RedirectURL  string // where the provider redirects browsers, as registered there
	Scopes       []string
	// RoleClaim is the claim with a person's groups: a text or a list of texts. If no
	// claim has a name with dots, the name is a path into nested objects.
	RoleClaim    string
	EditorValues []string // any of these in the claim gives the role editor
	ViewerValues []string // any of these gives the role viewer
}

// CheckURL returns what is wrong with the address of a provider or of this dashboard. It
// must be absolute, and https unless its host is this machine.
func CheckURL(text string) error {
	u, err := url.Parse(text)
	switch {
	case err != nil || u.Host == "" || u.User != nil || u.RawQuery != "" || u.Fragment != "" ||
		u.Opaque != "":
		return errors.New("is no address such as https://login.example.com")
	case u.Scheme == "http" && onThisMachine(u.Hostname()):
		return nil
	case u.Scheme != "https":
		return errors.New("must start with https://")
	}
	return nil
}

func onThisMachine(host string) bool {
	ip := net.ParseIP(host)
	return host == "localhost" || ip != nil && ip.IsLoopback()
}

func (c Config) validate() error {
	for _, address := range []string{c.Issuer, c.RedirectURL} {
		if err := CheckURL(address); err != nil {
			return err
		}
	}
	if c.ClientID == "" || c.RoleClaim == "" || len(c.EditorValues)+len(c.ViewerValues) == 0 {
		return errors.New("client id, role claim or the values of roles are missing")
	}
	return nil
}

// fingerprint returns a hash of the provider, the client and the meaning of the claim.
func (c Config) fingerprint() string {
	text, err := json.Marshal([]any{c.Issuer, c.ClientID, c.RedirectURL, c.RoleClaim, c.EditorValues,
		c.ViewerValues})
	if err != nil {
		panic(err) // texts and lists of texts always marshal
	}
	sum := sha256.Sum256(text)
	return hex.EncodeToString(sum[:])
}
