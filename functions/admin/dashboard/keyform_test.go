package dashboard_test

import (
	"log/slog"
	"net/http"
	"strings"
	"testing"

	"tidegate/functions/admin/server"
	"tidegate/internal/apikey"
	"tidegate/internal/testing/sitetest"
)

// A key with an existing value can be created if FOREIGN_KEYS is true. No page, log or
// session contains the value, valid or not.
func TestForeignKey(t *testing.T) {
	const value = "AbCdEfGhIjKlMnOpQrStUvWxYz0123456789abcd"
	var log strings.Builder
	s := sitetest.New(t, sitetest.WithServices(func(services *server.Services) {
		services.Log = slog.New(slog.NewTextHandler(&log, nil))
	})).Login()
	form := fields("name", "new", "plan", "free", "env", "live", "value", value)
	if body := s.Get("/keys/new").Wants(t, http.StatusOK).Body; strings.Contains(body, `name="value"`) {
		t.Error("the form has the field value although FOREIGN_KEYS is false")
	}
	s.Post("/keys", form).Wants(t, http.StatusUnprocessableEntity, "FOREIGN_KEYS=true")
	s.Keys.ForeignKeys = true
	s.Get("/keys/new").Wants(t, http.StatusOK, `name="value"`)
	s.Post("/keys", form).Wants(t, http.StatusSeeOther)
	secret, err := apikey.NewKey(sitetest.Pepper).Foreign(value)
	if err != nil {
		t.Fatal(err)
	}
	s.Keys.IDs["new"], s.Keys.Names[secret.ID()] = secret.ID(), "new"
	bodies := []string{
		s.Get("/keys/{new}").Wants(t, http.StatusOK, "imported from another system", "Key created").Body,
		s.Post("/keys", form).Wants(t, http.StatusConflict, "already has this value").Body,
	}
	for rejected, message := range map[string]string{value + ",": "without spaces and commas",
		"tg_" + value: "not begin like a Tidegate key or token"} {
		form["value"] = []string{rejected}
		bodies = append(bodies, s.Post("/keys", form).Wants(t, http.StatusUnprocessableEntity, message).Body)
	}
	s.Get("/keys/"+value).Wants(t, http.StatusNotFound)
	for _, path := range []string{"/keys", "/audit", "/audit.csv", "/keys.csv"} {
		bodies = append(bodies, s.Get(path).Wants(t, http.StatusOK).Body)
	}
	bodies = append(bodies, log.String(), s.Store.Dump(), s.Keys.Server.Dump())
	for i, body := range bodies {
		if strings.Contains(body, value) {
			t.Errorf("text %d contains the value: %.200s", i, body)
		}
	}
}
