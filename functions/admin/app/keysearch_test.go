package app_test

import (
	"testing"
	"time"

	"tidegate/functions/admin/app"
	"tidegate/internal/policy"
)

// The pages of a filter by state or tag have every key once.
func TestFindKeysByStateAndTag(t *testing.T) {
	app.SetScanTime(t, 0) // one read per page
	j := newFixture(t, 2*app.PerScan+100)
	filters := map[byte]app.KeyFilter{'1': {Tag: "eu"}, '3': {State: app.Revoked}, '5': {State: app.Expiring},
		'7': {State: app.Shadow}}
	want := map[app.KeyFilter]map[string]bool{}
	for name, id := range j.keys.IDs {
		filter, special := filters[name[len(name)-1]]
		if !special {
			continue
		}
		if want[filter] == nil {
			want[filter] = map[string]bool{}
		}
		want[filter][id] = true
		j.keys.UpdateKey(name, func(k *policy.Key) {
			switch filter.State {
			case "":
				k.Tags = []string{filter.Tag}
			case app.Revoked:
				k.Status = policy.Revoked
			case app.Expiring:
				k.Expires = time.Now().Add(time.Hour)
			default:
				k.Override = &policy.Override{Reason: "a test"} // lifts the plan's limits
			}
		})
	}
	for filter, keys := range want {
		seen, after := map[string]int{}, ""
		for pages := 0; pages == 0 || after != ""; pages++ {
			found, err := app.FindKeys(t.Context(), j.Registry, j.set(), filter, after, 7)
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
				t.Errorf("%+v: key %s is listed %d times, want once", filter, id, seen[id])
			}
		}
		if len(seen) != len(keys) {
			t.Errorf("%+v: got %d keys, want %d", filter, len(seen), len(keys))
		}
	}
}
