package page

import (
	"context"
	"net/http"
)

type nonceKey struct{}

// WithNonce adds the nonce of the response's Content-Security-Policy to the request.
func WithNonce(r *http.Request, nonce string) *http.Request {
	return r.WithContext(context.WithValue(r.Context(), nonceKey{}, nonce))
}

// nonceOf returns the nonce of the response's Content-Security-Policy.
func nonceOf(r *http.Request) string {
	nonce, _ := r.Context().Value(nonceKey{}).(string)
	return nonce
}
