package api

import (
	"net/http"
	"testing"
	"time"

	"tidegate/internal/apikey"
	"tidegate/internal/enforce"
	"tidegate/internal/policy"
	"tidegate/internal/route"
	"tidegate/internal/usage/statelist"
)

// repeat makes calls until the policy bans the key, and returns until when.
func (s *service) repeat(k policy.Key, secret apikey.Secret) time.Time {
	s.t.Helper()
	checker := enforce.NewChecker(s.client, testPepper)
	for range 10 {
		c, err := checker.Check(s.t.Context(), enforce.Call{Kind: policy.APIKey, Subject: k.ID,
			Secret: secret, Route: route.Call{Path: "/"}}, nil)
		if err != nil {
			s.t.Fatal(err)
		}
		if !c.BannedUntil.IsZero() {
			s.listDenied(statelist.Banned, k.ID)
			return c.BannedUntil
		}
	}
	return time.Time{}
}

// listDenied lists a key as denied, as a check records it.
func (s *service) listDenied(list statelist.List, id string) {
	s.t.Helper()
	listed := statelist.Add(s.client, list, id, time.Now().Add(time.Hour))
	for _, result := range s.client.DoMulti(s.t.Context(), listed...) {
		if err := result.Error(); err != nil {
			s.t.Fatal(err)
		}
	}
}

// A ban by the policy is shown for the key as one by hand is, and lifted as one; the next
// starts at the first length again.
func TestBanByPolicy(t *testing.T) {
	s := newService(t)
	set, err := s.keys.Set(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	set.Plans[0].Limits = []limit{{Requests: 1, Window: time.Hour}}
	set.Bans = &policy.Bans{Denials: 2, Window: policy.Duration(time.Hour), Base: policy.Duration(time.Hour),
		Cap: policy.Duration(24 * time.Hour)}
	if _, err := s.keys.SaveSet(t.Context(), *set, byTest); err != nil {
		t.Fatal(err)
	}
	k, secret, err := s.keys.Create(t.Context(),
		policy.NewKey{Name: "busy", Env: "test", Plan: "free"}, byTest)
	if err != nil {
		t.Fatal(err)
	}
	s.create("calm")
	for range 2 {
		until := s.repeat(k, secret)
		if left := time.Until(until); left > time.Hour || left < 59*time.Minute {
			t.Fatalf("banned for %s more", left)
		}
		body := `"bannedUntil":"` + until.Format(time.RFC3339Nano) + `"`
		if items, _ := s.get("/keys?state=banned").wants(http.StatusOK, k.ID, `"banned"`,
			body).at("items").([]any); len(items) != 1 {
			t.Errorf("%d are banned", len(items))
		}
		s.get("/keys/"+k.ID).wants(http.StatusOK, `"banned"`, body)
		s.do(http.MethodPost, "/keys/"+k.ID+"/unban", nil,
			header{"If-Match": `"9"`}).wants(http.StatusPreconditionFailed)
		s.post("/keys/"+k.ID+"/unban", map[string]any{"reason": "sorry"}).wants(http.StatusOK)
		s.get("/audit?action=key.unban&subject="+k.ID).wants(http.StatusOK, body, `"reason":"sorry"`)
		if body := s.get("/keys?state=banned").wants(http.StatusOK); len(body.text) > 50 {
			t.Errorf("after the end of the ban: %s", body.text)
		}
	}
}
