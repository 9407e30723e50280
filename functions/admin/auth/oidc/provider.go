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
	"strings"
	"sync"
	"time"

	gooidc "github.com/coreos/go-oidc/v3/oidc"
	"golang.org/x/oauth2"

	"tidegate/functions/admin/auth/seal"
	"tidegate/internal/apikey"
)

const (
	stepTimeout = 8 * time.Second // of all requests to the provider in one step
	leeway      = time.Minute     // by which the provider's clock may be behind
	maxReply    = 1 << 20         // bytes of a response
	maxName     = 64              // characters of a displayed name
	maxID       = 255             // bytes of a subject, by the standard
)

// ErrFlow means that an answer belongs to no recent log-in of this browser.
var ErrFlow = errors.New("the answer belongs to no login in progress")

// ErrUsed means that the provider does not take the code of an answer: it was used before,
// as by a reload, or it is too old.
var ErrUsed = errors.New("the provider does not take the code of its answer")

// TokenError means that the provider's response is not valid.
type TokenError struct{ Why string }

func (e *TokenError) Error() string { return "the provider's answer is not valid: " + e.Why }

func tokenError(format string, values ...any) error {
	return &TokenError{printable(fmt.Sprintf(format, values...))}
}

// RefusedError means that the provider did not log the person in.
type RefusedError struct {
	Code        string
	Description string // the provider's words; may be empty
}

func (e *RefusedError) Error() string {
	return strings.TrimSuffix("the provider refused: "+e.Code+": "+e.Description, ": ")
}

// Config has the provider and the roles of the people that it logs in.
type Config struct {
	Issuer       string // address of the provider, https; http on this machine only
	ClientID     string
	ClientSecret string
	RedirectURL  string // where the provider redirects browsers, as registered there
	Scopes       []string
	// RoleClaim is the claim with a person's groups: a text, a list of texts, or an object
	// whose names they are. If no claim has a name with dots, the name is a path into nested
	// objects.
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
	sealer *seal.Sealer
	client *http.Client
	now    func() time.Time

	mu       sync.Mutex
	found    *endpoints // nil until discovery succeeds
	failedAt time.Time  // when discovery failed last
	failure  error      // why it did
}

// New returns a Provider. It makes no request yet. The pepper keys the seal of the
// browsers' cookies.
func New(c Config, pepper apikey.Pepper) (*Provider, error) {
	if err := c.validate(); err != nil {
		return nil, fmt.Errorf("oidc: %w", err)
	}
	client := &http.Client{
		Transport:     bounded{http.DefaultTransport},
		Timeout:       stepTimeout,
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
	return &Provider{config: c, sealer: seal.New(pepper), client: client, now: time.Now}, nil
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
	f := newFlow(next)
	if sealed, err = p.sealer.Seal(flowLabel, f, p.now().Add(FlowLife)); err != nil {
		return "", "", err
	}
	return e.oauth.AuthCodeURL(f.State, gooidc.Nonce(f.Nonce),
		oauth2.S256ChallengeOption(f.Verifier)), sealed, nil
}

// Finish completes a log-in with the provider's answer and the value from Start. Its
// errors are ErrFlow, ErrUsed, *TokenError, *RefusedError, *NoRoleError and *SetupError; any
// other means that the provider did not respond.
func (p *Provider) Finish(ctx context.Context, sealed string, answer url.Values) (Identity, error) {
	ctx, cancel := p.context(ctx)
	defer cancel()
	f, err := p.flowOf(sealed, answer)
	if err != nil {
		return Identity{}, err
	}
	if code := answer.Get("error"); code != "" {
		return Identity{}, &RefusedError{printable(code), printable(answer.Get("error_description"))}
	}
	e, err := p.discover(ctx)
	if err != nil {
		return Identity{}, err
	}
	if from := answer.Get("iss"); from != "" && !sameIssuer(from, e.issuer) {
		return Identity{}, tokenError("it comes from %q, not from %q", from, e.issuer)
	}
	tokens, err := e.oauth.Exchange(ctx, answer.Get("code"), oauth2.VerifierOption(f.Verifier))
	if err != nil {
		return Identity{}, p.exchangeError(err)
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
// after. It is empty if the provider has none, does not respond, or is Okta, which would
// answer with an error: it wants the id token, which is not kept.
func (p *Provider) LogoutURL(ctx context.Context, after string) string {
	ctx, cancel := p.context(ctx)
	defer cancel()
	e, err := p.discover(ctx)
	if err != nil || e.endSession == "" {
		return ""
	}
	u, err := url.Parse(e.endSession)
	if err != nil || strings.HasPrefix(u.Path, "/oauth2/") && strings.HasSuffix(u.Path, "/v1/logout") {
		return ""
	}
	q := u.Query()
	q.Set("client_id", p.config.ClientID)
	q.Set("post_logout_redirect_uri", after)
	q.Set("logout_uri", after) // what Amazon Cognito wants in place of it
	u.RawQuery = q.Encode()
	return u.String()
}

// context gives the provider stepTimeout of the request's time.
func (p *Provider) context(ctx context.Context) (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithTimeout(ctx, stepTimeout)
	return gooidc.ClientContext(ctx, p.client), cancel
}

// flowOf opens the browser's cookie. It returns ErrFlow unless the answer has the
// cookie's state and is in time. A refusal may lack the state, as some of Amazon Cognito's
// do: anybody can write such a link, so only the codes of the standards are taken from it.
func (p *Provider) flowOf(sealed string, answer url.Values) (flow, error) {
	var f flow
	code := answer.Get("error")
	switch {
	case !p.sealer.Open(flowLabel, sealed, &f, p.now()):
		return flow{}, ErrFlow
	case !answer.Has("state") && slices.Contains(refusals, code):
		return flow{}, &RefusedError{Code: code}
	case !equal(f.State, answer.Get("state")):
		return flow{}, ErrFlow
	}
	return f, nil
}

// refusals are the codes of RFC 6749, section 4.1.2.1, and of OpenID Connect Core, section
// 3.1.2.6, with which a provider refuses a log-in.
var refusals = []string{
	"access_denied", "account_selection_required", "consent_required", "interaction_required",
	"invalid_request", "invalid_scope", "login_required", "server_error", "temporarily_unavailable",
	"unauthorized_client", "unsupported_response_type",
}

func equal(a, b string) bool { return subtle.ConstantTimeCompare([]byte(a), []byte(b)) == 1 }

// verify checks the id token's signature, issuer, audience, expiry and nonce.
func (p *Provider) verify(ctx context.Context, e *endpoints, raw, nonce string) (*gooidc.IDToken, error) {
	if raw == "" {
		return nil, tokenError("it has no id token; OIDC_SCOPES must have openid")
	}
	now := func() time.Time { return p.now().Add(-leeway) }
	t, err := e.provider.Verifier(&gooidc.Config{ClientID: p.config.ClientID, Now: now}).Verify(ctx, raw)
	if expired, ok := errors.AsType[*gooidc.TokenExpiredError](err); ok {
		return nil, tokenError("its id token expired at %s, and the clock here says %s",
			expired.Expiry.UTC().Format(time.RFC3339), p.now().UTC().Format(time.RFC3339))
	}
	if err != nil && strings.Contains(err.Error(), "fetching keys") { // the library's error has no type
		return nil, fmt.Errorf("get the provider's keys: %w", err)
	}
	if err != nil {
		return nil, tokenError("%s", strings.TrimPrefix(err.Error(), "oidc: "))
	}
	if !equal(t.Nonce, nonce) {
		return nil, tokenError("the nonce of its id token is another")
	}
	var party struct {
		Authorized string `json:"azp"`
	}
	if err := t.Claims(&party); err != nil || len(t.Audience) > 1 && party.Authorized != p.config.ClientID {
		return nil, tokenError("its id token was issued to the client %q, not to %q", party.Authorized,
			p.config.ClientID)
	}
	return t, nil
}

// exchangeError returns what the token endpoint's error means. A provider that quotes our
// secret is not quoted.
func (p *Provider) exchangeError(err error) error {
	refused, ok := errors.AsType[*oauth2.RetrieveError](err)
	if !ok || refused.Response == nil || refused.Response.StatusCode >= http.StatusInternalServerError {
		return errors.New("the provider's token endpoint does not answer")
	}
	why := refused.ErrorDescription
	if secret := p.config.ClientSecret; secret != "" && strings.Contains(why, secret) {
		why = ""
	}
	why = printable(strings.TrimSuffix(refused.ErrorCode+": "+why, ": "))
	switch refused.ErrorCode {
	case "invalid_grant":
		return fmt.Errorf("%w: %s", ErrUsed, why)
	case "invalid_client", "unauthorized_client":
		return &SetupError{"it does not take OIDC_CLIENT_ID with OIDC_CLIENT_SECRET (" + why + ")."}
	}
	return tokenError("the token endpoint answered %d %s", refused.Response.StatusCode, why)
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
