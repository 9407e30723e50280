package keys

import (
	"context"
	"errors"
	"net/http"
	"time"

	"tidegate/functions/admin/api/rest"
	"tidegate/functions/admin/api/schema"
	"tidegate/functions/admin/app"
	"tidegate/functions/admin/auth"
	"tidegate/functions/admin/policydoc"
	"tidegate/internal/apikey"
	"tidegate/internal/limits"
	"tidegate/internal/policy"
)

type (
	newKeyInput struct {
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
	k, secret, err := ops.keys.Create(ctx, n, app.NewEdit(ctx, b.Reason))
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

const (
	importTime    = 1200 * time.Millisecond // a request creates no further key after it
	maxImportBody = 512 << 10               // bytes; fits 100 keys of the maximum size
)

type (
	importInput struct {
		Body struct {
			Keys   []ImportedKey `json:"keys" minItems:"1" maxItems:"100"`
			Reason string        `json:"reason,omitempty" maxLength:"200"`
		}
	}
	importOutput struct {
		Body struct {
			Results []ImportResult `json:"results" doc:"Results of the first keys, in order; send the other keys again"`
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
		Details: "A request works for about one second; the response names the keys that it created. A key " +
			"with a value is created once, even if it is sent twice.",
	}, ops.importKeys)
}

func (ops operations) importKeys(ctx context.Context, in *importInput) (*importOutput, error) {
	out := &importOutput{}
	edit, ends := app.NewEdit(ctx, in.Body.Reason), time.Now().Add(importTime)
	for _, k := range in.Body.Keys {
		if len(out.Body.Results) > 0 && time.Now().After(ends) {
			break
		}
		result, err := ops.importKey(ctx, k, edit)
		if err != nil && len(out.Body.Results) > 0 {
			break // the next request reports the error
		}
		if err != nil {
			return nil, err
		}
		out.Body.Results = append(out.Body.Results, result)
	}
	return out, nil
}

// importKey creates a key. It returns only errors that every other key would get too.
func (ops operations) importKey(ctx context.Context, k ImportedKey, edit app.Edit) (ImportResult, error) {
	n := policy.NewKey{Name: k.Name, Plan: k.Plan, Env: k.Env, Tags: k.Tags, Group: k.Group, Value: k.Value,
		Status: policy.Status(k.Status)}
	if n.Env == "" {
		n.Env = defaultEnv
	}
	created, secret, err := ops.keys.Create(ctx, n, edit)
	var invalid *policy.InvalidError
	switch {
	case errors.As(err, &invalid):
		field := invalid.Fields[0]
		return ImportResult{State: "failed", Message: field.Field + " " + field.Message}, nil
	case errors.Is(err, policy.ErrConflict) && k.Value != "":
		return ImportResult{State: "exists", ID: created.ID}, nil
	case err != nil:
		return ImportResult{}, err
	}
	result := ImportResult{State: "created", ID: created.ID}
	if !secret.Foreign() {
		result.Secret = secret.Reveal()
	}
	return result, nil
}
