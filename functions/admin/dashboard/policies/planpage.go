package policies

import (
	"cmp"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"time"

	"tidegate/functions/admin/app"
	"tidegate/functions/admin/dashboard/changes"
	"tidegate/functions/admin/dashboard/page"
	"tidegate/functions/admin/dashboard/wording"
	"tidegate/functions/admin/policydoc"
	"tidegate/internal/answer"
	"tidegate/internal/cause"
	"tidegate/internal/enforce"
	"tidegate/internal/limits"
	"tidegate/internal/policy"
	"tidegate/internal/records"
	"tidegate/web/templates"
)

const (
	planKeysShown  = 20
	trialKeysShown = 10
)

// planPath returns the address of a plan's page.
func (d *pages) planPath(number int) string { return d.Path("/policies/plans/" + strconv.Itoa(number)) }

func (d *pages) showPlan(w http.ResponseWriter, r *http.Request) error {
	set, err := d.keys.Set(r.Context())
	if err != nil {
		return page.Failed("read policy", err)
	}
	number, err := strconv.Atoi(r.PathValue("number"))
	p, exists := set.PlanByNumber(number)
	if err != nil || !exists {
		return page.Problem{Status: http.StatusNotFound, Heading: "Plan not found",
			Advice: "It may have been deleted or renamed.",
			Action: templates.Choice{Text: "Go to policies", Address: d.Path("/policies")}}
	}
	since, err := d.TrialSince(r.Context(), set, p.Number)
	if err != nil {
		return page.Failed("read audit", err)
	}
	use, err := d.keys.PlanUse(r.Context(), set, p, since)
	if err != nil {
		return page.Failed("read use", err)
	}
	counts, err := d.keys.PlanCounts(r.Context(), set)
	if err != nil {
		return page.Failed("count keys", err)
	}
	view := d.planPage(r, p, use, since, counts[p.Number])
	return d.RenderLive(w, r, templates.PlanLive(view), templates.Plan(view))
}

func (d *pages) planPage(r *http.Request, p policy.Plan, use app.PlanUse, since time.Time,
	keys int64) templates.PlanPage {
	at, name := d.planPath(p.Number), page.Clip(p.Name, page.MaxName)
	all := page.Address(d.Path("/keys"), url.Values{"plan": {strconv.Itoa(p.Number)}})
	v := templates.PlanPage{
		Page: d.Page(r, "Plan "+name), Name: name, Live: d.Live(r, at, nil, time.Now()),
		Trail:   []templates.Choice{{Text: "Policies", Address: d.Path("/policies")}},
		Figures: planFigures(use, keys, all), Facts: d.planFacts(p),
		Limits: d.planLimits(p, use.Keys, page.CanEdit(r)),
		Shadow: d.trial(p, use, since, page.CanEdit(r)),
		All:    templates.Choice{Text: "All keys of this plan (" + page.Number(keys) + ")", Address: all},
	}
	v.Live.Outage = wording.Outage([]policy.Plan{p})
	if !use.All {
		v.Read = "The plan has " + app.KeyCount(keys) + ". Figures are of " +
			page.Number(int64(len(use.Keys))) + ": the first by name, and those denied or near a limit."
	}
	for _, k := range use.Keys[:min(len(use.Keys), planKeysShown)] {
		if app.Share(k.Fullest()) > 0 {
			v.Keys = append(v.Keys, d.planKeyRow(k))
		}
	}
	v.Live.Summary = v.Figures[1].Value + " keys at a limit, " + v.Figures[2].Value + " near one"
	if page.CanEdit(r) {
		v.Actions = []templates.Choice{{Text: "Edit", Address: at + "/edit", Current: true},
			{Text: "New key", Address: d.Path("/keys/new?plan=" + url.QueryEscape(p.Name))}}
		if keys == 0 {
			v.Actions = append(v.Actions, templates.Choice{Text: "Delete", Address: at + "/delete"})
		}
	}
	return v
}

func planFigures(use app.PlanUse, keys int64, all string) []templates.Figure {
	var full, near int64
	var sum records.Counts
	for _, k := range use.Keys {
		sum = sum.Plus(k.Calls)
		switch fullest := k.Fullest(); {
		case fullest.Requests == 0:
		case fullest.Full():
			full++
		case fullest.NearlyUsedUp():
			near++
		}
	}
	return []templates.Figure{
		{Name: "Keys", Value: page.Number(keys), Address: all},
		{Name: "At a limit", Value: page.Number(full)},
		{Name: "Near a limit", Value: page.Number(near)},
		{Name: "Calls, last hour", Value: page.Number(sum.Calls())},
		{Name: "Denied, last hour", Value: page.Number(sum.Denied),
			Note: app.ShareWords(sum.Denied, sum.Calls())},
		{Name: "Refused, last hour", Value: page.Number(sum.Refused)},
	}
}

func (d *pages) planFacts(p policy.Plan) []templates.Fact {
	return []templates.Fact{
		{Name: "If Valkey is unavailable", Value: policydoc.DegradedText(p)},
		{Name: "Open routes", Value: page.Clip(policydoc.OpensText(p.Opens), wording.MaxText)},
		{Name: "Changes", Value: "audit of this plan", Address: page.Address(d.Path("/audit"),
			url.Values{"subject": {"plan " + p.Name}})},
	}
}

// planLimits describes the use of each limit by the keys for which it holds.
func (d *pages) planLimits(p policy.Plan, keys []app.PlanKey, edits bool) []templates.PlanLimit {
	rows := make([]templates.PlanLimit, len(p.Limits))
	for i, l := range p.Limits {
		var used []int64
		row := templates.PlanLimit{Limit: l.Rate(), Marks: l.Marks(), Median: "–", High: "–", Highest: "–"}
		if edits && !l.Shadow {
			row.Try = page.Address(d.planPath(p.Number)+"/edit", url.Values{"try": {l.String()}})
		}
		for _, k := range keys {
			at := slices.IndexFunc(k.Limits, func(s enforce.LimitState) bool {
				return s.Source == limits.FromPlan && s.Index == i && !s.CountsOnly && !s.Unread
			})
			if k.Status != policy.Active || at < 0 {
				continue
			}
			n := k.Limits[at].Used()
			if n > 0 && (len(used) == 0 || n > slices.Max(used)) {
				row.Fullest = d.keyLink(k.Subject)
			}
			used = append(used, n)
		}
		if len(used) > 0 {
			slices.Sort(used)
			row.Median, row.High = usedText(used, 50, l), usedText(used, 95, l)
			row.Highest = usedText(used, 100, l)
		}
		rows[i] = row
	}
	return rows
}

// usedText returns the use that a percentage of the keys do not exceed. used is sorted.
func usedText(used []int64, percent int, l limits.Limit) string {
	n := used[(len(used)*percent+99)/100-1]
	return page.Number(n) + " (" + app.ShareWords(n, l.Requests) + ")"
}

func (d *pages) keyLink(s app.Subject) templates.Choice {
	return templates.Choice{Text: page.Clip(s.Name, page.MaxName), Address: d.Path("/keys/" + s.ID)}
}

func (d *pages) planKeyRow(k app.PlanKey) templates.PlanKey {
	return templates.PlanKey{Key: d.keyLink(k.Subject), Badges: wording.Badges(k.Subject),
		Window: wording.WindowAt(k.Fullest(), time.Now()),
		Calls:  page.Number(k.Calls.Calls()), Denied: page.Number(k.Calls.Denied)}
}

// trial counts what the limits of a plan in shadow would have denied since a time. It
// returns nil if the plan has none.
func (d *pages) trial(p policy.Plan, use app.PlanUse, since time.Time, edits bool) *templates.Trial {
	shadow := changes.ShadowLimits(p.Limits)
	if len(shadow) == 0 {
		return nil
	}
	t := &templates.Trial{}
	t.Limits, t.Result = d.tried(p.Limits, use.Shadow, p, since, edits)
	names := map[string]bool{}
	for _, l := range shadow {
		names[answer.NameOf(l)] = true
	}
	type hit struct {
		key          app.PlanKey
		would, calls int64
	}
	var hits []hit
	newly := 0
	for _, k := range use.Keys {
		h := hit{key: k}
		for _, kind := range k.Trial.ByKind() {
			if kind.Cause == cause.Shadow && names[kind.Limit] {
				h.would += kind.Calls
			}
		}
		if h.would == 0 {
			continue
		}
		sum := k.Trial.Sum()
		if h.calls = sum.Calls(); sum.Denied == 0 {
			newly++
		}
		hits = append(hits, h)
	}
	slices.SortStableFunc(hits, func(a, b hit) int { return cmp.Compare(b.would, a.would) })
	for _, h := range hits[:min(len(hits), trialKeysShown)] {
		t.Keys = append(t.Keys, templates.TrialKey{Key: d.keyLink(h.key.Subject),
			Would: page.Number(h.would), Calls: page.Number(h.calls)})
	}
	count := app.KeyCount(int64(len(hits)))
	if !use.All {
		count = "at least " + count
	}
	if !since.After(time.Now()) {
		t.Result += ", of " + count + "; " + page.Number(int64(newly)) + " newly denied"
	}
	t.Result += "."
	return t
}
