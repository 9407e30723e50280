package policies

import (
	"net/http"
	"strings"
	"testing"
	"time"

	"tidegate/functions/admin/policydoc"
	"tidegate/internal/limits"
	"tidegate/internal/policy"
)

// twoPlans returns version 4 of a set with the plans free and pro.
func twoPlans() *policy.Set {
	limit := limits.Limit{Requests: 10, Window: time.Minute}
	return &policy.Set{Version: 4, NextNumber: 3, Plans: []policy.Plan{
		{Name: "free", Number: 1, Limits: []limits.Limit{limit}},
		{Name: "pro", Number: 2, Limits: []limits.Limit{limit}},
	}}
}

// An import is rejected with the reason if it is invalid or has another version.
func TestImportRead(t *testing.T) {
	set := twoPlans()
	text, err := policydoc.Write(set)
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		text            string
		status, changes int
		problem         string
	}{
		{string(text), http.StatusOK, 0, ""},
		{strings.Replace(string(text), "version: 4", "version: 3", 1), http.StatusConflict, 0,
			"version 3, the current version is 4"},
		{"plans: [", http.StatusUnprocessableEntity, 0, "Line 1"},
		{"plans: []\n", http.StatusOK, 2, ""},
	} {
		f := policyImport{text: c.text}
		next, status := f.read(set)
		if status != c.status || (next != nil) != (status == http.StatusOK) ||
			!strings.Contains(f.problem, c.problem) || c.problem == "" && f.problem != "" {
			t.Errorf("%.40q: got status %d and problem %q, want %d and %q", c.text, status, f.problem,
				c.status, c.problem)
		}
		if f.preview != nil && len(f.preview.Changes) != c.changes {
			t.Errorf("%.40q: got changes %+v, want %d", c.text, f.preview.Changes, c.changes)
		}
	}
}
