package command

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/netip"
	"strings"
	"time"

	"tidegate/functions/admin/api/keys"
	"tidegate/functions/admin/api/rest"
	"tidegate/functions/admin/api/schema"
	"tidegate/functions/admin/app"
	"tidegate/functions/admin/dashboard/page"
	"tidegate/functions/admin/dashboard/wording"
	"tidegate/functions/admin/policydoc"
	"tidegate/internal/apikey"
	"tidegate/internal/limits"
	"tidegate/internal/policy"
	"tidegate/internal/registry"
	"tidegate/web/templates"
)

// Rotate gives a key a new secret. The previous one works until its grace period ends.
type Rotate struct {
	OnKey
	Repeatable
	rest.AcceptQuery
	Body struct {
		Grace string `json:"grace" maxLength:"40" label:"Previous secret works for" example:"24h" doc:"How long the previous secret stays valid: 0s to 90d"`
		OptionalReason
	}

	secret   apikey.Secret
	repeated bool
}

var graces = []templates.Option{
	{Value: "0s", Text: "none: stops working now"},
	{Value: "1h", Text: "1 hour"},
	{Value: "24h", Text: "1 day"},
	{Value: "168h", Text: "7 days"},
	{Value: "720h", Text: "30 days"},
	{Value: "2160h", Text: "90 days"},
}

// load implements Command. A repeated request finds what the first one left.
func (c *Rotate) load(ctx context.Context, s *Services) error {
	if err := c.OnKey.load(ctx, s); err != nil || c.IdempotencyKey == "" {
		return err
	}
	e := app.NewEdit(ctx, "")
	e.Repeat = c.repeat(ctx, c)
	k, secret, err := s.Keys.Rotated(ctx, c.ID, e)
	if errors.Is(err, policy.ErrNotFound) {
		return nil
	}
	c.key, c.secret, c.repeated = k, secret, err == nil
	return err
}

func (c *Rotate) ready() error {
	if err := c.OnKey.ready(); err != nil || c.key.Kind == policy.APIKey {
		return err
	}
	return &Refusal{Status: http.StatusConflict, Heading: "This caller has no API key",
		Advice: "It has no secret to rotate.", Path: c.subject().Path}
}

// Version is rest.IfMatch.Version, but for a repeated request any version is current.
func (c *Rotate) Version(current int64) (int64, error) {
	if c.repeated {
		return current, nil
	}
	return c.IfMatch.Version(current)
}

func (*Rotate) options(name string) []templates.Option {
	if name == "grace" {
		return graces
	}
	return nil
}

func (c *Rotate) fill(context.Context, *Services) error {
	c.Body.Grace = "24h"
	return nil
}

func (c *Rotate) lead(ctx context.Context, s *Services) ([]string, error) {
	return c.previousUse(ctx, s)
}

// warnings implements warner: a key has at most two secrets.
func (c *Rotate) warnings(ctx context.Context, s *Services) ([]string, error) {
	if c.repeated || !hasPrevious(c.key) {
		return nil, nil
	}
	name := "The previous secret"
	if s.Changes != nil {
		for _, e := range s.Changes.History(ctx, c.key.ID, c.key.Version) {
			if e.Action == registry.KeyRotate {
				name += ", replaced by " + page.Clip(e.By.Name, page.MaxName) + " on " +
					page.Instant(e.Time).Text + ","
				break
			}
		}
	}
	return []string{name + " works until " + page.Instant(c.key.Grace).Text + ". Rotating expires it now."}, nil
}

func (c *Rotate) do(ctx context.Context, s *Services, e app.Edit) (Result, error) {
	if c.repeated {
		return Result{}, nil
	}
	grace := time.Duration(0)
	if c.Body.Grace != "0s" && c.Body.Grace != "0" {
		var err error
		if grace, err = limits.ParseWindow(c.Body.Grace); err != nil {
			return Result{}, fieldError("grace", "must be 0s to 90d, such as 24h")
		}
	}
	before, version := c.key, c.at
	if version == registry.AnyVersion {
		version = before.Version
	}
	saved, secret, err := s.Keys.Rotate(ctx, c.ID, version, grace, e)
	result, err := c.saved(before, saved, registry.KeyRotate, err)
	if err == nil {
		c.secret, result.Secret, result.SecretOf = secret, secret.Reveal(), saved.ID
		result.Path = "/secrets/" + saved.ID
	}
	return result, err
}

// hasPrevious reports whether the secret before the last rotation still works.
func hasPrevious(k policy.Key) bool { return k.Grace.After(time.Now()) }

// previousUse says when the previous secret of a key was last used, if it still works.
func (c *OnKey) previousUse(ctx context.Context, s *Services) ([]string, error) {
	if !hasPrevious(c.key) {
		return nil, nil
	}
	at, err := app.OldSecretUsed(ctx, s.Records, c.key.ID, time.Now())
	switch {
	case err != nil:
		return nil, err
	case at.IsZero():
		return []string{"Previous secret not used in 30 days."}, nil
	}
	return []string{"Previous secret last used " + page.Instant(at).Text + "."}, nil
}

// ExpireSecret makes calls with the previous secret get 401.
type ExpireSecret struct {
	OnKey
	OptionalBody
}

func (c *ExpireSecret) lead(ctx context.Context, s *Services) ([]string, error) {
	if !hasPrevious(c.key) {
		return []string{"No previous secret is valid."}, nil
	}
	return c.previousUse(ctx, s)
}

func (c *ExpireSecret) do(ctx context.Context, s *Services, e app.Edit) (Result, error) {
	before := c.key
	saved, err := s.Keys.ExpireSecret(ctx, c.ID, c.at, e)
	return c.saved(before, saved, registry.KeyExpire, err)
}

// Secret is a key with its new secret.
type Secret struct {
	Location string `header:"Location"`
	ETag     string `header:"ETag"`
	Body     struct {
		Key    keys.Key `json:"key"`
		Secret string   `json:"secret,omitempty" doc:"Only in this response; absent if the request gave the value"`
	}
}

// secretOf answers with a key and its new secret, without one that the caller gave.
func secretOf(k policy.Key, secret apikey.Secret) *Secret {
	out := &Secret{Location: keyURL(k), ETag: rest.ETag(k.Version)}
	out.Body.Key = keys.KeyOf(k)
	if !secret.Foreign() {
		out.Body.Secret = secret.Reveal()
	}
	return out
}

func keyURL(k policy.Key) string { return rest.Prefix + "/keys/" + k.ID }

// NewKey is what a new key may be made with.
type NewKey struct {
	Name    string              `json:"name" minLength:"1" maxLength:"100" label:"Name" sample:"customer or program"`
	Plan    string              `json:"plan" minLength:"1" maxLength:"100" label:"Plan"`
	Env     string              `json:"env,omitempty" pattern:"^[a-z0-9]{1,16}$" label:"Environment (key prefix)" sample:"live" doc:"Environment in the key's prefix; default live"`
	Tags    []string            `json:"tags,omitempty" maxItems:"10" most:"1000" list:"tags" label:"Tags, separated by commas" sample:"team-a, beta"`
	Group   string              `json:"group,omitempty" maxLength:"64" label:"Group" sample:"none" hint:"Keys in a group share their plan's limits per group." doc:"Group: letters, digits and . _ - : @"`
	Billing limits.Billing      `json:"billing,omitempty" label:"Billing day" sample:"1 (UTC)" hint:"Limits per billing month begin on it: a day of the month, such as 15 (Europe/Berlin)." doc:"When the billing months of the key begin"`
	Value   string              `json:"value,omitempty" secret:"yes" label:"Existing key value" sample:"empty to generate one" hint:"From another system. It is hashed and never shown." doc:"Value of a key from another system; needs FOREIGN_KEYS. Only its hash is stored, and no response contains it"`
	Expires *time.Time          `json:"expires,omitempty" label:"Expires" never:"never expires"`
	Opens   []policydoc.Pattern `json:"opens,omitempty" maxItems:"20" rows:"3" label:"Open routes" sample:"GET /orders/*" hint:"One pattern a line. The plan must open them too. Leave blank for all." doc:"Routes that the key may call, among those of its plan"`
}

// defaultEnv is the environment of a new key that names none.
const defaultEnv = "live"

// policyKey returns the key to make. Bad input is a *policy.InvalidError.
func (n NewKey) policyKey() (policy.NewKey, error) {
	env := strings.TrimSpace(n.Env)
	if env == "" {
		env = defaultEnv
	}
	late := ""
	if n.Expires != nil {
		late = future(*n.Expires, "to block a key now, revoke it")
	}
	return policy.NewKey{Name: strings.TrimSpace(n.Name), Env: env, Plan: n.Plan, Tags: n.Tags, Group: n.Group,
		Expires: schema.TimeOf(n.Expires), Opens: policydoc.ToPatterns(n.Opens), Billing: n.Billing,
		Value: n.Value,
	}, fieldError("expires", late)
}

// CreateKey creates a key.
type CreateKey struct {
	creation
	Repeatable
	Body struct {
		NewKey
		OptionalReason
	}

	set     *policy.Set
	foreign bool // values of other systems are taken
	key     policy.Key
	secret  apikey.Secret
}

func (c *CreateKey) load(ctx context.Context, s *Services) (err error) {
	c.foreign = s.Keys.TakesForeign()
	c.set, err = s.Keys.Set(ctx)
	return err
}

func (*CreateKey) subject() Subject {
	return Subject{Path: "/keys", Trail: []templates.Choice{{Text: "Keys", Address: "/keys"}}}
}

func (c *CreateKey) hides(name string) bool { return name == "value" && c.set != nil && !c.foreign }

func (c *CreateKey) options(name string) []templates.Option {
	if name != "plan" {
		return nil
	}
	return wording.PlanOptions(c.set)
}

func (c *CreateKey) fill(context.Context, *Services) error {
	c.Body.Env = defaultEnv
	return nil
}

func (c *CreateKey) lead(context.Context, *Services) ([]string, error) {
	if len(c.set.Plans) == 0 {
		return []string{"Create a plan under Policies first."}, nil
	}
	return nil, nil
}

func (c *CreateKey) do(ctx context.Context, s *Services, e app.Edit) (Result, error) {
	n, err := c.Body.policyKey()
	if err != nil {
		return Result{}, err
	}
	c.key, c.secret, err = s.Keys.Create(ctx, n, e)
	path := "/keys/" + c.key.ID
	switch {
	case errors.Is(err, policy.ErrConflict) && n.Value != "":
		return Result{}, &Refusal{Status: http.StatusConflict, Heading: "Key " + c.key.ID + " already has this value",
			Advice: "Nothing was changed.", Path: path}
	case err != nil:
		return Result{}, err
	case c.secret.Foreign():
		return Result{Done: "Key created: “" + page.Clip(c.key.Name, page.MaxName) + "”.", Path: path}, nil
	}
	return Result{Secret: c.secret.Reveal(), SecretOf: c.key.ID, Path: "/secrets/" + c.key.ID}, nil
}

// ImportKeys creates many keys, with their values in another system.
type ImportKeys struct {
	creation
	IdempotencyKey string `header:"Idempotency-Key" hidden:"true"`
	Body           struct {
		Keys []ImportedKey `json:"keys" minItems:"1" maxItems:"100"`
		OptionalReason
	}

	results []ImportResult
}

// ImportedKey is a key of another system.
type ImportedKey struct {
	NewKey
	Status string `json:"status,omitempty" enum:"active,revoked" doc:"Status of the key from its creation on"`
}

// ImportResult is the result of importing one key.
type ImportResult struct {
	State   string `json:"state" enum:"created,exists,failed" doc:"exists: a key with this value exists and was not changed"`
	ID      string `json:"id,omitempty"`
	Secret  string `json:"secret,omitempty" doc:"Secret of a key created without a value; only in this response"`
	Message string `json:"message,omitempty" doc:"Why the key was not created"`
}

// Imported is the answer to ImportKeys.
type Imported struct {
	Body struct {
		Results []ImportResult `json:"results" doc:"Results of the keys, in order"`
	}
}

func (c *ImportKeys) ready() error {
	for _, k := range c.Body.Keys {
		if c.IdempotencyKey != "" && k.Value == "" {
			return rest.Invalid("header.Idempotency-Key",
				"is not taken for new secrets here: create keys without values one by one")
		}
	}
	return nil
}

func (*ImportKeys) subject() Subject { return Subject{} }

func (c *ImportKeys) do(ctx context.Context, s *Services, e app.Edit) (Result, error) {
	list := make([]policy.NewKey, len(c.Body.Keys))
	for i, k := range c.Body.Keys {
		var err error
		if list[i], err = k.policyKey(); err != nil {
			return Result{}, below(fmt.Sprintf("keys[%d].", i), err)
		}
		list[i].Status = policy.Status(k.Status)
	}
	created, err := s.Keys.CreateMany(ctx, list, e)
	if err != nil {
		return Result{}, err
	}
	for _, made := range created {
		result, err := importResult(made)
		if err != nil {
			return Result{}, err
		}
		c.results = append(c.results, result)
	}
	return Result{}, nil
}

func importResult(c registry.Created) (ImportResult, error) {
	invalid, bad := errors.AsType[*policy.InvalidError](c.Err)
	switch {
	case bad:
		field := invalid.Fields[0]
		return ImportResult{State: "failed", Message: field.Field + " " + field.Message}, nil
	case errors.Is(c.Err, policy.ErrConflict):
		return ImportResult{State: "exists", ID: c.Key.ID}, nil
	case c.Err != nil:
		return ImportResult{}, c.Err
	}
	result := ImportResult{State: "created", ID: c.Key.ID}
	if !c.Key.Foreign {
		result.Secret = c.Secret.Reveal()
	}
	return result, nil
}

// Register creates the record of a caller without an API key: the holder of a JWT, or an
// address. With a record, it can have an override or a ban.
type Register struct {
	creation
	Repeatable
	rest.AcceptQuery
	Body struct {
		Kind    string         `json:"kind" enum:"token,address" label:"Caller type"`
		ID      string         `json:"id,omitempty" maxLength:"22" label:"Caller id" hint:"Leave blank to use the fields below." doc:"Id of the caller, as in usage and denials. In place of it: issuer and holder, or network"`
		Issuer  string         `json:"issuer,omitempty" maxLength:"500" label:"Token issuer (iss)" sample:"https://issuer.example/" doc:"For a JWT: its claim iss"`
		Holder  string         `json:"holder,omitempty" maxLength:"500" label:"Token subject" sample:"ada" doc:"For a JWT: the claim that identifies the caller, usually sub"`
		Network string         `json:"network,omitempty" maxLength:"50" label:"Address or network" sample:"203.0.113.7" doc:"For an address: the network that it counts as, or an address" example:"203.0.113.7/32"`
		Name    string         `json:"name" minLength:"1" maxLength:"100" label:"Name" sample:"customer or program"`
		Over    *keys.Override `json:"override,omitempty"`
		Why
	}
	Next string `field:"next" label:"Action"`

	key policy.Key
}

func (*Register) subject() Subject {
	return Subject{Path: "/callers", Trail: []templates.Choice{{Text: "Callers", Address: "/callers"}}}
}

func (*Register) options(name string) []templates.Option {
	switch name {
	case "kind":
		return []templates.Option{{Value: string(policy.Token), Text: "token holder (JWT)"},
			{Value: string(policy.Address), Text: "client address"}}
	case "next":
		return []templates.Option{{Value: "limits", Text: "override its limits"}, {Value: "ban", Text: "ban it"}}
	}
	return nil
}

func (c *Register) warnings(ctx context.Context, s *Services) ([]string, error) {
	if c.Body.Over == nil {
		return nil, nil
	}
	o, err := c.Body.Over.Read()
	if err != nil {
		return nil, below("override.", err)
	}
	set, err := s.Keys.Set(ctx)
	if err != nil {
		return nil, err
	}
	return app.OverrideWarnings(set, o.Limits), nil
}

// do implements Command. From a page it leads to the chosen action, also if the caller has a
// record.
func (c *Register) do(ctx context.Context, s *Services, e app.Edit) (Result, error) {
	id, err := c.callerID(s.Keys)
	if err != nil {
		return Result{}, err
	}
	var o *policy.Override
	if c.Body.Over != nil {
		if o, err = c.Body.Over.Read(); err != nil {
			return Result{}, below("override.", err)
		}
	}
	c.key, err = s.Keys.Adopt(ctx, policy.Kind(c.Body.Kind), id, c.Body.Name, o, e)
	next := "/keys/" + id + "/" + c.Next
	switch {
	case errors.Is(err, policy.ErrConflict) && c.Next != "":
		return Result{Done: "This caller already has a record.", Path: next}, nil
	case errors.Is(err, policy.ErrConflict):
		return Result{}, &Refusal{Status: http.StatusConflict, Heading: "This caller already has a record",
			Advice: "See " + rest.Prefix + "/keys/" + id + ".", Path: "/keys/" + id}
	}
	return Result{Done: "Record created: “" + page.Clip(c.key.Name, page.MaxName) + "”. No limits changed yet.",
		Path: next}, err
}

// callerID returns the id by which checks know the caller.
func (c *Register) callerID(known *app.Registry) (string, error) {
	b := &c.Body
	switch {
	case b.ID != "":
		if !app.IsCaller(b.ID) {
			return "", fieldError("id", "must be the id of a caller without an API key: 22 letters, digits, - or _")
		}
		return b.ID, nil
	case b.Kind == string(policy.Address):
		network, ok := parseNetwork(strings.TrimSpace(b.Network))
		if !ok {
			return "", fieldError("network",
				"must be an address such as 203.0.113.7, or a network such as 2001:db8:1:2::/64")
		}
		return known.AddressCaller(network), nil
	case b.Issuer == "":
		return "", fieldError("issuer", "and holder are required, unless id is given")
	case b.Holder == "":
		return "", fieldError("holder", "must be the claim that identifies callers, usually sub")
	}
	return known.TokenCaller(b.Issuer, b.Holder), nil
}

// parseNetwork parses a network, or an address, which it masks to the check function's
// default prefix length.
func parseNetwork(text string) (netip.Prefix, bool) {
	if prefix, err := netip.ParsePrefix(text); err == nil {
		return prefix.Masked(), !prefix.Addr().Is4In6()
	}
	_, network, ok := app.ParseAddress(text)
	return network, ok
}
