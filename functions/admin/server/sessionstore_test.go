package server_test

import (
	"context"
	"errors"
	"net/http"
	"testing"

	"tidegate/functions/admin/auth/session"
	"tidegate/functions/admin/server"
	"tidegate/functions/admin/server/sitetest"
)

// Login, use and logout work on the real session store.
func TestSessionsInTheStore(t *testing.T) {
	s := sitetest.New(t).Login()
	old := s.Cookie()
	s.Get("/keys/{acme}").Wants(t, http.StatusOK, "acme")
	s.Get("/keys?q=ac").Wants(t, http.StatusOK, "acme")
	s.Get("/keys?after=nonsense!").Wants(t, http.StatusBadRequest)
	s.Post("/logout", nil).Wants(t, http.StatusSeeOther)
	s.SetCookie(old.Name, old.Value)
	s.Get("/keys").Wants(t, http.StatusSeeOther)
}

// patientStore is a session store that never answers, unless nobody waits.
type patientStore struct{ *session.Store }

func (s patientStore) FindCtx(ctx context.Context, token string) ([]byte, bool, error) {
	if _, ok := ctx.Deadline(); !ok {
		return s.Store.FindCtx(ctx, token)
	}
	return nil, false, errors.Join(context.DeadlineExceeded, errors.New("the request has a deadline"))
}

// Nothing waits for ever for a store that hangs.
func TestStoreHangs(t *testing.T) {
	s := sitetest.New(t, sitetest.WithServices(func(services *server.Services) {
		store, _ := services.Sessions.(*session.Store)
		services.Sessions = patientStore{store}
	}))
	s.SetCookie("__Host-tidegate", "x")
	s.Get("/keys").Wants(t, http.StatusServiceUnavailable)
}
