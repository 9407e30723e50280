package migrate

import (
	"cmp"
	"slices"
	"strings"

	"tidegate/functions/admin/policydoc"
	"tidegate/internal/apikey"
	"tidegate/internal/limits"
	"tidegate/internal/policy"
)

// importedKey is a key to import.
type importedKey struct {
	sourceID string // its id at AWS
	name     string
	plan     string
	tags     []string
	value    secret // empty to make a new one
	revoked  bool
}

// addKeys adds a row for every key, and the keys to import. plans are by the usage plan's
// id.
func (m *migration) addKeys(e *export, plans map[string]policydoc.Plan) {
	plansOf, listed := e.plansOf(), map[string]bool{}
	for _, k := range e.keys {
		if listed[k.ID] { // a page was exported twice
			continue
		}
		listed[k.ID] = true
		source := "key " + k.ID + " " + clipped(k.Name, policy.MaxNameLen)
		of := plansOf[k.ID]
		if len(of) == 0 {
			m.add(source, noEquivalent+"no usage plan opens an API stage for it: not imported")
			continue
		}
		passing := slices.DeleteFunc(slices.Clone(of), usagePlan.blocked)
		if len(passing) == 0 {
			m.addKey(k, source, plans[of[0].ID].Name, true)
			continue
		}
		m.addKey(k, source, m.planOf(passing, plans), false)
	}
	for _, p := range e.plans {
		for _, member := range e.members[p.ID] {
			if !listed[member.ID] {
				listed[member.ID] = true
				m.add("key "+member.ID+" "+clipped(member.Name, policy.MaxNameLen),
					noEquivalent+"missing in get-api-keys: export the API keys again")
			}
		}
	}
}

func (m *migration) addKey(k apiKey, source, plan string, blocked bool) {
	key := importedKey{
		sourceID: k.ID, name: nameOf(k.Name, k.ID),
		plan: plan, value: k.Value, revoked: !k.Enabled || blocked,
	}
	value := "value kept"
	if _, err := apikey.NewKey(nil).Foreign(string(k.Value)); err != nil {
		key.value, value = "", "value reissued: it "+err.Error()
	}
	if k.Value == "" {
		value = "value reissued: to keep it, export with --include-values"
	}
	state := ""
	switch {
	case !k.Enabled:
		state = ", revoked: not enabled"
	case blocked:
		state = ", revoked: its usage plan allows no call"
	}
	m.add(source, "key of plan %s, %s%s", plan, value, state)
	m.addCut(k.Name, policy.MaxNameLen)
	m.tags(&key, k)
	for _, lost := range []struct{ field, text string }{
		{"description", k.Description}, {"stage keys", strings.Join(k.StageKeys, ", ")},
	} {
		if lost.text != "" {
			m.add("  "+lost.field, noEquivalent+"keys do not have this field")
		}
	}
	m.keys = append(m.keys, key)
}

// tags adds the customer and the tags of a key, up to policy.MaxTags.
func (m *migration) tags(key *importedKey, k apiKey) {
	all := pairs(k.Tags)
	if k.CustomerID != "" {
		all = append([]string{"customer=" + k.CustomerID}, all...)
	}
	for _, tag := range all {
		if text := clipped(tag, policy.MaxTagLen+1); len(key.tags) == policy.MaxTags || text != tag ||
			policy.TagProblem(tag) != "" {
			m.add("  tag "+clipped(tag, policy.MaxTagLen),
				noEquivalent+"a key has at most 10 tags of 50 characters, without commas")
			continue
		}
		key.tags = append(key.tags, tag)
	}
}

// planOf returns the name of a key's plan. A key of several usage plans gets a plan that
// opens the stages of all of them. API Gateway applied one of the usage plans to each
// stage.
func (m *migration) planOf(of []usagePlan, plans map[string]policydoc.Plan) string {
	if len(of) == 1 {
		return plans[of[0].ID].Name
	}
	ids, all := make([]string, len(of)), make([]string, len(of))
	for i, p := range of {
		ids[i], all[i] = p.ID, plans[p.ID].Name
	}
	id := strings.Join(ids, "+")
	if made, found := plans[id]; found {
		return made.Name
	}
	together := usagePlan{ID: id, Throttle: looserThrottle(of), Quota: looserQuota(of)}
	for _, p := range of {
		together.APIStages = append(together.APIStages, p.APIStages...)
	}
	name := m.planName(strings.Join(all, " + "), id)
	m.add("keys of "+strings.Join(all, " and "),
		"plan %s: the looser limit of each kind, counted on all stages together", name)
	plan := policydoc.Plan{Name: name, Limits: policydoc.LimitsOf(m.planLimits(together)),
		Opens: m.opens(together)}
	plans[id] = plan
	m.policy.Plans = append(m.policy.Plans, plan)
	return name
}

// looserThrottle returns the highest rate and the highest burst of the plans; nil if a
// plan has no throttle.
func looserThrottle(of []usagePlan) *throttle {
	var most throttle
	for _, p := range of {
		if p.Throttle == nil {
			return nil
		}
		most = looser(most, *p.Throttle)
	}
	return &most
}

// looser returns the higher rate and the higher burst of two throttles.
func looser(a, b throttle) throttle {
	return throttle{RateLimit: max(a.RateLimit, b.RateLimit), BurstLimit: max(a.BurstLimit, b.BurstLimit)}
}

// looserQuota returns the quota that allows the most calls in a year; nil if a plan has
// no quota.
func looserQuota(of []usagePlan) *quota {
	perYear := func(q *quota) int64 { return min(q.Limit, limits.MaxRequests) * periods[q.Period].perYear }
	if slices.ContainsFunc(of, func(p usagePlan) bool { return p.Quota == nil }) {
		return nil
	}
	most := slices.MaxFunc(of, func(a, b usagePlan) int {
		return cmp.Compare(perYear(a.Quota), perYear(b.Quota))
	})
	return &quota{Limit: most.Quota.Limit, Period: most.Quota.Period}
}
