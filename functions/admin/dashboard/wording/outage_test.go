package wording

import (
	"fmt"
	"testing"

	"tidegate/internal/policy"
)

// Plans with the same setting are named together, at most five of them.
func TestOutage(t *testing.T) {
	plans := []policy.Plan{{Name: "lab", Degraded: policy.Local, Share: 25}}
	for i := range 7 {
		plans = append(plans, policy.Plan{Name: fmt.Sprintf("p%d", i)})
	}
	const want = "Until it is back, on lab: each environment admits 25 %; " +
		"on p0, p1, p2, p3, p4 and 2 more: calls are denied."
	if got := Outage(plans); got != want {
		t.Errorf("got %q, want %q", got, want)
	}
	if got := Outage(nil); got != "Until it is back, each plan's outage setting applies." {
		t.Errorf("without plans got %q", got)
	}
}
