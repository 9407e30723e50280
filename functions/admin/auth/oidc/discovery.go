package oidc

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	gooidc "github.com/coreos/go-oidc/v3/oidc"
	"golang.org/x/oauth2"
)

// SetupError means that the provider answers, but not as this client is configured. Only a
// change of the configuration, here or there, helps.
type SetupError struct{ Why string }

func (e *SetupError) Error() string { return "the provider does not fit the configuration: " + e.Why }

// endpoints is the result of the provider's discovery.
type endpoints struct {
	issuer     string // as the provider spells it
	provider   *gooidc.Provider
	oauth      oauth2.Config
	endSession string
}

// metadata is what this package reads of a discovery document.
type metadata struct {
	gooidc.ProviderConfig
	Methods    []string `json:"token_endpoint_auth_methods_supported"`
	EndSession string   `json:"end_session_endpoint"`
}

// retryPause is how long after a failed discovery no other is tried, so that log-ins do
// not hold the function while the provider is away.
const retryPause = 5 * time.Second

// discover returns the provider's endpoints. It queries the provider until one query
// succeeds, at most once in retryPause.
func (p *Provider) discover(ctx context.Context) (*endpoints, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.found != nil {
		return p.found, nil
	}
	if pause := p.now().Sub(p.failedAt); pause >= 0 && pause < retryPause {
		return nil, fmt.Errorf("discover the provider, a moment ago: %w", p.failure)
	}
	m, err := p.metadata(ctx)
	if err != nil {
		p.failedAt, p.failure = p.now(), err
		return nil, fmt.Errorf("discover the provider: %w", err)
	}
	provider := m.NewProvider(ctx)
	endpoint := provider.Endpoint()
	endpoint.AuthStyle = authStyle(m.Methods)
	p.found = &endpoints{
		issuer:   m.IssuerURL,
		provider: provider,
		oauth: oauth2.Config{
			ClientID: p.config.ClientID, ClientSecret: p.config.ClientSecret, Endpoint: endpoint,
			RedirectURL: p.config.RedirectURL,
			Scopes:      p.scopes(),
		},
		endSession: m.EndSession,
	}
	return p.found, nil
}

// metadata reads the provider's discovery document and checks it.
func (p *Provider) metadata(ctx context.Context) (metadata, error) {
	address := strings.TrimSuffix(p.config.Issuer, "/") + "/.well-known/openid-configuration"
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, address, nil)
	if err != nil {
		return metadata{}, fmt.Errorf("ask %s: %w", address, err)
	}
	response, err := p.client.Do(request)
	if err != nil {
		return metadata{}, fmt.Errorf("ask %s: %w", address, err)
	}
	defer func() { _ = response.Body.Close() }()
	text, err := io.ReadAll(response.Body)
	switch status := response.StatusCode; {
	case err != nil:
		return metadata{}, fmt.Errorf("read %s: %w", address, err)
	case status >= http.StatusInternalServerError || status == http.StatusTooManyRequests:
		return metadata{}, fmt.Errorf("%s answered %d", address, status)
	case status != http.StatusOK:
		return metadata{}, &SetupError{fmt.Sprintf(
			"%s answered %d. Check OIDC_ISSUER.", address, status)}
	}
	var m metadata
	if json.Unmarshal(text, &m) != nil {
		return metadata{}, &SetupError{address + " is not a discovery document. Check OIDC_ISSUER."}
	}
	return m, m.check(p.config.Issuer)
}

// check returns what is wrong with a discovery document. A slash at the end of the issuer
// does not matter: providers differ in it, and people copy addresses without it.
func (m *metadata) check(issuer string) error {
	if !sameIssuer(m.IssuerURL, issuer) {
		return &SetupError{fmt.Sprintf("OIDC_ISSUER is %q, but the provider there calls itself %q.",
			issuer, printable(m.IssuerURL))}
	}
	for name, address := range map[string]string{
		"authorization_endpoint": m.AuthURL, "token_endpoint": m.TokenURL, "jwks_uri": m.JWKSURL,
	} {
		if checkEndpoint(address) != nil {
			return &SetupError{fmt.Sprintf("its discovery document has no usable %s.", name)}
		}
	}
	if m.UserInfoURL != "" && checkEndpoint(m.UserInfoURL) != nil {
		m.UserInfoURL = ""
	}
	if checkEndpoint(m.EndSession) != nil {
		m.EndSession = ""
	}
	m.Algorithms = slices.DeleteFunc(m.Algorithms, func(a string) bool { // others need a shared secret
		return !strings.HasPrefix(a, "RS") && !strings.HasPrefix(a, "PS") && !strings.HasPrefix(a, "ES") &&
			a != gooidc.EdDSA
	})
	if len(m.Algorithms) == 0 {
		m.Algorithms = []string{gooidc.RS256}
	}
	return nil
}

// sameIssuer reports whether two issuers differ at most in a slash at the end.
func sameIssuer(a, b string) bool { return strings.TrimSuffix(a, "/") == strings.TrimSuffix(b, "/") }

// checkEndpoint returns what is wrong with the address of an endpoint, which may have a
// query.
func checkEndpoint(address string) error {
	u, err := url.Parse(address)
	if err != nil {
		return errors.New("is not an address")
	}
	u.RawQuery = ""
	return CheckURL(u.String())
}

func (p *Provider) scopes() []string {
	if slices.Contains(p.config.Scopes, gooidc.ScopeOpenID) {
		return p.config.Scopes
	}
	return append([]string{gooidc.ScopeOpenID}, p.config.Scopes...)
}

// authStyle returns the provider's method of client authentication, by default basic, as
// in the standard. The library would try both methods, but a second try would reuse the
// code.
func authStyle(methods []string) oauth2.AuthStyle {
	if len(methods) == 0 || slices.Contains(methods, "client_secret_basic") {
		return oauth2.AuthStyleInHeader
	}
	return oauth2.AuthStyleInParams
}
