package migrate

import (
	"strings"
	"testing"

	"tidegate/functions/admin/policydoc"
	"tidegate/internal/policy"
)

func documented(t *testing.T, yaml string) policydoc.Policy {
	t.Helper()
	file, err := policydoc.Read([]byte(yaml))
	if err != nil {
		t.Fatal(err)
	}
	set := file.Set(&policy.Set{})
	return policydoc.PolicyOf(&set)
}

// What exists stays as it is, with a line for each difference, also where a route names
// the pattern of a method. A plan that opens other routes is refused.
func TestMerge(t *testing.T) {
	const same = `limits: [20 per 2 seconds, "5 per second, on a1/prod GET /search"]`
	const migrated = `
plans:
  - name: basic
    ` + same + `
    opens: [a1/prod * *, a2/prod * *]
`
	for _, test := range []struct {
		existing string
		added    int
		kept     string
		refused  string
	}{
		{existing: "version: 1\n", added: 1},
		{existing: migrated},
		{existing: `
plans:
  - {name: basic, limits: [20 per 2 seconds, "5 per second, on search"], opens: [a2/prod * *, a1/prod * *]}
routes:
  - {name: search, match: a1/prod GET /search}
`},
		{existing: `
plans:
  - {name: basic, limits: ["9 per second, shadow"], opens: [a2/prod * *, a1/prod * *]}
`, kept: "plan basic: limits: 9 per second, shadow, not 20 per 2 seconds; 5 per second, " +
			"on a1/prod GET /search"},
		{existing: "plans: [{name: basic, " + same + "}]\n",
			refused: "plan basic exists and opens all routes, but its usage plan opens a1/prod * *, " +
				"a2/prod * *"},
		{existing: "plans: [{name: basic, " + same + ", opens: [a1/prod * *]}]\n",
			refused: "opens a1/prod * *, but"},
		{existing: "plans: [{name: basic, " + same + ", opens: [a1/prod * *, a2/prod * *, /x]}]\n",
			refused: "opens * /x, a1/prod"},
	} {
		p := documented(t, test.existing)
		before := limitsText(append(p.Plans, policydoc.Plan{})[0].Limits)
		added, kept, err := merge(&p, documented(t, migrated))
		refused := ""
		if err != nil {
			refused = err.Error()
		}
		if got := strings.Join(kept, "\n"); added != test.added || got != test.kept ||
			!strings.Contains(refused, test.refused) || (refused == "") != (test.refused == "") {
			t.Errorf("%s: got %d added, %s, %s, want %+v", test.existing, added, got, refused, test)
		}
		if after := limitsText(p.Plans[0].Limits); before != "none" && after != before {
			t.Errorf("%s: the limits are %s, want %s", test.existing, after, before)
		}
	}
}
