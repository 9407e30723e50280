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
	"tidegate/internal/policy"
)

type (
	newKeyInput struct {
		Body struct {
			Name    string              `json:"name" minLength:"1" maxLength:"100"`
			Plan    string              `json:"plan" minLength:"1" maxLength:"100"`
			Env     string              `json:"env,omitempty" pattern:"^[a-z0-9]{1,16}$" doc:"Part of the key's text; live when it is left out"`
			Tags    []string            `json:"tags,omitempty" maxItems:"10"`
			Group   string              `json:"group,omitempty" maxLength:"64" doc:"As in a key: letters, digits and . _ - : @"`
			Expires *time.Time          `json:"expires,omitempty"`
			Allow   []policydoc.Pattern `json:"allow,omitempty" maxItems:"20" doc:"As in a key"`
			Value   string              `json:"value,omitempty" doc:"The key's text, when another system made it; only with FOREIGN_KEYS. It is hashed, and stands in no answer"`
			Reason  string              `json:"reason,omitempty" maxLength:"200"`
		}
	}
	secretOutput struct {
		Location string `header:"Location"`
		ETag     string `header:"ETag"`
		Body     struct {
			Key    Key    `json:"key"`
			Secret string `json:"secret,omitempty" doc:"Stands in this answer and nowhere else; absent when the value was given"`
		}
	}
)

// defaultEnv is the environment of a new key that names none.
const defaultEnv = "live"

func (ops operations) createKey(ctx context.Context, in *newKeyInput) (*secretOutput, error) {
	b := in.Body
	if b.Env == "" {
		b.Env = defaultEnv
	}
	n := policy.NewKey{Name: b.Name, Env: b.Env, Plan: b.Plan, Tags: b.Tags, Group: b.Group,
		Expires: schema.TimeOf(b.Expires), Allow: policydoc.ToPatterns(b.Allow), Value: b.Value}
	k, secret, err := ops.keys.Create(ctx, n, app.NewEdit(ctx, b.Reason))
	switch {
	case errors.Is(err, policy.ErrConflict) && b.Value != "":
		p := rest.NewProblem(http.StatusConflict,
			"The key "+k.ID+" has this value already. Nothing was changed.")
		p.GetHeaders().Set("Location", keyAddress(k))
		return nil, p
	case err != nil:
		return nil, err
	}
	return withSecret(k, secret), nil
}

func keyAddress(k policy.Key) string { return rest.Prefix + "/keys/" + k.ID }

// withSecret answers with a key and its new secret. It omits a secret that the caller gave.
func withSecret(k policy.Key, secret apikey.Secret) *secretOutput {
	out := &secretOutput{Location: keyAddress(k), ETag: rest.ETag(k.Version)}
	out.Body.Key = keyOf(k)
	if !secret.Foreign() {
		out.Body.Secret = secret.Reveal()
	}
	return out
}

const (
	importTime    = 1200 * time.Millisecond // a request begins no key after it
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
			Results []ImportResult `json:"results" doc:"Of the first keys, in order: send the rest again"`
		}
	}
)

// ImportedKey is a key of another system.
type ImportedKey struct {
	Name   string   `json:"name" minLength:"1" maxLength:"100"`
	Plan   string   `json:"plan" minLength:"1" maxLength:"100"`
	Env    string   `json:"env,omitempty" pattern:"^[a-z0-9]{1,16}$" doc:"Of a key without a value; live when it is left out"`
	Tags   []string `json:"tags,omitempty" maxItems:"10"`
	Group  string   `json:"group,omitempty" maxLength:"64" doc:"As in create-key"`
	Value  string   `json:"value,omitempty" doc:"As in create-key; a new secret is made when it is left out"`
	Status string   `json:"status,omitempty" enum:"active,revoked" doc:"A revoked key never calls, not even for a moment"`
}

// ImportResult is the result of importing one key.
type ImportResult struct {
	State   string `json:"state" enum:"created,exists,failed" doc:"exists: a key has this value already, and was not changed"`
	ID      string `json:"id,omitempty"`
	Secret  string `json:"secret,omitempty" doc:"Of a key that was created without a value; stands in this answer alone"`
	Message string `json:"message,omitempty" doc:"Why it failed"`
}

func (ops operations) registerImport(group rest.Group) {
	rest.Register(group, rest.Operation{
		Pattern: "POST /import", ID: "import-keys", Role: auth.Editor, MaxBody: maxImportBody,
		Summary: "Create up to 100 keys",
		Details: "A request creates as many as it has time for, about a second. Sending a key with a value " +
			"twice creates it once.",
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
			break // the next request reports it
		}
		if err != nil {
			return nil, err
		}
		out.Body.Results = append(out.Body.Results, result)
	}
	return out, nil
}

// importKey creates a key. Its error is one that every other key would get too.
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
