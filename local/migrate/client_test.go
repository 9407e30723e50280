package main

import (
	"strings"
	"testing"

	"tidegate/functions/admin/policydoc"
	"tidegate/internal/policy"
)

// A plan that exists stays as it is, with a line for each difference. One that opens other
// routes is refused: the imported keys would be able to call them.
func TestMergeKeepsExistingPlans(t *testing.T) {
	e, err := readExport(exported(t, map[string]string{"plans.json": twoPlans, "p1.json": oneMember,
		"p2.json": `{"items": []}`}), nil)
	if err != nil {
		t.Fatal(err)
	}
	m := fromUsagePlans(e)
	var inForce policydoc.Policy
	if kept, err := merge(&inForce, m.policy); err != nil || len(kept) > 0 || len(inForce.Plans) != 2 {
		t.Fatalf("first run: got %d plans, %q, %v", len(inForce.Plans), kept, err)
	}
	before := textOf(inForce)
	if kept, err := merge(&inForce, m.policy); err != nil || len(kept) > 0 || textOf(inForce) != before {
		t.Errorf("second run: got %q, %v, changed %t", kept, err, textOf(inForce) != before)
	}

	inForce.Plans[1].Mode, inForce.Plans[1].Limits = policy.Shadow, inForce.Plans[0].Limits
	before = textOf(inForce)
	kept, err := merge(&inForce, m.policy)
	if err != nil || len(kept) != 2 || textOf(inForce) != before ||
		!strings.Contains(kept[1], `plan Gold exists: its mode stays "shadow"; the usage plan has "enforce"`) {
		t.Errorf("edited plan: got %q, %v", kept, err)
	}

	inForce.Plans[0].Allow = nil
	if _, err := merge(&inForce, m.policy); err == nil ||
		!strings.Contains(err.Error(), "plan Bronze exists and opens other routes") {
		t.Errorf("a plan that opens everything: got %v", err)
	}
}

// With -shadow the plans count and deny nothing.
func TestShadow(t *testing.T) {
	e, err := readExport(exported(t, map[string]string{"plans.json": twoPlans, "p1.json": oneMember,
		"p2.json": `{"items": []}`}), nil)
	if err != nil {
		t.Fatal(err)
	}
	m := fromUsagePlans(e)
	m.shadow()
	for _, p := range m.policy.Plans {
		if p.Mode != policy.Shadow {
			t.Errorf("plan %s has mode %q", p.Name, p.Mode)
		}
	}
}
