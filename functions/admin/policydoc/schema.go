// Package policydoc is the policy set as a document: the API reads and writes it as JSON,
// policy files as YAML, with limits in words ("100 per 10 seconds"). It reads a document
// into a policy.Set, writes one of a Set and says what would change. Pages, files and
// differences use the same words for a limit.
package policydoc

import (
	"tidegate/internal/limiter"
	"tidegate/internal/policy"
)

// Policy is everything that is configured, except the keys.
type Policy struct {
	Version     int64    `json:"version,omitempty" yaml:"version,omitempty" readOnly:"true" doc:"As in the ETag; If-Match counts, not this"`
	Plans       []Plan   `json:"plans" yaml:"plans,omitempty" maxItems:"500"`
	Routes      []Rule   `json:"routes,omitempty" yaml:"routes,omitempty" maxItems:"500"`
	PerIP       *Scope   `json:"perIP,omitempty" yaml:"perIP,omitempty" doc:"Limits per client address"`
	Global      *Scope   `json:"global,omitempty" yaml:"global,omitempty" doc:"Global limits"`
	Deny        []string `json:"deny,omitempty" yaml:"deny,omitempty" maxItems:"500" doc:"Networks whose callers are refused" example:"[\"203.0.113.0/24\"]"`
	Allow       []string `json:"allow,omitempty" yaml:"allow,omitempty" maxItems:"500" doc:"When there are any, callers from elsewhere are refused"`
	Exempt      []string `json:"exempt,omitempty" yaml:"exempt,omitempty" maxItems:"500" doc:"Networks whose callers are not limited"`
	TokenPlan   string   `json:"tokenPlan,omitempty" yaml:"tokenPlan,omitempty" maxLength:"100" doc:"Default plan for JWTs"`
	AddressPlan string   `json:"addressPlan,omitempty" yaml:"addressPlan,omitempty" maxLength:"100" doc:"Default plan for addresses"`
	Bans        *Bans    `json:"bans,omitempty" yaml:"bans,omitempty"`
}

// Plan is a named list of limits that keys have. JSON identifies it by Number, YAML by
// name: Was is the name of a plan that is renamed.
type Plan struct {
	Number    int             `json:"number,omitempty" yaml:"-" minimum:"0" doc:"Identifies the plan for ever; left out, a plan goes by its name"`
	Name      string          `json:"name" yaml:"name" minLength:"1" maxLength:"100"`
	Was       string          `json:"-" yaml:"was,omitempty"`
	Limits    []Limit         `json:"limits" yaml:"limits" minItems:"1" maxItems:"8"`
	Mode      policy.Mode     `json:"mode,omitempty" yaml:"mode,omitempty" enum:"enforce,shadow,off"`
	Degraded  policy.Degraded `json:"degraded,omitempty" yaml:"degraded,omitempty" enum:"closed,open,local" doc:"What becomes of calls while Valkey is away"`
	Share     int             `json:"share,omitempty" yaml:"share,omitempty" minimum:"0" maximum:"100" doc:"Percent of limits (local only) that one environment admits"`
	Candidate []Limit         `json:"candidate,omitempty" yaml:"candidate,omitempty" maxItems:"8" doc:"Candidate limits, which deny nothing"`
	PerGroup  []Limit         `json:"perGroup,omitempty" yaml:"perGroup,omitempty" maxItems:"8" doc:"Limits on all keys of one group together"`
	Allow     []Pattern       `json:"allow,omitempty" yaml:"allow,omitempty" maxItems:"20" doc:"Routes that the plan's keys may call; left out, all"`
}

// Rule is a route rule.
type Rule struct {
	Name      string      `json:"name" yaml:"name" minLength:"1" maxLength:"100"`
	Pattern   Pattern     `json:"pattern" yaml:"pattern"`
	Cost      *int64      `json:"cost,omitempty" yaml:"cost,omitempty" minimum:"0" maximum:"1000000000" doc:"1 when it is left out; a call of cost 0 is not limited"`
	Settle    bool        `json:"settle,omitempty" yaml:"settle,omitempty" doc:"The cost is settled afterwards"`
	SettleMax int64       `json:"settleMax,omitempty" yaml:"settleMax,omitempty" minimum:"1" maximum:"1000000000" doc:"Most a settlement charges to limits that callers share, cost at least; 10 times the cost when left out"`
	Mode      policy.Mode `json:"mode,omitempty" yaml:"mode,omitempty" enum:"enforce,shadow,off"`
	PerKey    []Limit     `json:"perKey,omitempty" yaml:"perKey,omitempty" maxItems:"8"`
	PerIP     []Limit     `json:"perIP,omitempty" yaml:"perIP,omitempty" maxItems:"8"`
	Shared    []Limit     `json:"shared,omitempty" yaml:"shared,omitempty" maxItems:"8"`

	SharedLease string `json:"sharedLease,omitempty" yaml:"sharedLease,omitempty" maxLength:"40" example:"1s" doc:"Of shared, as lease of a scope"`
}

// Pattern says which calls a rule is for. What is left out matches any. YAML has it as
// people know routes, "GET /orders/{id}", or field by field.
type Pattern struct {
	API    string `json:"api,omitempty" yaml:"api,omitempty" maxLength:"64"`
	Stage  string `json:"stage,omitempty" yaml:"stage,omitempty" maxLength:"128"`
	Method string `json:"method,omitempty" yaml:"method,omitempty" maxLength:"16" doc:"GET covers HEAD unless a rule names HEAD; ANY is every method"`
	Path   string `json:"path,omitempty" yaml:"path,omitempty" maxLength:"512" example:"/orders/{id}"`
}

// Scope is limits on something other than a caller.
type Scope struct {
	Limits []Limit     `json:"limits,omitempty" yaml:"limits,omitempty" maxItems:"8"`
	Lease  string      `json:"lease,omitempty" yaml:"lease,omitempty" maxLength:"40" example:"1s" doc:"Of global alone: how long environments use a share without asking; 10ms to a quarter of the shortest window, logs only. Left out, every call asks"`
	Mode   policy.Mode `json:"mode,omitempty" yaml:"mode,omitempty" enum:"enforce,shadow,off"`
}

// Bans is the policy of automatic bans.
type Bans struct {
	Denials int64  `json:"denials" yaml:"denials" minimum:"2" maximum:"100000"`
	Window  string `json:"window" yaml:"window" maxLength:"40" example:"1m"`
	Base    string `json:"base" yaml:"base" maxLength:"40" doc:"How long the first ban is; each further one is twice as long" example:"10m"`
	Cap     string `json:"cap" yaml:"cap" maxLength:"40" doc:"The longest ban" example:"1d"`
}

// Limit is at most so many requests in any window. YAML has it in words, or field by
// field where words would lose something.
type Limit limiter.Text
