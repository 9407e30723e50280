package command

import (
	"context"
	"fmt"
	"mime"
	"net/http"
	"slices"
	"strings"

	"tidegate/functions/admin/api/rest"
	"tidegate/functions/admin/dashboard/changes"
	"tidegate/functions/admin/dashboard/page"
	"tidegate/functions/admin/dashboard/wording"
	"tidegate/functions/admin/policydoc"
	"tidegate/internal/policy"
	"tidegate/web/templates"
)

// AllCallers sets what applies to all callers: limits, lists of networks, and the plans of
// callers without a key.
type AllCallers struct {
	OnPolicy
	Trial
	Body struct {
		Limits      []policydoc.Limit `json:"limits,omitempty" maxItems:"200" label:"Limits, one a line" hint:"Beside those of plans. Each says for whom it counts: each caller, each group, each address, each {parameter}, or together."`
		Deny        []string          `json:"deny,omitempty" maxItems:"500" most:"30000" rows:"3" list:"networks" rare:"Refused, allowed and exempt addresses" label:"Refused addresses" sample:"203.0.113.0/24" hint:"Calls from here are refused."`
		Allow       []string          `json:"allow,omitempty" maxItems:"500" most:"30000" rows:"3" list:"networks" rare:"Refused, allowed and exempt addresses" label:"Allowed addresses" sample:"203.0.113.0/24" hint:"If set, calls from elsewhere are refused."`
		Exempt      []string          `json:"exempt,omitempty" maxItems:"500" most:"30000" rows:"3" list:"networks" rare:"Refused, allowed and exempt addresses" label:"Exempt addresses" sample:"203.0.113.0/24" hint:"Calls from here are not limited."`
		TokenPlan   string            `json:"tokenPlan,omitempty" maxLength:"100" rare:"Plans of callers without a key" label:"Default plan for JWTs"`
		AddressPlan string            `json:"addressPlan,omitempty" maxLength:"100" rare:"Plans of callers without a key" label:"Default plan for addresses"`
		Why
	}
}

func (c *AllCallers) ready() error {
	c.everyone = true
	return nil
}

func (c *AllCallers) options(name string) []templates.Option {
	if name != "tokenPlan" && name != "addressPlan" {
		return nil
	}
	return append([]templates.Option{{Text: "none: calls are refused"}}, wording.PlanOptions(c.set)...)
}

func (c *AllCallers) fill(context.Context, *Services) error {
	b, p := &c.Body, policydoc.PolicyOf(c.set)
	b.Limits, b.Deny, b.Allow, b.Exempt = c.beside(p.Limits), p.Deny, p.Allow, p.Exempt
	b.TokenPlan, b.AddressPlan = p.TokenPlan, p.AddressPlan
	return nil
}

func (c *AllCallers) apply(next *policy.Set) error {
	b, p := &c.Body, policydoc.Policy{}
	p.Limits, p.Deny, p.Allow, p.Exempt = b.Limits, b.Deny, b.Allow, b.Exempt
	set, fields := p.Set(next)
	next.Limits, next.Deny, next.Allow, next.Exempt = set.Limits, set.Deny, set.Allow, set.Exempt
	next.TokenPlan, next.AddressPlan = b.TokenPlan, b.AddressPlan
	return policy.Invalid(fields)
}

func (*AllCallers) part() string { return "-" } // its fields have the paths of the set
func (*AllCallers) done() string { return "Saved limits for all callers." }

// RequiredQuery is the reason of a change without a body that needs one.
type RequiredQuery struct {
	Reason string `query:"reason" minLength:"1" maxLength:"200" label:"Reason" sample:"Why, with a link if possible" doc:"Reason for the audit: up to 200 characters"`
}

// PutPolicy replaces the policy.
type PutPolicy struct {
	OnPolicy
	ReasonQuery
	Body policydoc.Policy
}

func (c *PutPolicy) apply(next *policy.Set) error {
	p := c.Body
	p.Plans, p.Routes = slices.Clone(p.Plans), slices.Clone(p.Routes)
	for i := range p.Plans {
		p.Plans[i].Name = strings.TrimSpace(p.Plans[i].Name)
	}
	for i := range p.Routes {
		p.Routes[i].Name = strings.TrimSpace(p.Routes[i].Name)
	}
	p.Version = 0 // If-Match decides instead
	set, fields := p.Set(next)
	*next = set
	return policy.Invalid(fields)
}

func (*PutPolicy) part() string { return "" }
func (*PutPolicy) done() string { return "Saved the policies." }

// ImportPolicy replaces the policy by a file.
type ImportPolicy struct {
	OnPolicy
	ReasonQuery
	ContentType string `header:"Content-Type" hidden:"true"`
	RawBody     []byte `contentType:"application/yaml" field:"yaml" rows:"20" label:"Policy file (YAML)"`
}

// Missing is OnPolicy.Missing. The version in the file is one too.
func (c *ImportPolicy) Missing() error {
	switch kind, _, _ := mime.ParseMediaType(c.ContentType); kind {
	case "application/yaml", "application/x-yaml", "text/yaml":
	default:
		return rest.NewProblem(http.StatusUnsupportedMediaType,
			"The type of the body is not supported: send application/yaml.")
	}
	file, err := policydoc.Read(c.RawBody)
	if err == nil && c.IfMatch.IfMatch == "" && file.Version > 0 && !c.DryRun {
		c.IfMatch.IfMatch = rest.ETag(file.Version)
	}
	if err != nil {
		return err
	}
	return c.OnPolicy.Missing()
}

func (c *ImportPolicy) apply(next *policy.Set) error {
	file, err := policydoc.Read(c.RawBody)
	if err != nil {
		return err
	}
	set, err := file.Edit(next)
	if err != nil {
		return err
	}
	*next = *set
	return nil
}

func (*ImportPolicy) part() string { return "" }

func (c *ImportPolicy) done() string {
	n := len(changes.OfPolicy(c.set, c.next))
	if n == 1 {
		return "Imported 1 change."
	}
	return "Imported " + page.Number(int64(n)) + " changes."
}

// Preview is OnPolicy.Preview. A page refuses a file of another version.
func (c *ImportPolicy) preview(ctx context.Context, s *Services) (*templates.Preview, error) {
	p, err := c.OnPolicy.preview(ctx, s)
	if err != nil {
		return nil, err
	}
	file, err := policydoc.Read(c.RawBody)
	if err == nil && file.Version != 0 && file.Version != c.set.Version {
		err = fieldError("yaml", fmt.Sprintf("has version %d, the current version is %d. Nothing was saved. "+
			"Review the changes, then remove the version line to import anyway", file.Version, c.set.Version))
	}
	return p, err
}
