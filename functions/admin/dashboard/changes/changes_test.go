package changes_test

import (
	"reflect"
	"slices"
	"testing"
	"time"

	"tidegate/functions/admin/dashboard/changes"
	"tidegate/internal/limits"
	"tidegate/internal/policy"
	"tidegate/internal/route"
	"tidegate/internal/testing/sitetest"
)

// An override has its reason in parentheses. Previews have none, and no parentheses.
func TestOverrideReason(t *testing.T) {
	for reason, want := range map[string]string{"": "10 per minute", "launch": "10 per minute (launch)"} {
		after := policy.Key{Override: &policy.Override{
			Limits: []limits.Limit{sitetest.Per(10, time.Minute)}, Reason: reason,
		}}
		got := changes.OfKey(nil, policy.Key{}, after)
		if len(got) != 1 || got[0].After != want {
			t.Errorf("reason %q: got %+v, want %q", reason, got, want)
		}
	}
}

// Every field of a key that somebody sets is shown where it differs: what a preview or the
// audit leaves out is changed without a trace.
func TestEveryFieldOfAKeyIsShown(t *testing.T) {
	values := map[string]any{
		"Override": &policy.Override{Reason: "x"}, "Opens": []route.Pattern{{Path: "/a"}},
		"Billing": limits.Billing{Day: 15}, "Tags": []string{"a"},
	}
	// These are given once, or follow from others or from secrets.
	fixed := []string{"ID", "Kind", "Env", "Foreign", "Reset", "Version", "Created", "Updated", "PlanNumber"}
	for f := range reflect.TypeFor[policy.Key]().Fields() {
		var after policy.Key
		to := reflect.ValueOf(&after).Elem().FieldByIndex(f.Index)
		switch value, given := values[f.Name]; {
		case slices.Contains(fixed, f.Name):
			continue
		case given:
			to.Set(reflect.ValueOf(value))
		case f.Type == reflect.TypeFor[time.Time]():
			to.Set(reflect.ValueOf(time.Now()))
		default:
			to.SetString("x")
		}
		if got := changes.OfKey(nil, policy.Key{}, after); len(got) != 1 {
			t.Errorf("%s: got %+v, want one change", f.Name, got)
		}
	}
}
