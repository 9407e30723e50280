package migrate

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"

	"tidegate/functions/admin/policydoc"
	"tidegate/internal/limits"
	"tidegate/internal/policy"
)

// A plan opens only the stages of its usage plans. A usage plan that allows no call or
// has no stage adds neither stages nor limits to a key of several plans.
func TestStagesOfKeys(t *testing.T) {
	rate := func(n int64) *throttle { return &throttle{RateLimit: float64(n), BurstLimit: n} }
	stage := func(api string) []apiStage { return []apiStage{{APIID: api, Stage: "prod"}} }
	e := &export{plans: []usagePlan{
		{ID: "slow", Throttle: rate(1), APIStages: stage("a1")},
		{ID: "fast", Throttle: rate(5), APIStages: append(stage("a2"), stage("a1")...)},
		{ID: "blocked", Throttle: rate(0), APIStages: stage("a3")},
		{ID: "parked", Throttle: rate(1000)},
	}}
	tests := []struct {
		of      []string
		plan    string // empty if the key is not imported
		opens   []string
		revoked bool
	}{
		{of: []string{"slow"}, plan: "slow", opens: []string{"a1/prod * *"}},
		{of: []string{"slow", "fast"}, plan: "slow + fast", opens: []string{"a1/prod * *", "a2/prod * *"}},
		{of: []string{"slow", "blocked", "parked"}, plan: "slow", opens: []string{"a1/prod * *"}},
		{of: []string{"blocked", "parked"}, plan: "blocked", opens: []string{"a3/prod * *"}, revoked: true},
		{of: []string{"parked"}},
		{},
	}
	e.members = map[string][]planKey{}
	for i, test := range tests {
		id := fmt.Sprintf("k%d", i)
		e.keys = append(e.keys, apiKey{ID: id, Enabled: true})
		for _, plan := range test.of {
			e.members[plan] = append(e.members[plan], planKey{ID: id})
		}
	}
	m := fromUsagePlans(e, false)
	opens := map[string][]string{}
	set, fieldErrors := m.policy.Set(&policy.Set{})
	if len(fieldErrors) > 0 {
		t.Fatal(fieldErrors)
	}
	for _, plan := range set.Plans {
		for _, pattern := range plan.Opens {
			opens[plan.Name] = append(opens[plan.Name], pattern.String())
		}
		if len(plan.Opens) == 0 {
			t.Errorf("plan %s: got no opens, which opens all routes", plan.Name)
		}
	}
	for i, test := range tests {
		id := fmt.Sprintf("k%d", i)
		at := slices.IndexFunc(m.keys, func(k importedKey) bool { return k.sourceID == id })
		switch {
		case at < 0 && test.plan != "":
			t.Errorf("key of %v: not imported, want it with plan %s", test.of, test.plan)
		case at < 0:
		case m.keys[at].plan != test.plan || m.keys[at].revoked != test.revoked ||
			!slices.Equal(opens[test.plan], test.opens):
			t.Errorf("key of %v: got %+v, which opens %v; want %+v", test.of, m.keys[at],
				opens[m.keys[at].plan], test)
		}
	}
}

// Stages beyond the maximum number of patterns remain closed. The table has a line for
// each.
func TestManyStages(t *testing.T) {
	p := usagePlan{ID: "p"}
	for i := range policy.MaxOpens + 2 {
		s := apiStage{APIID: fmt.Sprintf("a%d", i), Stage: "prod"}
		p.APIStages = append(p.APIStages, s, s)
	}
	m := fromUsagePlans(&export{plans: []usagePlan{p}}, false)
	if got := m.policy.Plans[0].Opens; len(got) != policy.MaxOpens || got[19].API != "a19" {
		t.Errorf("got %d patterns %v, want %d", len(got), got, policy.MaxOpens)
	}
	for _, stage := range []string{"a20/prod", "a21/prod"} {
		want := row{"  API stage " + stage,
			noEquivalent + "a plan opens at most 20 stages: this stage is closed"}
		if !slices.Contains(m.rows, want) {
			t.Errorf("want line %v in %v", want, m.rows)
		}
	}
	if m.lost != 3 { // and the keys that the export does not list
		t.Errorf("got %d lines without an equivalent, want 3", m.lost)
	}
	if err := m.write(""); err != nil {
		t.Error(err)
	}
}

// Of a method's throttles in several plans of one key the looser counts. Throttles beyond
// the maximum number of limits have a line.
func TestManyMethods(t *testing.T) {
	methods := func(rate float64, n int) []apiStage {
		s := apiStage{APIID: "a1", Stage: "prod", Throttle: map[string]throttle{}}
		for i := range n {
			s.Throttle[fmt.Sprintf("/a%02d/*", i)] = throttle{RateLimit: rate, BurstLimit: 5}
		}
		return []apiStage{s}
	}
	m := fromUsagePlans(&export{
		plans:   []usagePlan{{ID: "p", APIStages: methods(5, 1)}, {ID: "q", APIStages: methods(1, 40)}},
		keys:    []apiKey{{ID: "k", Enabled: true}},
		members: map[string][]planKey{"p": {{ID: "k"}}, "q": {{ID: "k"}}}}, true)
	if err := m.write(""); err != nil || len(m.policy.Plans) != 3 {
		t.Fatalf("got %v, %+v, want three plans", err, m.policy)
	}
	list := m.policy.Plans[2].Limits
	got, want := list[0].String(), "5 per second, on a1/prod ANY /a00, token bucket, shadow"
	if got != want || len(list) != limits.MaxPlanLimits {
		t.Errorf("got %s of %d, want %s of %d", got, len(list), want, limits.MaxPlanLimits)
	}
	tooMany := 0
	for _, r := range m.rows {
		if r.becomes == noEquivalent+"a plan has at most 32 limits" {
			tooMany++
		}
	}
	if tooMany != 16 {
		t.Errorf("got %d lines for limits that are too many, want 8 for each of two plans", tooMany)
	}
}

// Names of plans are unique and at most policy.MaxNameLen characters, also when a plan of
// several usage plans has a long name and a longer id.
func TestPlanNames(t *testing.T) {
	var m migration
	names := map[string]bool{}
	long := strings.Repeat("ä", policy.MaxNameLen)
	for _, plan := range []struct{ name, id string }{
		{"basic", "p1"}, {"basic", "p2"}, {"basic", "p2"}, {"", "basic"}, {long, "p3"}, {long, "p4"},
		{long, strings.Repeat("p5+", 50)}, {long, strings.Repeat("p5+", 50)},
	} {
		name := m.planName(plan.name, plan.id)
		if n := utf8.RuneCountInString(name); names[name] || n == 0 || n > policy.MaxNameLen {
			t.Errorf("%s, %s: got name %s of %d characters, want a new one of 1 to %d",
				plan.name, plan.id, name, n, policy.MaxNameLen)
		}
		names[name] = true
		m.policy.Plans = append(m.policy.Plans, policydoc.Plan{Name: name})
	}
}
