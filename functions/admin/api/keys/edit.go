package keys

import (
	"context"
	"encoding/json"
	"reflect"
	"time"

	"github.com/danielgtaylor/huma/v2"

	"tidegate/functions/admin/api/rest"
	"tidegate/functions/admin/api/schema"
	"tidegate/functions/admin/app"
	"tidegate/functions/admin/policydoc"
	"tidegate/internal/policy"
)

type (
	patchKeyInput struct {
		Path
		rest.IfMatch
		Body struct {
			Name    *string              `json:"name,omitempty" minLength:"1" maxLength:"100"`
			Plan    *string              `json:"plan,omitempty" minLength:"1" maxLength:"100"`
			Tags    *[]string            `json:"tags,omitempty" maxItems:"10"`
			Group   *string              `json:"group,omitempty" maxLength:"64" doc:"Empty for none"`
			Allow   *[]policydoc.Pattern `json:"allow,omitempty" maxItems:"20" doc:"As in a key; [] for all routes"`
			Expires nullable[time.Time]  `json:"expires,omitempty" doc:"null for never"`
			Reason  string               `json:"reason,omitempty" maxLength:"200"`
		}
	}
	deleteInput struct {
		Path
		rest.ReasonQuery
	}
)

// nullable distinguishes a value that is left out from null.
type nullable[T any] struct {
	sent  bool
	value *T
}

// UnmarshalJSON notes that it was sent.
func (n *nullable[T]) UnmarshalJSON(text []byte) error {
	n.sent = true
	return json.Unmarshal(text, &n.value)
}

// Schema describes it as the value or null.
func (nullable[T]) Schema(r huma.Registry) *huma.Schema {
	s := *r.Schema(reflect.TypeFor[T](), true, "")
	s.Nullable = true
	return &s
}

func (ops operations) patchKey(ctx context.Context, in *patchKeyInput) (*keyOutput, error) {
	if err := in.Missing(); err != nil {
		return nil, err
	}
	change := app.KeyChange{Do: app.Details, Details: in.apply}
	return ops.change(ctx, in.ID, in.IfMatch, change, in.Body.Reason)
}

func (in *patchKeyInput) apply(k *policy.Key) {
	b := in.Body
	if b.Name != nil {
		k.Name = *b.Name
	}
	if b.Plan != nil {
		k.Plan = *b.Plan
	}
	if b.Tags != nil {
		k.Tags = *b.Tags
	}
	if b.Group != nil {
		k.Group = *b.Group
	}
	if b.Allow != nil {
		k.Allow = policydoc.ToPatterns(*b.Allow)
	}
	if b.Expires.sent {
		k.Expires = schema.TimeOf(b.Expires.value)
	}
}

func (ops operations) deleteKey(ctx context.Context, in *deleteInput) (*rest.None, error) {
	_, err := ops.change(ctx, in.ID, rest.IfMatch{}, app.KeyChange{Do: app.Delete}, in.Reason)
	return nil, err
}
