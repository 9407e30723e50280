package app_test

import (
	"testing"
	"time"

	"tidegate/functions/admin/app"
	"tidegate/internal/limiter"
	"tidegate/internal/policy"
)

// Pages of a state show every key once, also keys that an earlier release wrote, which
// the list of the state lacks until it is complete, and while it becomes complete.
func TestStatesOfKeysOfAnEarlierRelease(t *testing.T) {
	app.SetScanTime(t, 0) // one step a page
	j := newJobs(t, 2*app.PerScan+100)
	want := map[app.State]map[string]bool{app.Revoked: {}, app.Expiring: {}, app.Shadow: {}}
	states := map[byte]app.State{'3': app.Revoked, '5': app.Expiring, '7': app.Shadow}
	for name, id := range j.keys.IDs {
		state := states[name[len(name)-1]]
		if state == "" {
			continue
		}
		want[state][id] = true
		j.keys.UpdateKey(name, func(k *policy.Key) {
			switch state {
			case app.Revoked:
				k.Status = policy.Revoked
			case app.Expiring:
				k.Expires = time.Now().Add(time.Hour)
			default:
				limits := []limiter.Limit{{Requests: 3, Window: time.Minute}}
				k.Override = &policy.Override{Mode: policy.Shadow, Limits: limits, Reason: "a test"}
			}
		})
	}
	for state, keys := range want {
		j.keys.Client.Do(t.Context(), j.keys.Client.B().Del().Key("tg:keys:revoked", "tg:keys:expiring",
			"tg:keys:shadow", "tg:keys:complete").Build())
		for pass := range 2 {
			seen, after := map[string]int{}, ""
			for pages := 0; pages == 0 || after != ""; pages++ {
				found, err := app.FindKeys(t.Context(), j.Registry, j.set(), app.KeyFilter{State: state},
					after, 7)
				if err != nil {
					t.Fatal(err)
				}
				for _, s := range found.Subjects {
					seen[s.ID]++
				}
				after = found.Next
			}
			for id := range keys {
				if seen[id] != 1 {
					t.Errorf("%s, pass %d: %s is shown %d times", state, pass, id, seen[id])
				}
			}
			if len(seen) != len(keys) {
				t.Errorf("%s, pass %d: %d keys, want %d", state, pass, len(seen), len(keys))
			}
		}
	}
}
