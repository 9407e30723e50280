package keys

import (
	"context"
	"errors"
	"time"

	"tidegate/functions/admin/api/rest"
	"tidegate/functions/admin/app"
	"tidegate/functions/admin/auth"
	"tidegate/internal/policy"
)

const (
	// importTime is how long one request goes on with further keys.
	importTime = 1200 * time.Millisecond
	// maxImportBody has room for 100 keys with the longest of everything.
	maxImportBody = 512 << 10
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

// ImportResult is what became of one of them.
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

// importKey fails only when no other key would fare better.
func (ops operations) importKey(ctx context.Context, k ImportedKey, edit app.Edit) (ImportResult, error) {
	n := policy.NewKey{Name: k.Name, Plan: k.Plan, Env: k.Env, Tags: k.Tags, Group: k.Group, Value: k.Value,
		Status: policy.Status(k.Status)}
	if n.Env == "" {
		n.Env = defaultEnv
	}
	made, secret, err := ops.keys.Create(ctx, n, edit)
	var invalid *policy.InvalidError
	switch {
	case errors.As(err, &invalid):
		field := invalid.Fields[0]
		return ImportResult{State: "failed", Message: field.Field + " " + field.Message}, nil
	case errors.Is(err, policy.ErrConflict) && k.Value != "":
		return ImportResult{State: "exists", ID: made.ID}, nil
	case err != nil:
		return ImportResult{}, err
	}
	result := ImportResult{State: "created", ID: made.ID}
	if !secret.Foreign() {
		result.Secret = secret.Reveal()
	}
	return result, nil
}
