package command

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"time"

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
	return policy.NewKey{
		Name:    strings.TrimSpace(n.Name),
		Env:     env,
		Plan:    n.Plan,
		Tags:    n.Tags,
		Group:   n.Group,
		Expires: schema.TimeOf(n.Expires),
		Opens:   policydoc.ToPatterns(n.Opens),
		Billing: n.Billing,
		Value:   n.Value,
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
		return Result{}, &Refusal{Status: http.StatusConflict,
			Heading: "Key " + c.key.ID + " already has this value",
			Advice:  "Nothing was changed.", Path: path}
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
