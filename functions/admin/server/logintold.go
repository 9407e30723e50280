package server

import (
	"context"
	"net/http"

	"tidegate/functions/admin/auth"
	"tidegate/internal/audit"
)

// tellLogin tells of a login before it counts: no log-in succeeds without its audit
// entry.
func (s *server) tellLogin(ctx context.Context, actor auth.Actor) error {
	return s.Keys.Audit().Append(ctx, audit.Entry{
		By: audit.Actor{Kind: string(actor.Kind), Name: actor.String()}, Action: audit.Login,
		Subject: audit.LoginSubject, Name: actor.Name,
	})
}

// tellRefused tells of a login that was refused, unless there were many of late. Only
// names that are somebody's are told: people type passwords in the wrong field. When it
// cannot be told, the login is refused all the same.
func (s *server) tellRefused(r *http.Request, name string) {
	s.Log.Warn("login refused")
	if _, known := s.users.Find(name); !known {
		name = ""
	}
	tell, err := s.Logins.Tell(r.Context())
	if tell && err == nil {
		err = s.Keys.Audit().Append(r.Context(), audit.Entry{
			By: audit.Actor{Kind: "system", Name: audit.LoginSubject}, Action: audit.LoginRefused,
			Subject: audit.LoginSubject, Name: name,
		})
	}
	if err != nil {
		s.Log.Error("tell of refused login", "cause", err)
	}
}
