package keys

import (
	"context"
	"encoding/json"

	"tidegate/functions/admin/app"
	"tidegate/functions/admin/auth"
)

// Repeatable is the header field by which a caller may repeat a request that makes a secret.
type Repeatable struct {
	IdempotencyKey string `header:"Idempotency-Key" maxLength:"255" pattern:"^[ -~]+$" example:"5f6c1f0e-9b7a-4c39-8f0e-0d6f1c1b8a52" doc:"A random text, such as a UUID, that the request keeps when it is repeated: the repeat gets the same key and secret, and changes nothing"`
}

// repeat returns the request with a body; nil without the header field.
func (r Repeatable) repeat(ctx context.Context, body any) *app.Repeat {
	if r.IdempotencyKey == "" {
		return nil
	}
	text, err := json.Marshal(body)
	if err != nil {
		panic(err) // it was JSON
	}
	return &app.Repeat{By: auth.From(ctx).ID, Key: r.IdempotencyKey, Body: text}
}
