package dashboard

import (
	"context"
	"errors"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"tidegate/functions/admin/session"
	"tidegate/internal/apikey"
	"tidegate/internal/limiter"
	"tidegate/internal/policy"
	"tidegate/internal/store"
	"tidegate/internal/valkeytest"
)

var _ KeyStore = (*policy.Store)(nil)

// realSite is a site on the real registry and the real session store, with one key.
func realSite(t *testing.T) (*site, *policy.Store, policy.Key, apikey.Secret) {
	t.Helper()
	client, err := store.Open(t.Context(), valkeytest.Embedded(t), store.Options{Dial: 5 * time.Second, Write: 5 * time.Second})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(client.Close)
	pepper, err := apikey.NewPepper(strings.Repeat("p", 32))
	if err != nil {
		t.Fatal(err)
	}
	registry := policy.NewStore(client, pepper)
	key, secret, err := registry.Create(t.Context(), policy.NewKey{Name: "acme", Env: "test", Plan: "free", Limits: []limiter.Limit{per(2, time.Hour)}})
	if err != nil {
		t.Fatal(err)
	}
	s := newSite(t, withServices(func(services *Services) {
		services.Keys, services.Sessions = registry, session.NewStore(client, time.Minute)
	}))
	return s.login(), registry, key, secret
}

// A limit that was changed on the form is obeyed by the very next check, and the counts stay.
func TestEditActsOnTheNextCheck(t *testing.T) {
	s, registry, key, secret := realSite(t)
	check := func(want bool) {
		t.Helper()
		checked, err := registry.Check(t.Context(), secret, 1)
		if err != nil || checked.Decision.Allowed != want {
			t.Fatalf("check: %v %v, want allowed %v", checked.Decision, err, want)
		}
	}
	check(true)
	check(true)
	check(false)
	s.get("/keys").wants(t, http.StatusOK, "blocked now", "<b>2</b> of 2")
	form := limitsOf(1, [4]string{"3", "1", "hour", "log"})
	s.post("/keys/"+key.ID+"/limits", form).wants(t, http.StatusSeeOther)
	check(true)
	check(false)
	s.get("/keys/"+key.ID).wants(t, http.StatusOK, "2 per hour → 3 per hour", "<b>3</b> of 3", "Edited for this key")
	s.post("/keys/"+key.ID+"/limits", form).wants(t, http.StatusConflict, "Someone else saved this key meanwhile")
	check(false)
}

// What the form says of a limit reaches the store and comes back whole.
func TestEveryFieldIsStored(t *testing.T) {
	s, registry, key, _ := realSite(t)
	form := with(limitsOf(1, [4]string{"1,000", "", "calendar month", "fixed-window"}, [4]string{"100", "10", "second", "log"},
		[4]string{"5,000", "1", "hour", "log"}), "limits[0].zone", "Europe/Berlin", "limits[1].countDenied", "yes", "limits[2].slots", "2,500")
	s.post("/keys/"+key.ID+"/limits", form).wants(t, http.StatusSeeOther)
	stored, err := registry.Get(t.Context(), key.ID)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]limiter.Limit{monthly, hammered, coarse}, stored.Limits); diff != "" {
		t.Errorf("stored (-want +got):\n%s", diff)
	}
	s.get("/keys").wants(t, http.StatusOK, "1,000 per calendar month (Europe/Berlin)", "denied calls count")
	s.post("/keys/"+key.ID+"/limits", with(form, "version", "2")).wants(t, http.StatusSeeOther)
	s.get("/keys/"+key.ID).wants(t, http.StatusOK, "Nothing was changed: the limits are still 1,000 per calendar month (Europe/Berlin), fixed window;")
}

// Login, use and logout work on the real session store.
func TestSessionsInTheStore(t *testing.T) {
	s, _, key, _ := realSite(t)
	old := s.cookie()
	s.get("/keys/"+key.ID).wants(t, http.StatusOK, "acme")
	s.get("/keys?q=ac").wants(t, http.StatusOK, "acme")
	s.get("/keys?after=nonsense!").wants(t, http.StatusBadRequest)
	s.post("/logout", nil).wants(t, http.StatusSeeOther)
	s.setCookie(old.Name, old.Value)
	s.get("/keys").wants(t, http.StatusSeeOther)
}

// patientKeys is a registry whose store never answers.
type patientKeys struct{ KeyStore }

func (patientKeys) List(ctx context.Context, _ policy.Query) (policy.Page, error) {
	if _, ok := ctx.Deadline(); !ok {
		return policy.Page{}, nil
	}
	return policy.Page{}, errors.Join(context.DeadlineExceeded, errors.New("the request has a deadline"))
}

// Nothing waits for ever for a store that hangs.
func TestStoreHangs(t *testing.T) {
	s := newSite(t, withServices(func(services *Services) { services.Keys = patientKeys{} })).login()
	s.get("/keys").wants(t, http.StatusServiceUnavailable)
}
