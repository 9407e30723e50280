package server

import (
	"errors"
	"net/http"
	"strings"

	"tidegate/functions/admin/auth"
	"tidegate/functions/admin/auth/token"
)

// hasBearer reports whether the request has an Authorization header to the API. Other
// sites' pages cannot make a browser send one, so such a request needs no proof of its
// origin. Its cookies are ignored.
func (s *server) hasBearer(r *http.Request) bool {
	return s.IsAPI(r) && len(r.Header.Values("Authorization")) > 0
}

// withToken handles a request with its token's actor, or nobody if the token is unknown.
func (s *server) withToken(w http.ResponseWriter, r *http.Request, handle http.HandlerFunc) {
	r.Header.Del("Cookie")
	found, err := s.Tokens.Authenticate(r.Context(), bearerText(r))
	switch {
	case errors.Is(err, token.ErrUnknown):
		handle(w, r)
	case err != nil:
		s.FailStore(w, r, "authenticate token", err)
	default:
		handle(w, r.WithContext(auth.With(r.Context(), found.Actor())))
	}
}

// bearerText returns the token of the only Authorization header, or "" if there is none.
func bearerText(r *http.Request) string {
	all := r.Header.Values("Authorization")
	if len(all) != 1 {
		return ""
	}
	scheme, text, _ := strings.Cut(all[0], " ")
	if !strings.EqualFold(scheme, "Bearer") {
		return ""
	}
	return text
}
