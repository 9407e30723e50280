package changes_test

import (
	"testing"
	"time"

	"tidegate/functions/admin/dashboard/changes"
	"tidegate/internal/limits"
	"tidegate/internal/policy"
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
