package server

import (
	"errors"
	"net/http"
	"strings"

	"tidegate/functions/admin/auth"
	"tidegate/functions/admin/auth/token"
)

// bearer reports whether only a token counts for the request: it brings credentials of
// its own to the API. No page of another site can make a browser send that header, so
// such a request needs no proof of where it comes from; and its cookies count for
// nothing.
func (s *server) bearer(r *http.Request) bool {
	return s.IsAPI(r) && len(r.Header.Values("Authorization")) > 0
}

// withToken answers a request in the name of its token, or of nobody if the token is
// none of ours.
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

// bearerText is what follows Bearer in the only Authorization header; empty if that is
// not what the request has.
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
