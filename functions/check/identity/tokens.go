package identity

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	strict "github.com/go-jose/go-jose/v4/json" // refuses members that are given twice

	"tidegate/internal/jwt"
)

// Bounds of the settings of issuers.
const (
	maxTextLen   = 512
	maxAudiences = 16
	maxPlans     = 64
	maxRequired  = 8
)

// issuerSettings are the settings of one token issuer: an element of JWT_ISSUERS, or the
// variables for a single issuer.
type issuerSettings struct {
	Issuer        string            `json:"issuer"`
	Tenants       []string          `json:"tenants"`
	Audience      list              `json:"audience"`
	KeysURL       string            `json:"jwksUrl"`
	Keys          json.RawMessage   `json:"jwks"`
	Algorithms    []string          `json:"algorithms"`
	IdentityClaim string            `json:"identityClaim"`
	PlanClaim     string            `json:"planClaim"`
	PlanMap       map[string]string `json:"planMap"`
	Required      map[string]string `json:"requiredClaims"`
	Leeway        string            `json:"leeway"`
}

// list is a text or a list of texts, as aud is in a token.
type list []string

// UnmarshalJSON implements json.Unmarshaler.
func (l *list) UnmarshalJSON(text []byte) error {
	var one string
	if json.Unmarshal(text, &one) == nil {
		*l = list{one}
		return nil
	}
	return json.Unmarshal(text, (*[]string)(l))
}

// variableOf has the variable for a single issuer of each setting. JWT_ISSUERS alone has
// the others.
var variableOf = map[string]string{"issuer": "JWT_ISSUER", "audience": "JWT_AUDIENCE",
	"jwksUrl": "JWT_JWKS_URL", "jwks": "JWT_JWKS", "identityClaim": "JWT_IDENTITY_CLAIM",
	"planClaim": "JWT_PLAN_CLAIM", "planMap": "JWT_PLAN_MAP", "leeway": "JWT_LEEWAY",
	"requiredClaims": "JWT_REQUIRED_CLAIMS"}

func variableName(setting string) string { return variableOf[setting] }

// single are the variables that JWT_ISSUERS excludes.
func (v Variables) single() [][2]string {
	return [][2]string{{"JWT_ISSUER", v.Issuer}, {"JWT_AUDIENCE", v.Audience},
		{"JWT_JWKS_URL", v.KeysURL}, {"JWT_JWKS", v.Keys}}
}

// noTokens refuses variables for tokens when jwt is not a source: an operator who sets an
// issuer expects its tokens to work.
func (v Variables) noTokens() error {
	var errs []error
	for _, given := range append(v.single(), [2]string{"JWT_ISSUERS", v.Issuers}) {
		if given[1] != "" {
			errs = append(errs, fmt.Errorf(
				"%s is set, but jwt is not among IDENTITY_SOURCES: add it there, or leave this out",
				given[0]))
		}
	}
	return errors.Join(errs...)
}

// tokens parses the settings of the issuers.
func (v Variables) tokens() (jwt.Config, error) {
	var c jwt.Config
	var errs []error
	c.ContextClaims, errs = parseContextClaims(v.ContextClaims)
	plans, err := parseTexts("JWT_PLAN_MAP", v.PlanMap, `{"GROUP": "PLAN"}`)
	required, err2 := parseTexts("JWT_REQUIRED_CLAIMS", v.RequiredClaims, `{"CLAIM": "TEXT"}`)
	errs = append(errs, err, err2)
	common := issuerSettings{IdentityClaim: v.IdentityClaim, PlanClaim: v.PlanClaim, PlanMap: plans,
		Required: required, Leeway: v.Leeway}
	if v.Issuers == "" {
		common.Issuer, common.Audience = v.Issuer, list(strings.Split(v.Audience, ","))
		common.KeysURL, common.Keys = v.KeysURL, json.RawMessage(v.Keys)
		one, err := common.parse(variableName)
		c.Issuers, errs = append(c.Issuers, one), append(errs, err)
		return c, errors.Join(errs...)
	}
	for _, given := range v.single() {
		if given[1] != "" {
			errs = append(errs, fmt.Errorf("%s is set beside JWT_ISSUERS: move it into the list, or leave "+
				"one out", given[0]))
		}
	}
	all, err := parseIssuers(v.Issuers)
	errs = append(errs, err, common.parseClaims(&jwt.Issuer{}, variableName))
	for i := range all {
		one, err := all[i].or(common).parse(func(setting string) string {
			return "JWT_ISSUERS: " + setting + " of issuer " + strconv.Itoa(i+1)
		})
		c.Issuers, errs = append(c.Issuers, one), append(errs, err)
	}
	return c, errors.Join(errs...)
}

// parseContextClaims parses JWT_CONTEXT_CLAIMS.
func parseContextClaims(text string) (names []string, errs []error) {
	if text == "" {
		return nil, nil
	}
	keys := map[string]bool{}
	for name := range strings.SplitSeq(text, ",") {
		name = strings.TrimSpace(name)
		if key := jwt.ContextKey(name); keys[key] {
			errs = append(errs,
				fmt.Errorf("JWT_CONTEXT_CLAIMS has %s twice in the context: name one claim of "+
					"it", key))
		} else {
			keys[key] = true
		}
		errs = append(errs, checkClaim(name)...)
		names = append(names, name)
	}
	if len(names) > jwt.MaxContextClaims {
		errs = append(errs, fmt.Errorf("JWT_CONTEXT_CLAIMS has %d claims: must have at most %d", len(names),
			jwt.MaxContextClaims))
	}
	return names, errs
}

func checkClaim(name string) []error {
	if len(name) < 1 || len(name) > jwt.MaxContextName {
		return []error{fmt.Errorf("a claim in JWT_CONTEXT_CLAIMS has %d bytes: must have 1 to %d", len(name),
			jwt.MaxContextName)}
	}
	return nil
}

// parseTexts parses a variable that is a JSON object of texts.
func parseTexts(variable, text, form string) (map[string]string, error) {
	var texts map[string]string
	if text != "" && (strict.Unmarshal([]byte(text), &texts) != nil || texts == nil) {
		return nil, fmt.Errorf("%s has %d bytes that are not a JSON object of texts, or have a member "+
			"twice: must be of the form %s", variable, len(text), form)
	}
	return texts, nil
}

// parseIssuers parses JWT_ISSUERS. Its error quotes no values: keys could be private.
func parseIssuers(text string) ([]issuerSettings, error) {
	var all []issuerSettings
	d := json.NewDecoder(bytes.NewReader([]byte(text)))
	d.DisallowUnknownFields()
	err := cmp.Or(d.Decode(&all), strict.Unmarshal([]byte(text), new(any)))
	if err != nil || d.More() || len(all) == 0 || len(all) > jwt.MaxIssuers {
		return nil, fmt.Errorf("JWT_ISSUERS has %d issuers%s: must be a JSON list of 1 to %d objects with "+
			"issuer, audience, jwksUrl or jwks, and optional tenants, algorithms, identityClaim, planClaim, "+
			"planMap, requiredClaims and leeway", len(all), wrongMember(err), jwt.MaxIssuers)
	}
	return all, nil
}

// wrongMember names the member of a JSON text that is unknown or of another type, or says
// that one is given twice.
func wrongMember(err error) string {
	if wrong, ok := errors.AsType[*json.UnmarshalTypeError](err); ok {
		return fmt.Sprintf(", with %.40q of another type", wrong.Field)
	}
	switch {
	case err == nil:
		return ""
	case strings.HasPrefix(err.Error(), "json: duplicate key"):
		return ", with a member that is given twice"
	}
	if name, unknown := strings.CutPrefix(err.Error(), "json: unknown field "); unknown {
		return fmt.Sprintf(", with the unknown member %.40s", name)
	}
	return ""
}

// or returns the settings with those of common where they have none.
func (i issuerSettings) or(common issuerSettings) issuerSettings {
	for _, text := range [][2]*string{{&i.IdentityClaim, &common.IdentityClaim},
		{&i.PlanClaim, &common.PlanClaim}, {&i.Leeway, &common.Leeway}} {
		if *text[0] == "" {
			*text[0] = *text[1]
		}
	}
	if i.PlanMap == nil && i.PlanClaim == common.PlanClaim {
		i.PlanMap = common.PlanMap
	}
	if i.Required == nil {
		i.Required = common.Required
	}
	return i
}

// parse checks the settings; name returns what the operator calls one.
func (i issuerSettings) parse(name func(setting string) string) (jwt.Issuer, error) {
	c := jwt.Issuer{Name: i.Issuer, Tenants: i.Tenants, Algorithms: i.Algorithms}
	errs := []error{checkLen(name("issuer"), i.Issuer, 1)}
	if len(i.Audience) == 0 || len(i.Audience) > maxAudiences {
		errs = append(errs, fmt.Errorf("%s has %d audiences: must have 1 to %d", name("audience"),
			len(i.Audience), maxAudiences))
	}
	for _, audience := range i.Audience {
		audience = strings.TrimSpace(audience)
		errs = append(errs, checkLen("An audience in "+name("audience"), audience, 1))
		c.Audiences = append(c.Audiences, audience)
	}
	errs = append(errs, i.parseClaims(&c, name), i.parseKeys(&c, name))
	if err := errors.Join(errs...); err != nil {
		return c, err
	}
	if err := c.Check(); err != nil {
		return c, fmt.Errorf("%s: %w", name("issuer"), err)
	}
	return c, nil
}

func checkLen(name, value string, minLen int) error {
	if len(value) < minLen || len(value) > maxTextLen {
		return fmt.Errorf("%s has %d bytes: must have %d to %d", name, len(value), minLen, maxTextLen)
	}
	return nil
}

// parseClaims checks the settings that an issuer may have in common with others.
func (i issuerSettings) parseClaims(c *jwt.Issuer, name func(setting string) string) error {
	c.IdentityClaim, c.PlanClaim, c.Plans = i.IdentityClaim, i.PlanClaim, i.PlanMap
	c.RequiredClaims = i.Required
	errs := []error{checkLen(name("identityClaim"), i.IdentityClaim, 1),
		checkLen(name("planClaim"), i.PlanClaim, 0)}
	if len(i.PlanMap) > maxPlans || i.PlanMap != nil && i.PlanClaim == "" {
		errs = append(errs, fmt.Errorf("%s has %d groups: must have at most %d, and needs a claim with "+
			"groups: %s", name("planMap"), len(i.PlanMap), maxPlans, name("planClaim")))
	}
	if len(i.Required) > maxRequired {
		errs = append(errs, fmt.Errorf("%s has %d claims: must have at most %d", name("requiredClaims"),
			len(i.Required), maxRequired))
	}
	for claim, text := range i.Required {
		errs = append(errs, checkLen("A claim in "+name("requiredClaims"), claim, 1),
			checkLen(fmt.Sprintf("The text of claim %.40q in %s", claim, name("requiredClaims")), text, 1))
	}
	for group, plan := range i.PlanMap {
		errs = append(errs, checkLen(fmt.Sprintf("The plan of group %.40q in %s", group, name("planMap")),
			plan, 1))
	}
	var err error
	if c.Leeway, err = time.ParseDuration(i.Leeway); err != nil || c.Leeway < 0 || c.Leeway > jwt.MaxLeeway {
		errs = append(errs, fmt.Errorf("%s is %.40q: must be 0s to %s", name("leeway"), i.Leeway,
			jwt.MaxLeeway))
	}
	return errors.Join(errs...)
}

// parseKeys parses the URL of the issuer's keys, or the keys themselves.
func (i issuerSettings) parseKeys(c *jwt.Issuer, name func(setting string) string) (err error) {
	switch {
	case (i.KeysURL == "") == (len(i.Keys) == 0):
		return fmt.Errorf("%s and %s: exactly one of them must be set when jwt is among "+
			"IDENTITY_SOURCES", name("jwksUrl"), name("jwks"))
	case len(i.Keys) > 0:
		if c.Keys, err = jwt.ParseKeys(i.Keys); err != nil {
			return fmt.Errorf("%s: %w", name("jwks"), err)
		}
	default:
		if c.KeysURL, err = jwt.ParseURL(i.KeysURL); err != nil {
			return fmt.Errorf("%s %w", name("jwksUrl"), err)
		}
	}
	return nil
}
