package jwt

import (
	"encoding/json"
	"fmt"
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"
)

// maxPlanLen bounds a plan's name, in bytes.
const maxPlanLen = 400

// validate checks the token's audience, required claims and times. It reads no other claims,
// so their types do not matter.
func (i *trustedIssuer) validate(claims map[string]any, now time.Time) error {
	if err := i.validateAudience(claims); err != nil {
		return err
	}
	for _, name := range slices.Sorted(maps.Keys(i.RequiredClaims)) {
		value, _ := find(claims, name)
		if text, ok := value.(string); !ok || text != i.RequiredClaims[name] {
			return refused("claim %.60q is %s: must be the text that is required, %.60q", name,
				kindOf(claims, name), i.RequiredClaims[name])
		}
	}
	expiry, given, ok := instant(claims, "exp")
	switch {
	case !given:
		return refused("claim exp is missing: tokens must expire")
	case !ok:
		return refused("claim exp is not a number of seconds")
	case now.Add(-i.Leeway).After(expiry):
		return ErrExpired
	}
	for _, name := range []string{"nbf", "iat"} {
		at, given, ok := instant(claims, name)
		switch {
		case given && !ok:
			return refused("claim %s is not a number of seconds", name)
		case given && now.Add(i.Leeway).Before(at):
			return refused("claim %s is in the future", name)
		}
	}
	return nil
}

// validateAudience checks aud, a text or a list of texts. Without aud it checks the first of
// client_id and azp, which name the client that the token was issued to.
func (i *trustedIssuer) validateAudience(claims map[string]any) error {
	name := "aud"
	for _, instead := range []string{"client_id", "azp"} {
		if _, given := claims[name]; !given {
			name = instead
		}
	}
	audiences, ok := texts(claims[name])
	switch {
	case claims[name] == nil:
		return refused("claim aud is missing, and so are client_id and azp: let the issuer add one")
	case !ok || name != "aud" && len(audiences) != 1:
		return refused("claim %s is not text", name)
	}
	for _, audience := range audiences {
		if slices.Contains(i.Audiences, audience) {
			return nil
		}
	}
	return refused("claim %s has none of the configured audiences", name)
}

// texts returns a text, or a list of texts.
func texts(value any) (all []string, ok bool) {
	switch value := value.(type) {
	case string:
		return []string{value}, true
	case []any:
		for _, one := range value {
			text, ok := one.(string)
			if !ok {
				return nil, false
			}
			all = append(all, text)
		}
		return all, true
	}
	return nil, false
}

// contextOf returns the named claims in the form of Claims.Context.
func contextOf(claims map[string]any, names []string) map[string]any {
	if len(names) == 0 {
		return nil
	}
	context := map[string]any{}
	for _, name := range names {
		value, given := find(claims, name)
		text, isText := value.(string)
		switch value.(type) {
		case string, bool, float64:
		default:
			encoded, err := json.Marshal(value)
			if given = given && err == nil && value != nil; given {
				value, text, isText = string(encoded), string(encoded), true
			}
		}
		if given && (!isText || len(text) <= MaxContextValue && utf8.ValidString(text)) {
			context[ContextKey(name)] = value
		}
	}
	return context
}

// maxSeconds bounds times to those that time.Unix represents exactly.
const maxSeconds = 1 << 40

// instant returns a claim that is a number of seconds since 1970. It ignores fractions.
func instant(claims map[string]any, name string) (at time.Time, given, ok bool) {
	value, given := claims[name]
	seconds, ok := value.(float64)
	if !ok || seconds < -maxSeconds || seconds > maxSeconds {
		return time.Time{}, given, false
	}
	return time.Unix(int64(seconds), 0), true, true
}

// find returns the claim of a name: the member of exactly this name, such as
// https://example.com/plan, or else what a path with dots leads to, such as
// realm_access.roles. A member of the path may have dots itself.
func find(object map[string]any, name string) (value any, given bool) {
	if value, given = object[name]; given {
		return value, true
	}
	for i := range len(name) {
		if name[i] != '.' {
			continue
		}
		if inner, ok := object[name[:i]].(map[string]any); ok {
			if value, given = find(inner, name[i+1:]); given {
				return value, true
			}
		}
	}
	return nil, false
}

// kindOf says what the claim of a name is, without its value.
func kindOf(claims map[string]any, name string) string {
	value, given := find(claims, name)
	if !given {
		return "missing"
	}
	switch value := value.(type) {
	case string:
		if value == "" {
			return "empty"
		}
		return "text"
	case float64:
		return "a number"
	case bool:
		return "true or false"
	case []any:
		return fmt.Sprintf("a list of %d", len(value))
	case map[string]any:
		return "an object"
	}
	return "null"
}

// maxExact bounds whole numbers that a float64 represents exactly, so that no two differ and
// look the same.
const maxExact = 1 << 53

// named returns the text of a claim that names something: a text, a whole number, or a list
// of one of them; otherwise empty.
func named(value any) string {
	if list, ok := value.([]any); ok && len(list) == 1 {
		value = list[0]
	}
	switch value := value.(type) {
	case string:
		return value
	case float64:
		if value == math.Trunc(value) && math.Abs(value) < maxExact {
			return strconv.FormatFloat(value, 'f', -1, 64)
		}
	}
	return ""
}

// groupsOf returns the groups of a claim: the texts of a list, the keys of an object in
// order, or a text, first as it is and then the words in it, as scope has them.
func groupsOf(value any) (all []string, ok bool) {
	switch value := value.(type) {
	case string:
		return append([]string{value}, strings.Fields(value)...), true
	case map[string]any:
		return slices.Sorted(maps.Keys(value)), true
	}
	return texts(value)
}

// scopesOf returns the scopes of a token: the words of the text scope, or of scp, which may
// be a list. It is never nil.
func scopesOf(claims map[string]any) []string {
	for _, name := range []string{"scope", "scp"} {
		if all, ok := texts(claims[name]); ok {
			return append([]string{}, strings.Fields(strings.Join(all, " "))...)
		}
	}
	return []string{}
}

// read returns the claims that the configuration names. A claim with the wrong type makes
// the token invalid.
func (i *trustedIssuer) read(name string, claims map[string]any) (Claims, error) {
	c := Claims{Issuer: name}
	subject, _ := find(claims, i.IdentityClaim)
	if c.Subject = named(subject); c.Subject == "" || !utf8.ValidString(c.Subject) {
		return Claims{}, refused("claim %.60q, which identifies the caller, is %s: must be text, a whole "+
			"number, or a list of one", i.IdentityClaim, kindOf(claims, i.IdentityClaim))
	}
	if err := i.readPlan(&c, claims); err != nil {
		return Claims{}, err
	}
	return c, nil
}

// readPlan reads the plan that a token names, or why it names none.
func (i *trustedIssuer) readPlan(c *Claims, claims map[string]any) error {
	value, given := find(claims, i.PlanClaim)
	switch {
	case i.PlanClaim == "":
		return nil
	case !given:
		c.NoPlan = fmt.Sprintf("claim %.60q is missing", i.PlanClaim)
		return nil
	case i.Plans == nil:
		plan, ok := value.(string)
		if !ok || plan == "" || len(plan) > maxPlanLen {
			return refused("claim %.60q, which names the plan, is %s: must be text of 1 to %d bytes, or "+
				"groups that are mapped to plans", i.PlanClaim, kindOf(claims, i.PlanClaim), maxPlanLen)
		}
		c.Plan = plan
		return nil
	}
	groups, ok := groupsOf(value)
	if !ok {
		return refused("claim %.60q, which has the groups, is %s: must be texts in a list, text, or an "+
			"object", i.PlanClaim, kindOf(claims, i.PlanClaim))
	}
	for _, group := range groups {
		if c.Plan = i.Plans[group]; c.Plan != "" {
			return nil
		}
	}
	c.NoPlan = fmt.Sprintf("claim %.60q is %s, and none of its groups is mapped to a plan", i.PlanClaim,
		kindOf(claims, i.PlanClaim))
	return nil
}
