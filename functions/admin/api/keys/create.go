package keys

import (
	"cmp"
	"context"
	"errors"
	"net/http"
	"strings"
	"time"

	"tidegate/functions/admin/api/rest"
	"tidegate/functions/admin/api/schema"
	"tidegate/functions/admin/app"
	"tidegate/functions/admin/auth"
	"tidegate/functions/admin/policydoc"
	"tidegate/internal/apikey"
	"tidegate/internal/limits"
	"tidegate/internal/policy"
	"tidegate/internal/registry"
)

type (
	newKeyInput struct {
		Repeatable
		Body struct {
			Name    string              `json:"name" minLength:"1" maxLength:"100"`
			Plan    string              `json:"plan" minLength:"1" maxLength:"100"`
			Env     string              `json:"env,omitempty" pattern:"^[a-z0-9]{1,16}$" doc:"Environment in the key's prefix; default live"`
			Tags    []string            `json:"tags,omitempty" maxItems:"10"`
			Group   string              `json:"group,omitempty" maxLength:"64" doc:"Group: letters, digits and . _ - : @"`
			Expires *time.Time          `json:"expires,omitempty"`
			Opens   []policydoc.Pattern `json:"opens,omitempty" maxItems:"20" doc:"Routes that the key may call, among those of its plan"`
			Billing limits.Billing      `json:"billing,omitempty" doc:"When the billing months of the key begin"`
			Value   string              `json:"value,omitempty" doc:"Value of a key from another system; needs FOREIGN_KEYS. Only its hash is stored, and no response contains it"`
			Reason  string              `json:"reason,omitempty" maxLength:"200"`
		}
	}
	secretOutput struct {
		Location string `header:"Location"`
		ETag     string `header:"ETag"`
		Body     struct {
			Key    Key    `json:"key"`
			Secret string `json:"secret,omitempty" doc:"Only in this response; absent if the request gave the value"`
		}
	}
)

// defaultEnv is the environment of a new key that names none.
const defaultEnv = "live"

func (ops operations) createKey(ctx context.Context, in *newKeyInput) (*secretOutput, error) {
	b := in.Body
	if err := expiryProblem(b.Expires); err != nil {
		return nil, err
	}
	if b.Env == "" {
		b.Env = defaultEnv
	}
	n := policy.NewKey{Name: b.Name, Env: b.Env, Plan: b.Plan, Tags: b.Tags, Group: b.Group,
		Expires: schema.TimeOf(b.Expires), Opens: policydoc.ToPatterns(b.Opens), Billing: b.Billing,
		Value: b.Value}
	edit := app.NewEdit(ctx, b.Reason)
	edit.Repeat = in.repeat(ctx, b)
	k, secret, err := ops.keys.Create(ctx, n, edit)
	switch {
	case errors.Is(err, policy.ErrConflict) && b.Value != "":
		p := rest.NewProblem(http.StatusConflict,
			"Key "+k.ID+" already has this value. Nothing was changed.")
		p.GetHeaders().Set("Location", keyAddress(k))
		return nil, p
	case err != nil:
		return nil, err
	}
	return withSecret(k, secret), nil
}

func keyAddress(k policy.Key) string { return rest.Prefix + "/keys/" + k.ID }

// withSecret answers with a key and its new secret. It omits a secret that the caller
// gave.
func withSecret(k policy.Key, secret apikey.Secret) *secretOutput {
	out := &secretOutput{Location: keyAddress(k), ETag: rest.ETag(k.Version)}
	out.Body.Key = keyOf(k)
	if !secret.Foreign() {
		out.Body.Secret = secret.Reveal()
	}
	return out
}

const maxImportBody = 512 << 10 // bytes; fits 100 keys of the maximum size

type (
	importInput struct {
		IdempotencyKey string `header:"Idempotency-Key" hidden:"true"`
		Body           struct {
			Keys   []ImportedKey `json:"keys" minItems:"1" maxItems:"100"`
			Reason string        `json:"reason,omitempty" maxLength:"200"`
		}
	}
	importOutput struct {
		Body struct {
			Results []ImportResult `json:"results" doc:"Results of the keys, in order"`
		}
	}
)

// ImportedKey is a key of another system.
type ImportedKey struct {
	Name   string   `json:"name" minLength:"1" maxLength:"100"`
	Plan   string   `json:"plan" minLength:"1" maxLength:"100"`
	Env    string   `json:"env,omitempty" pattern:"^[a-z0-9]{1,16}$" doc:"Environment in the prefix of a key without a value; default live"`
	Tags   []string `json:"tags,omitempty" maxItems:"10"`
	Group  string   `json:"group,omitempty" maxLength:"64" doc:"Group: letters, digits and . _ - : @"`
	Value  string   `json:"value,omitempty" doc:"Value of a key from another system; if omitted, a new secret is created"`
	Status string   `json:"status,omitempty" enum:"active,revoked" doc:"Status of the key from its creation on"`
}

// ImportResult is the result of importing one key.
type ImportResult struct {
	State   string `json:"state" enum:"created,exists,failed" doc:"exists: a key with this value exists and was not changed"`
	ID      string `json:"id,omitempty"`
	Secret  string `json:"secret,omitempty" doc:"Secret of a key created without a value; only in this response"`
	Message string `json:"message,omitempty" doc:"Why the key was not created"`
}

func (ops operations) registerImport(group rest.Group) {
	rest.Register(group, rest.Operation{
		Pattern: "POST /import", ID: "import-keys", Role: auth.Editor, MaxBody: maxImportBody,
		Summary: "Create up to 100 keys",
		Details: "All keys are created in one change. A key with a value is created once, even if it is " +
			"sent twice.",
	}, ops.importKeys)
}

func (ops operations) importKeys(ctx context.Context, in *importInput) (*importOutput, error) {
	keys := make([]policy.NewKey, len(in.Body.Keys))
	for i, k := range in.Body.Keys {
		if in.IdempotencyKey != "" && k.Value == "" {
			return nil, rest.Invalid("header.Idempotency-Key",
				"is not taken for new secrets here: create keys without values one by one")
		}
		keys[i] = policy.NewKey{Name: strings.TrimSpace(k.Name), Plan: k.Plan, Env: cmp.Or(k.Env, defaultEnv),
			Tags: k.Tags, Group: k.Group, Value: k.Value, Status: policy.Status(k.Status)}
	}
	created, err := ops.keys.CreateMany(ctx, keys, app.NewEdit(ctx, in.Body.Reason))
	if err != nil {
		return nil, err
	}
	out := &importOutput{}
	for _, c := range created {
		result, err := importResult(c)
		if err != nil {
			return nil, err
		}
		out.Body.Results = append(out.Body.Results, result)
	}
	return out, nil
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
