package keys

import (
	"context"
	"errors"
	"net/http"
	"time"

	"tidegate/functions/admin/api/rest"
	"tidegate/functions/admin/api/schema"
	"tidegate/functions/admin/app"
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

// defaultEnv is the env of a new key that names none.
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
	return made(k, secret), nil
}

func keyAddress(k policy.Key) string { return rest.Prefix + "/keys/" + k.ID }

func made(k policy.Key, secret apikey.Secret) *secretOutput {
	out := &secretOutput{Location: keyAddress(k), ETag: rest.ETag(k.Version)}
	out.Body.Key = keyOf(k)
	if !secret.Foreign() {
		out.Body.Secret = secret.Reveal()
	}
	return out
}
