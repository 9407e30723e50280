// Package oidc logs people in at an OpenID provider: authorization code with PKCE, state
// and nonce, and a role from a claim. It contacts the provider only when somebody logs
// in, so a function that cannot reach the provider still starts and works.
package oidc

import (
	"context"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"slices"
	"sync"
	"time"

	gooidc "github.com/coreos/go-oidc/v3/oidc"
	"golang.org/x/oauth2"
)

const (
	stepTimeout = 8 * time.Second // of all requests to the provider in one step
	maxReply    = 1 << 20         // bytes of a response
	maxName     = 64              // characters of a displayed name
	maxID       = 255             // bytes of a subject, by the standard
)

// ErrFlow means that an answer belongs to no recent log-in of this browser.
var ErrFlow = errors.New("the answer belongs to no login in progress")

// ErrToken means that the provider's response is not valid.
var ErrToken = errors.New("the provider's answer is not valid")

// RefusedError means that the provider did not log the person in.
type RefusedError struct{ Code string }

func (e *RefusedError) Error() string { return "the provider refused: " + e.Code }

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
		return errors.New("is not an address such as https://login.example.com")
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

// Provider logs people in. It is safe for concurrent use.
type Provider struct {
	config Config
	sealer sealer
	client *http.Client
	now    func() time.Time

	mu     sync.Mutex
	found  *endpoints // nil until discovery succeeds
	failed time.Time  // of the last discovery that failed
}

// endpoints is the result of the provider's discovery.
type endpoints struct {
	provider   *gooidc.Provider
	oauth      oauth2.Config
	endSession string
}

// New returns a Provider. It makes no request yet. secret keys the seal of the browsers'
// cookies.
func New(c Config, secret []byte) (*Provider, error) {
	if err := c.validate(); err != nil {
		return nil, fmt.Errorf("oidc: %w", err)
	}
	sealer, err := newSealer(secret)
	if err != nil {
		return nil, fmt.Errorf("oidc: %w", err)
	}
	client := &http.Client{
		Transport:     bounded{http.DefaultTransport},
		Timeout:       stepTimeout,
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
	return &Provider{config: c, sealer: sealer, client: client, now: time.Now}, nil
}

// Host returns the provider's host name, to display.
func (p *Provider) Host() string {
	u, err := url.Parse(p.config.Issuer)
	if err != nil {
		return p.config.Issuer
	}
	return u.Host
}

// Fingerprint returns a value that changes when this provider's sessions must end.
func (p *Provider) Fingerprint() string { return p.config.fingerprint() }

// Start returns the provider's address to redirect a browser to, and a sealed value that
// the browser must give to Finish.
func (p *Provider) Start(ctx context.Context, next string) (address, sealed string, err error) {
	ctx, cancel := p.context(ctx)
	defer cancel()
	e, err := p.discover(ctx)
	if err != nil {
		return "", "", err
	}
	f := newFlow(next, p.now())
	if sealed, err = p.sealer.seal(f); err != nil {
		return "", "", err
	}
	return e.oauth.AuthCodeURL(f.State, gooidc.Nonce(f.Nonce),
		oauth2.S256ChallengeOption(f.Verifier)), sealed, nil
}

// Finish completes a log-in with the provider's answer and the value from Start. Its
// errors are ErrFlow, ErrToken, *RefusedError and *NoRoleError; any other means that the
// provider did not respond.
func (p *Provider) Finish(ctx context.Context, sealed string, answer url.Values) (Identity, error) {
	ctx, cancel := p.context(ctx)
	defer cancel()
	f, err := p.flowOf(sealed, answer)
	if err != nil {
		return Identity{}, err
	}
	if code := answer.Get("error"); code != "" {
		return Identity{}, &RefusedError{Code: printable(code)}
	}
	e, err := p.discover(ctx)
	if err != nil {
		return Identity{}, err
	}
	tokens, err := e.oauth.Exchange(ctx, answer.Get("code"), oauth2.VerifierOption(f.Verifier))
	if err != nil {
		return Identity{}, exchangeError(err)
	}
	raw, _ := tokens.Extra("id_token").(string)
	verified, err := p.verify(ctx, e, raw, f.Nonce)
	if err != nil {
		return Identity{}, err
	}
	claims, err := p.claims(ctx, e, verified, tokens)
	if err != nil {
		return Identity{}, err
	}
	return p.identify(verified.Subject, claims, f.Next)
}

// LogoutURL returns the address for logging out at the provider, which then redirects to
// after. It is empty if the provider has none or does not respond.
func (p *Provider) LogoutURL(ctx context.Context, after string) string {
	ctx, cancel := p.context(ctx)
	defer cancel()
	e, err := p.discover(ctx)
	if err != nil || e.endSession == "" {
		return ""
	}
	u, err := url.Parse(e.endSession)
	if err != nil {
		return ""
	}
	q := u.Query()
	q.Set("client_id", p.config.ClientID)
	q.Set("post_logout_redirect_uri", after)
	u.RawQuery = q.Encode()
	return u.String()
}

// context gives the provider stepTimeout of the request's time.
func (p *Provider) context(ctx context.Context) (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithTimeout(ctx, stepTimeout)
	return gooidc.ClientContext(ctx, p.client), cancel
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
	if pause := p.now().Sub(p.failed); pause >= 0 && pause < retryPause {
		return nil, errors.New("discover the provider: it did not answer a moment ago")
	}
	provider, err := gooidc.NewProvider(ctx, p.config.Issuer)
	if err != nil {
		p.failed = p.now()
		return nil, fmt.Errorf("discover the provider: %w", err)
	}
	var more struct {
		Methods    []string `json:"token_endpoint_auth_methods_supported"`
		EndSession string   `json:"end_session_endpoint"`
	}
	if err := provider.Claims(&more); err != nil {
		return nil, fmt.Errorf("discover the provider: %w", err)
	}
	endpoint := provider.Endpoint()
	endpoint.AuthStyle = authStyle(more.Methods)
	if CheckURL(more.EndSession) != nil {
		more.EndSession = ""
	}
	p.found = &endpoints{
		provider: provider,
		oauth: oauth2.Config{
			ClientID: p.config.ClientID, ClientSecret: p.config.ClientSecret, Endpoint: endpoint,
			RedirectURL: p.config.RedirectURL,
			Scopes:      p.scopes(),
		},
		endSession: more.EndSession,
	}
	return p.found, nil
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

// flowOf opens the browser's cookie. It returns ErrFlow unless the answer has the
// cookie's state, is in time, and comes from this provider.
func (p *Provider) flowOf(sealed string, answer url.Values) (flow, error) {
	f, err := p.sealer.open(sealed)
	if err != nil || !p.now().Before(f.Ends) || !equal(f.State, answer.Get("state")) {
		return flow{}, ErrFlow
	}
	if from := answer.Get("iss"); from != "" && from != p.config.Issuer {
		return flow{}, ErrFlow
	}
	return f, nil
}

func equal(a, b string) bool { return subtle.ConstantTimeCompare([]byte(a), []byte(b)) == 1 }

// verify checks the id token's signature, issuer, audience, expiry and nonce.
func (p *Provider) verify(ctx context.Context, e *endpoints, raw, nonce string) (*gooidc.IDToken, error) {
	t, err := e.provider.Verifier(&gooidc.Config{ClientID: p.config.ClientID, Now: p.now}).Verify(ctx, raw)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrToken, err)
	}
	if !equal(t.Nonce, nonce) {
		return nil, fmt.Errorf("%w: its nonce is another", ErrToken)
	}
	var party struct {
		Authorized string `json:"azp"`
	}
	if err := t.Claims(&party); err != nil || len(t.Audience) > 1 && party.Authorized != p.config.ClientID {
		return nil, fmt.Errorf("%w: it was issued to another client", ErrToken)
	}
	return t, nil
}

// exchangeError omits the provider's response, which may contain our secrets, from the
// error.
func exchangeError(err error) error {
	var refused *oauth2.RetrieveError
	if errors.As(err, &refused) && refused.Response != nil &&
		refused.Response.StatusCode < http.StatusInternalServerError {
		return fmt.Errorf("%w: the token endpoint returned %d %s", ErrToken, refused.Response.StatusCode,
			printable(refused.ErrorCode))
	}
	return errors.New("the provider's token endpoint does not answer")
}

// bounded limits the length of responses.
type bounded struct{ http.RoundTripper }

func (b bounded) RoundTrip(r *http.Request) (*http.Response, error) {
	res, err := b.RoundTripper.RoundTrip(r)
	if err != nil {
		return nil, err
	}
	res.Body = struct {
		io.Reader
		io.Closer
	}{io.LimitReader(res.Body, maxReply), res.Body}
	return res, nil
}
