package dashboard

import (
	"context"
	"errors"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"tidegate/functions/admin/auth/session"
	"tidegate/internal/enforce"
	"tidegate/internal/limiter"
	"tidegate/internal/policy"
)

// A limit that was changed on the form is obeyed by the very next check, and the counts
// stay.
func TestEditActsOnTheNextCheck(t *testing.T) {
	keys := newRegistry(t)
	keys.add("acme", per(2, time.Hour))
	s := newSite(t, withKeys(keys)).login()
	checker := enforce.NewChecker(keys.client, testPepper)
	check := func(want bool) {
		t.Helper()
		checked, err := checker.Check(t.Context(), enforce.Call{Kind: policy.APIKey, Subject: keys.ids["acme"], Secret: keys.secrets["acme"]}, nil)
		if err != nil || checked.Allowed != want {
			t.Fatalf("check: %+v %v, want allowed %v", checked, err, want)
		}
	}
	check(true)
	check(true)
	check(false)
	s.get("/keys").wants(t, http.StatusOK, "blocked now", "<b>2</b> of 2")
	form := limitsOf(1, [4]string{"3", "1", "hour", "log"})
	s.post("/keys/{acme}/limits", form).wants(t, http.StatusSeeOther)
	check(true)
	check(false)
	s.get("/keys/{acme}").wants(t, http.StatusOK, "2 per hour → 3 per hour", "<b>3</b> of 3", "From an override of the plan acme")
	s.post("/keys/{acme}/limits", form).wants(t, http.StatusConflict, "ada</bdi> saved meanwhile")
	check(false)
}

// What the form says of a limit reaches the store and comes back whole.
func TestEveryFieldIsStored(t *testing.T) {
	s := newSite(t).login()
	form := with(limitsOf(1, [4]string{"1,000", "", "calendar month", "fixed-window"}, [4]string{"100", "10", "second", "log"},
		[4]string{"5,000", "1", "hour", "log"}), "limits[0].zone", "Europe/Berlin", "limits[1].countDenied", "yes", "limits[2].slots", "2,500")
	s.post("/keys/{acme}/limits", form).wants(t, http.StatusSeeOther)
	if diff := cmp.Diff([]limiter.Limit{monthly, hammered, coarse}, s.keys.key("acme").Override.Limits); diff != "" {
		t.Errorf("stored (-want +got):\n%s", diff)
	}
	s.get("/keys").wants(t, http.StatusOK, "1,000 per calendar month (Europe/Berlin)", "denied calls count")
	s.post("/keys/{acme}/limits", with(form, "version", "2")).wants(t, http.StatusSeeOther)
	s.get("/keys/{acme}").wants(t, http.StatusOK, "Nothing was changed: the limits are still 1,000 per calendar month (Europe/Berlin), fixed window;")
}

// Login, use and logout work on the real session store.
func TestSessionsInTheStore(t *testing.T) {
	s := newSite(t).login()
	old := s.cookie()
	s.get("/keys/{acme}").wants(t, http.StatusOK, "acme")
	s.get("/keys?q=ac").wants(t, http.StatusOK, "acme")
	s.get("/keys?after=nonsense!").wants(t, http.StatusBadRequest)
	s.post("/logout", nil).wants(t, http.StatusSeeOther)
	s.setCookie(old.Name, old.Value)
	s.get("/keys").wants(t, http.StatusSeeOther)
}

// patientStore is a session store that never answers, unless nobody waits.
type patientStore struct{ *session.Store }

func (s patientStore) FindCtx(ctx context.Context, token string) ([]byte, bool, error) {
	if _, ok := ctx.Deadline(); !ok {
		return s.Store.FindCtx(ctx, token)
	}
	return nil, false, errors.Join(context.DeadlineExceeded, errors.New("the request has a deadline"))
}

// A store that takes longer than a request may wait is told of on a page, like one that
// is away.
func TestStoreTooSlow(t *testing.T) {
	d := newServer(Config{}, Services{Log: slog.New(slog.DiscardHandler)}, false)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	w := httptest.NewRecorder()
	d.FailStore(w, httptest.NewRequestWithContext(ctx, http.MethodGet, "/audit", nil), "read audit", ctx.Err())
	if w.Code != http.StatusServiceUnavailable || !strings.Contains(w.Body.String(), "The store does not answer") {
		t.Errorf("status %d: %s", w.Code, w.Body)
	}
}

// Nothing waits for ever for a store that hangs.
func TestStoreHangs(t *testing.T) {
	s := newSite(t, withServices(func(services *Services) {
		store, _ := services.Sessions.(*session.Store)
		services.Sessions = patientStore{store}
	}))
	s.setCookie("__Host-tidegate", "x")
	s.get("/keys").wants(t, http.StatusServiceUnavailable)
}
