package enforce

import (
	"strings"
	"testing"
	"time"

	"tidegate/internal/limiter"
	"tidegate/internal/policy"
	"tidegate/internal/route"
	"tidegate/internal/testing/valkeytest"
)

func countingDenied(requests int64, window time.Duration) []limiter.Limit {
	return []limiter.Limit{{Requests: requests, Window: window, CountDenied: true}}
}

// sharedLists sets the limits of each shared list, by the field of the list's first
// limit.
var sharedLists = map[string]func(*policy.Set, []limiter.Limit){
	"perIP.limits[0]":     func(s *policy.Set, l []limiter.Limit) { s.PerIP.Limits = l },
	"global.limits[0]":    func(s *policy.Set, l []limiter.Limit) { s.Global.Limits = l },
	"routes[0].perIP[0]":  func(s *policy.Set, l []limiter.Limit) { s.Routes[0].PerIP = l },
	"routes[0].shared[0]": func(s *policy.Set, l []limiter.Limit) { s.Routes[0].Shared = l },
}

// A save refuses countDenied on a shared limit, and accepts it on limits of one caller. A
// shared limit that already has it may keep it when it or something else is edited.
func TestSharedLimitsRefuseCountDenied(t *testing.T) {
	for field, put := range sharedLists {
		t.Run(field, func(t *testing.T) {
			w := open(t, valkeytest.Start(t))
			w.save(t, func(s *policy.Set) {
				s.Plans = []policy.Plan{{Name: "free", Limits: countingDenied(9, time.Minute),
					Candidate: countingDenied(8, time.Minute)}}
				s.Routes = []policy.Route{{Name: "chat", Cost: 1, PerKey: countingDenied(7, time.Minute),
					Pattern: route.Pattern{Path: "/chat"}}}
			})
			refused := func(change func(*policy.Set)) {
				t.Helper()
				set := must(w.Set(t.Context()))
				change(set)
				_, err := w.SaveSet(t.Context(), *set, byTest)
				wantInvalid(t, err, field+".countDenied")
				if err != nil && !strings.Contains(err.Error(), "several callers share this limit") {
					t.Errorf("got %v, want that several callers share the limit", err)
				}
			}
			refused(func(s *policy.Set) { put(s, countingDenied(100, time.Minute)) })
			w.saveLegacy(t, func(s *policy.Set) { put(s, countingDenied(100, time.Minute)) })
			w.save(t, func(s *policy.Set) { s.Plans[0].Limits = perMinute(20) })
			w.save(t, func(s *policy.Set) { put(s, countingDenied(200, time.Minute)) })
			w.save(t, func(s *policy.Set) { s.Routes[0].Name = "talk" })
			w.save(t, func(s *policy.Set) { s.Routes[0].Pattern.Path = "/talk" })
			w.save(t, func(s *policy.Set) {
				s.Routes = append([]policy.Route{
					{Name: "first", Cost: 1, Pattern: route.Pattern{Path: "/first"}}}, s.Routes...)
			})
			w.save(t, func(s *policy.Set) { s.Routes = s.Routes[1:] })
			if found := must(w.Set(t.Context())).SharedCountDenied(); len(found) != 1 ||
				found[0].Field != field || found[0].Limit.Requests != 200 {
				t.Errorf("SharedCountDenied is %+v, want %s with 200 requests alone", found, field)
			}
			refused(func(s *policy.Set) { put(s, countingDenied(100, time.Hour)) })
			w.save(t, func(s *policy.Set) { put(s, perMinute(100)) })
			refused(func(s *policy.Set) { put(s, countingDenied(100, time.Minute)) })
		})
	}
}

// A second limit with countDenied counts as new, and so does the same limit in another
// list.
func TestNewCountDeniedIsRefused(t *testing.T) {
	stored := &policy.Set{
		Global: policy.Scope{Limits: countingDenied(5, time.Minute)},
		Routes: []policy.Route{{Name: "a", Cost: 1},
			{Name: "b", Cost: 1, Pattern: route.Pattern{Path: "/b"}}},
	}
	twice := append(countingDenied(5, time.Minute), countingDenied(6, time.Minute)...)
	for field, next := range map[string]*policy.Set{
		"":                             {Global: stored.Global},
		"global.limits[1].countDenied": {Global: policy.Scope{Limits: twice}},
		"perIP.limits[0].countDenied":  {PerIP: stored.Global},
		"routes[0].shared[0].countDenied": {Global: stored.Global,
			Routes: []policy.Route{{Name: "b", Cost: 1, Shared: stored.Global.Limits}}},
	} {
		if err := next.ValidateAfter(stored); field != "" {
			wantInvalid(t, err, field)
		} else if err != nil {
			t.Errorf("unchanged set: %v", err)
		}
	}
}

// A stored shared limit with countDenied still counts denied calls.
func TestStoredCountDeniedIsApplied(t *testing.T) {
	w := open(t, valkeytest.Start(t))
	w.plan(t, "free", perHour(100)...)
	_, secret := w.create(t, "caller", "free")
	w.saveLegacy(t, func(s *policy.Set) { s.Global.Limits = countingDenied(2, time.Hour) })
	c := w.expect(t, call(secret), "yynn")
	if c.Limits[1].RetryAfter < 59*time.Minute || !c.Limits[1].Limit.CountDenied {
		t.Errorf("got %s, want RetryAfter of an hour: denied calls count", describe(c))
	}
}
