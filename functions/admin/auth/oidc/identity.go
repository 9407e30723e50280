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
	Present    bool     // the claim exists, but none of its values gives a role
	Values     []string // what the claim has, at most maxValues of them, shortened
	More       int      // how many values it has beside those
	Shape      string   // what the claim is, if it has no values; "a number"
	Near       string   // one of Values that differs from one that gives a role in case or spaces only
	Unverified bool     // the claim is an e-mail address that the provider has not verified
	Overage    bool     // the provider left the claim out, because it has too many values
	Wanted     string   // the values that give a role, for the log
}

func (e *NoRoleError) Error() string {
	came := "absent"
	switch {
	case e.Overage:
		came = "left out, with too many values"
	case e.Unverified:
		came = "an address that is not verified"
	case e.Shape != "":
		came = e.Shape
	case e.Present:
		came = fmt.Sprintf("%q and %d more", e.Values, e.More)
	}
	return fmt.Sprintf("no role in the claim %s: it is %s; %s", e.Claim, came, e.Wanted)
}

const maxValues = 10 // of a claim, in messages

// refusal returns why the claims give no role.
func (c Config) refusal(claims map[string]any) *NoRoleError {
	value, present := lookUp(claims, c.RoleClaim)
	e := &NoRoleError{Claim: c.RoleClaim, Present: present,
		Wanted: fmt.Sprintf("editors need one of %q, viewers one of %q", c.EditorValues, c.ViewerValues)}
	if elsewhere, ok := claims["_claim_names"].(map[string]any); ok && !present {
		_, e.Overage = elsewhere[c.RoleClaim]
	}
	all := texts(value)
	if present && len(all) == 0 {
		e.Shape = shapeOf(value)
	}
	for _, text := range all {
		same := func(wanted string) bool { return strings.EqualFold(strings.TrimSpace(text), wanted) }
		if e.Near == "" && slices.ContainsFunc(slices.Concat(c.EditorValues, c.ViewerValues), same) {
			e.Near = clipped(printable(text))
		}
		if len(e.Values) < maxValues {
			e.Values = append(e.Values, clipped(printable(text)))
		}
	}
	e.More = len(all) - len(e.Values)
	return e
}

// shapeOf says what a value is that has no texts.
func shapeOf(value any) string {
	switch value := value.(type) {
	case []any:
		if len(value) == 0 {
			return "an empty list"
		}
		return "a list without texts"
	case map[string]any:
		return "an object without names"
	case bool:
		return "true or false"
	case float64:
		return "a number"
	}
	return "empty"
}

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
		return nil, tokenError("its id token has no claims")
	}
	_, present := lookUp(claims, p.config.RoleClaim)
	complete := present && (p.config.RoleClaim != emailClaim || verifiedEmail(claims))
	if complete || e.provider.UserInfoEndpoint() == "" {
		return claims, nil
	}
	info, err := e.provider.UserInfo(ctx, oauth2.StaticTokenSource(tokens))
	if err != nil {
		why := clipped(printable(err.Error())) // it may have a whole page
		if strings.HasPrefix(why, "4") {
			return nil, tokenError("its userinfo endpoint answered %s", why)
		}
		return nil, fmt.Errorf("get claims from the userinfo endpoint: %s", why)
	}
	if info.Subject != t.Subject {
		return nil, tokenError("its userinfo endpoint has the subject %q, its id token %q",
			clipped(info.Subject), clipped(t.Subject))
	}
	if err := info.Claims(&claims); err != nil {
		return nil, tokenError("its userinfo endpoint has no claims")
	}
	return claims, nil
}

func (p *Provider) identify(subject string, claims map[string]any, next string) (Identity, error) {
	if subject == "" || len(subject) > maxID || printable(subject) != subject {
		return Identity{}, tokenError("the subject of its id token is empty, too long or not printable")
	}
	role := p.config.role(claims)
	unverified := p.config.RoleClaim == emailClaim && !verifiedEmail(claims)
	if role == auth.Nobody || unverified {
		refusal := p.config.refusal(claims)
		refusal.Unverified = unverified && refusal.Present
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

// role returns the role that the claims give.
func (c Config) role(claims map[string]any) auth.Role {
	value, _ := lookUp(claims, c.RoleClaim)
	role := auth.Nobody
	for _, text := range texts(value) {
		if text == "" {
			continue
		}
		if slices.Contains(c.EditorValues, text) {
			return auth.Editor
		}
		if slices.Contains(c.ViewerValues, text) {
			role = auth.Viewer
		}
	}
	return role
}

// lookUp finds a claim by its name, or else by the name as a path with dots, some of which
// may be in the names of its parts. Some providers use addresses as names, others nest
// objects.
func lookUp(claims map[string]any, name string) (any, bool) {
	if value, ok := claims[name]; ok {
		return value, value != nil
	}
	for i, c := range name {
		inner, ok := claims[name[:i]].(map[string]any)
		if c != '.' || !ok {
			continue
		}
		if value, found := lookUp(inner, name[i+1:]); found {
			return value, true
		}
	}
	return nil, false
}

// texts returns the values of a claim: a text, the texts of a list, or the names in an
// object, in order. A name whose value is false or null does not count.
func texts(value any) []string {
	var all []string
	switch value := value.(type) {
	case string:
		if value != "" {
			all = append(all, value)
		}
	case []any:
		for _, v := range value {
			if text, ok := v.(string); ok {
				all = append(all, text)
			}
		}
	case map[string]any:
		for name, v := range value {
			if yes, isBool := v.(bool); v != nil && (yes || !isBool) {
				all = append(all, name)
			}
		}
		slices.Sort(all)
	}
	return all
}
