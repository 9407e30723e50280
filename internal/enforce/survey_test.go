package enforce

import (
	"fmt"
	"net/netip"
	"strings"
	"testing"
	"time"

	"tidegate/internal/policy"
	"tidegate/internal/route"
	"tidegate/internal/testing/storetest"
	"tidegate/internal/testing/valkeytest"
)

// surveyed has each limit of a survey as "scope used/requests", its rule and its marks.
func surveyed(s Survey) string {
	var all []string
	for _, l := range s.Limits {
		text := fmt.Sprintf("%s %d/%d", l.Scope, l.Used(), l.Limit.Requests)
		if l.Unread {
			text = fmt.Sprintf("%s ?/%d", l.Scope, l.Limit.Requests)
		}
		if l.Rule != "" {
			text += " on " + l.Rule
		}
		if l.Replaced {
			text += " replaced"
		}
		if l.Denies() {
			text += " denies"
		}
		all = append(all, text)
	}
	return strings.Join(all, ", ")
}

// surveyWorld has a limit of every scope, and a key in a group.
func surveyWorld(t *testing.T, w *world) {
	t.Helper()
	w.save(t, func(s *policy.Set) {
		s.Plans = []policy.Plan{{Name: "free", Limits: perMinute(20), PerGroup: perMinute(30)}}
		s.Routes = []policy.Route{
			{Name: "orders", Cost: 3, Pattern: route.Pattern{Path: "/orders"}, PerKey: perMinute(6),
				PerIP: perMinute(50), Shared: perMinute(60)},
			{Name: "unused", Cost: 1, Pattern: route.Pattern{Path: "/unused"}, Shared: perMinute(70)},
		}
		s.PerIP = policy.Scope{Limits: perMinute(40)}
		s.Global = policy.Scope{Limits: perMinute(100)}
	})
	w.group = "acme"
}

// Survey has every limit that a call of the key can fall under, with the counts that calls
// left, and the answer to a call that matches no rule. It takes nothing.
func TestSurvey(t *testing.T) {
	onEveryServer(t, func(t *testing.T, w *world) {
		surveyWorld(t, w)
		key, secret := w.create(t, "one", "free")
		c := call(secret)
		c.Address = netip.MustParseAddr("192.0.2.7")
		c.Network = netip.MustParsePrefix("192.0.2.7/32")
		w.expect(t, c, "yyn")
		w.expect(t, call(secret).to("GET", "/other").from("192.0.2.9"), "y")
		want := "key 7/20, global 7/100, group 7/30, route 6/6 on orders denies, " +
			"route-all 6/60 on orders, route-all 0/70 on unused, ip ?/40, route-ip ?/50 on orders"
		for range 2 {
			s, err := w.explainer.Survey(t.Context(), must(w.Set(t.Context())), key)
			if err != nil || surveyed(s) != want {
				t.Fatalf("got %s, %v, want %s", surveyed(s), err, want)
			}
			if got := scopes(s.Result); got != "key:13 global:93 group:23" || !s.Result.Allowed ||
				!s.Own.Allowed || s.Own.Limits[0].Used() != 7 {
				t.Errorf("a call without a rule gets %s, %+v, want it allowed by all three", got, s.Own)
			}
		}
		banned := key
		banned.Banned = time.Now().Add(time.Hour)
		s, err := w.explainer.Survey(t.Context(), must(w.Set(t.Context())), banned)
		if err != nil || s.Result.Allowed || s.Result.BannedUntil.IsZero() || surveyed(s) != want {
			t.Errorf("with a ban got %+v, %v, want a denial and the same limits", s.Result, err)
		}
	})
}

// While an override is in force, its limits deny, and those of the plan are marked as
// replaced. A limit that denies hides what shared limits say to the client, as in a check.
func TestSurveyOfOverride(t *testing.T) {
	onSingleServers(t, func(t *testing.T, w *world) {
		surveyWorld(t, w)
		key, secret := w.create(t, "one", "free")
		key, err := w.Update(t.Context(), key.ID, key.Version, "key.test", byTest, func(k *policy.Key) {
			k.Override = &policy.Override{Limits: perMinute(4), Reason: "test"}
		})
		if err != nil {
			t.Fatal(err)
		}
		w.expect(t, call(secret).to("GET", "/other").from("192.0.2.9"), "yyyyn")
		s, err := w.explainer.Survey(t.Context(), must(w.Set(t.Context())), key)
		if want := "key 4/4 denies, key 4/20 replaced, global 4/100, group 4/30, "; err != nil ||
			!strings.HasPrefix(surveyed(s), want) {
			t.Errorf("got %s, %v, want %s…", surveyed(s), err, want)
		}
		if scopes(s.Result) != "key:0" || s.Result.Allowed {
			t.Errorf("the answer is %s, allowed %t, want key:0, denied", scopes(s.Result), s.Result.Allowed)
		}
	})
}

// A key that may not call has its limits and the reason.
func TestSurveyOfRefused(t *testing.T) {
	w := open(t, valkeytest.Start(t))
	surveyWorld(t, w)
	key, _ := w.create(t, "one", "free")
	set := must(w.Set(t.Context()))
	for reason, change := range map[string]func(*policy.Key){
		"the key is revoked": func(k *policy.Key) { k.Status = policy.Revoked },
		"the key expired":    func(k *policy.Key) { k.Expires = time.Now().Add(-time.Minute) },
		refusedWithoutPlan:   func(k *policy.Key) { k.Plan, k.Kind = "", policy.Token },
	} {
		changed := key
		change(&changed)
		s, err := w.explainer.Survey(t.Context(), set, changed)
		if err != nil || s.Refused != reason || s.Result.Allowed ||
			!strings.Contains(surveyed(s), "global 0/100") {
			t.Errorf("got %q, allowed %t, %s, %v, want %q", s.Refused, s.Result.Allowed, surveyed(s), err,
				reason)
		}
	}
	key.Status = policy.Unreadable
	if s, err := w.explainer.Survey(t.Context(), set, key); err != nil || len(s.Limits) > 0 {
		t.Errorf("unreadable key: got %s, %v, want no limits", surveyed(s), err)
	}
}

// Survey works without the right to write.
func TestSurveyWritesNothing(t *testing.T) {
	url := valkeytest.Start(t)
	w := open(t, url)
	surveyWorld(t, w)
	key, _ := w.create(t, "one", "free")
	reader := storetest.Connect(t, valkeytest.As(t, url, "reader", []string{"on", "~*", "+@all", "-@write"}))
	s, err := NewChecker(reader, testPepper).Survey(t.Context(), must(w.Set(t.Context())), key)
	if err != nil || len(s.Limits) != 8 {
		t.Errorf("got %s, %v, want 8 limits", surveyed(s), err)
	}
}
