package oidc

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"unicode"

	gooidc "github.com/coreos/go-oidc/v3/oidc"
	"golang.org/x/oauth2"

	"tidegate/functions/admin/auth"
)

// NoRoleError means that a person is authenticated and has no role here.
type NoRoleError struct {
	Claim      string
	Present    bool // the claim exists, but none of its values gives a role
	Unverified bool // the claim is an e-mail address that the provider has not verified
	Overage    bool // the provider left the claim out, because it has too many values
}

func (e *NoRoleError) Error() string { return "no role in the claim " + e.Claim }

// Identity is a person who logged in.
type Identity struct {
	Actor auth.Actor
	Next  string // the path after the log-in, as given to Start
}

// emailClaim is the claim that people may choose themselves, unless the provider says that
// it has verified it.
const emailClaim = "email"

// verifiedEmail reports whether the provider has verified the claim email. Some providers
// send a text.
func verifiedEmail(claims map[string]any) bool {
	verified, ok := claims["email_verified"].(bool)
	return ok && verified || claims["email_verified"] == "true"
}

// claims returns the claims of the id token. If the role's claim is missing, or is an
// e-mail address that is not verified, it adds those of the provider's user-info endpoint.
func (p *Provider) claims(ctx context.Context, e *endpoints, t *gooidc.IDToken,
	tokens *oauth2.Token) (map[string]any, error) {
	var claims map[string]any
	if err := t.Claims(&claims); err != nil {
		return nil, fmt.Errorf("%w: %w", ErrToken, err)
	}
	_, present := lookUp(claims, p.config.RoleClaim)
	complete := present && (p.config.RoleClaim != emailClaim || verifiedEmail(claims))
	if complete || e.provider.UserInfoEndpoint() == "" {
		return claims, nil
	}
	info, err := e.provider.UserInfo(ctx, oauth2.StaticTokenSource(tokens))
	if err != nil {
		return nil, fmt.Errorf("get claims from the userinfo endpoint: %w", err)
	}
	if info.Subject != t.Subject {
		return nil, fmt.Errorf("%w: the userinfo endpoint returned another subject", ErrToken)
	}
	if err := info.Claims(&claims); err != nil {
		return nil, fmt.Errorf("%w: %w", ErrToken, err)
	}
	return claims, nil
}

func (p *Provider) identify(subject string, claims map[string]any, next string) (Identity, error) {
	if subject == "" || len(subject) > maxID || printable(subject) != subject {
		return Identity{}, fmt.Errorf("%w: its subject is empty, too long or not printable", ErrToken)
	}
	role, present := p.config.role(claims)
	refusal := &NoRoleError{Claim: p.config.RoleClaim, Present: present}
	if refusal.Claim == emailClaim && present && !verifiedEmail(claims) {
		role, refusal.Unverified = auth.Nobody, true
	}
	if elsewhere, ok := claims["_claim_names"].(map[string]any); ok && !present {
		_, refusal.Overage = elsewhere[refusal.Claim]
	}
	if role == auth.Nobody {
		return Identity{}, refusal
	}
	actor := auth.Actor{ID: "oidc:" + subject, Name: nameIn(claims, subject), Kind: auth.User, Role: role}
	return Identity{Actor: actor, Next: next}, nil
}

// nameIn returns a name to display. Users may have chosen it themselves.
func nameIn(claims map[string]any, subject string) string {
	for _, claim := range []string{"preferred_username", "email", "name"} {
		if text, ok := claims[claim].(string); ok && strings.TrimSpace(text) != "" {
			return clipped(printable(text))
		}
	}
	return clipped(printable(subject))
}

func printable(text string) string {
	return strings.Map(func(c rune) rune {
		if unicode.IsPrint(c) {
			return c
		}
		return '�'
	}, text)
}

func clipped(text string) string {
	if all := []rune(text); len(all) > maxName {
		return string(all[:maxName-1]) + "…"
	}
	return text
}

// role returns the role that the claims give. present is false without the claim.
func (c Config) role(claims map[string]any) (role auth.Role, present bool) {
	value, present := lookUp(claims, c.RoleClaim)
	if !present {
		return auth.Nobody, false
	}
	for _, text := range texts(value) {
		if text == "" {
			continue
		}
		if slices.Contains(c.EditorValues, text) {
			return auth.Editor, true
		}
		if slices.Contains(c.ViewerValues, text) {
			role = auth.Viewer
		}
	}
	return role, true
}

// lookUp finds a claim by its name, or else by the name as a path with dots. Some
// providers use addresses as names, others nest objects.
func lookUp(claims map[string]any, name string) (any, bool) {
	if value, ok := claims[name]; ok {
		return value, value != nil
	}
	first, others, found := strings.Cut(name, ".")
	if !found {
		return nil, false
	}
	inner, ok := claims[first].(map[string]any)
	if !ok {
		return nil, false
	}
	return lookUp(inner, others)
}

func texts(value any) []string {
	switch value := value.(type) {
	case string:
		return []string{value}
	case []any:
		var all []string
		for _, v := range value {
			if text, ok := v.(string); ok {
				all = append(all, text)
			}
		}
		return all
	}
	return nil
}
