package server

import (
	"context"
	"errors"
	"net/http"

	"tidegate/functions/admin/auth"
	"tidegate/internal/audit"
)

// recordLogin appends a log-in to the audit. If it fails, the caller refuses the log-in.
// While Valkey lacks changes of the list of log-ins, people must get in to restore them:
// such a log-in is in the function's log alone.
func (s *server) recordLogin(ctx context.Context, actor auth.Actor) error {
	err := s.Keys.Audit().Append(ctx, audit.Entry{
		By: audit.Actor{Kind: string(actor.Kind), Name: actor.String()}, Action: audit.Login,
		Subject: audit.LoginSubject, Name: actor.Name,
	})
	if errors.Is(err, audit.ErrBehind) {
		s.Log.Error("login without audit", "user", actor.String(), "cause", err)
		return nil
	}
	return err
}

// recordRefusedLogin appends a refused log-in to the audit, up to the throttle's bound.
// It records only names of known users, since people type passwords in the wrong field.
// It logs an error; the log-in is refused in any case.
func (s *server) recordRefusedLogin(r *http.Request, name string) {
	s.Log.Warn("login refused")
	if _, known := s.users.Find(name); !known {
		name = ""
	}
	allowed, err := s.Logins.AllowAudit(r.Context())
	if allowed && err == nil {
		err = s.Keys.Audit().Append(r.Context(), audit.Entry{
			By: audit.Actor{Kind: "system", Name: audit.LoginSubject}, Action: audit.LoginRefused,
			Subject: audit.LoginSubject, Name: name,
		})
	}
	if err != nil {
		s.Log.Error("record refused login", "cause", err)
	}
}
