package enforce

import (
	"cmp"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/valkey-io/valkey-go"

	"tidegate/internal/limiter"
	"tidegate/internal/limits"
	"tidegate/internal/policy"
	"tidegate/internal/testing/tier"
	"tidegate/internal/testing/valkeytest"
)

// The oracle knows nothing of states, keys and steps. It has a list of costs for each
// identity of a count, which it makes up from what a limit says. No time passes: package
// limiter's own oracle has the windows.

// entry is what one call added to a count.
type entry struct {
	call int
	cost int64
}

// oracle counts calls. Lists are by an identity in words.
type oracle struct {
	lists map[string][]entry
	costs map[int]map[string]int64 // by call and list
}

func (o *oracle) used(list string) (sum int64) {
	for _, e := range o.lists[list] {
		sum += e.cost
	}
	return sum
}

func (o *oracle) add(list string, call int, cost int64) {
	if cost > 0 {
		o.lists[list] = append(slices.Clone(o.lists[list]), entry{call, cost})
	}
	if o.costs[call] == nil {
		o.costs[call] = map[string]int64{}
	}
	o.costs[call][list] = cost
}

// asked is a limit that applies to a call, as the oracle sees it.
type asked struct {
	limits.Limit
	identity string // of the count
	shared   bool
	group    bool
	replaced bool
	cost     int64
	settles  bool
	setter   string
	plan     string         // that set it
	billing  limits.Billing // of whom it counts
}

// list returns the name of the list that the limit reads.
func (a *asked) list() string {
	name := a.plain()
	if a.CountDenied {
		name += " attempts"
	}
	if a.Shadow {
		name += " shadow"
	}
	return name
}

// plain returns the name of the list of calls that passed.
func (a *asked) plain() string {
	switch a.Algorithm {
	case limiter.TokenBucket:
		return fmt.Sprint(a.identity, " bucket ", a.Window, " ", a.setter, a.plan)
	case limiter.Counter:
		return fmt.Sprint(a.identity, " counter ", a.Window)
	case limiter.FixedWindow:
		return fmt.Sprint(a.identity, " fixed ", a.Window, a.Calendar, a.Zone, a.billing)
	default:
		return a.identity
	}
}

// request is one of the calls that the test makes, and what it means: the routes that it
// falls under, most specific first, and the values of its parameters.
type request struct {
	text   string
	routes []string
	values map[string]string
}

var requests = []request{
	{"GET /search", []string{"search"}, nil},
	{"GET /find/x", []string{"search"}, nil},
	{"GET /find/y", []string{"search"}, nil},
	{"POST /items/a", []string{"items"}, map[string]string{"item": "a"}},
	{"POST /items/b", []string{"items"}, map[string]string{"item": "b"}},
	{"POST /chat", []string{"chat"}, nil},
	{"GET /free", []string{"free"}, nil},
	{"GET /other", nil, nil},
}

// patternOf has the pattern of the route search that each of its calls falls under.
var patternOf = map[string]string{"GET /search": "GET /search", "GET /find/x": "GET /find/{q}",
	"GET /find/y":   "GET /find/{q}",
	"POST /items/a": "POST /items/{item}", "POST /items/b": "POST /items/{item}"}

// costs has what calls of routes cost by unit.
var costs = map[string]map[string]int64{
	"search": {"": 2}, "items": {"": 1, "input": 3}, "chat": {"": 3, "input": 4, "output": 5},
}

// history is a random sequence of calls and edits, with the oracle beside it.
type history struct {
	*world
	oracle
	random *rand.Rand
	log    []string
	open   []settleable
	since  crossings
}

type settleable struct {
	text   string
	call   int
	asked  []asked
	key    string
	caller []string // its features, at the call
	events []string // since the call
}

func (h *history) say(format string, args ...any) {
	h.log = append(h.log, fmt.Sprintf(format, args...))
}

func pick[T any](r *rand.Rand, all ...T) T { return all[r.IntN(len(all))] }

// limit returns a random limit of a plan, or of the policy if shared is set.
func (h *history) limit(inPolicy, override bool) string {
	r := h.random
	unit := pick(r, "", "", "", " calls", " input")
	on := pick(r, "", "", ", on search", ", on items", ", on chat", ", except search", ", on POST /chat/")
	who := pick(r, "", ", each caller")
	if !override {
		who = pick(r, "", "", ", each group", ", together", ", each address")
	}
	switch {
	case on == ", on items" && r.IntN(2) == 0:
		who = ", each caller and {item}"
		if !override && r.IntN(2) == 0 {
			who = ", each {item}"
		}
	case (on == ", on search" || on == ", on items") && r.IntN(3) == 0:
		who = ", each caller and pattern"
	}
	if inPolicy && who == "" {
		who = ", each caller"
	}
	window := pick(r, "12 hours", "24 hours", "40 days")
	text := fmt.Sprintf("%d%s per %s%s%s", 5+r.IntN(pick(r, 20, 100)), unit, window,
		strings.ReplaceAll(on, "/chat/", "/chat/x"), who)
	if own := who == "" || who == ", each caller"; own && r.IntN(6) == 0 {
		return text + ", denied calls count" + pick(r, "", "", ", shadow")
	}
	if r.IntN(8) == 0 && !strings.Contains(text, "together") && !strings.Contains(text, "address") &&
		!strings.Contains(text, "each {") {
		_, marks, _ := strings.Cut(text, "s,")
		return strings.TrimSuffix(fmt.Sprintf("%d at once,%s", 1+r.IntN(4), marks), ",") + ", up to 20 hours"
	}
	if r.IntN(8) == 0 && (strings.Contains(who, "caller") || strings.Contains(who, "group") || who == "") {
		text = strings.Replace(text, window, "billing month", 1)
	} else {
		text += pick(r, "", "", "", ", counter", ", fixed window", ", token bucket")
	}
	return text + pick(r, "", "", "", ", shadow")
}

// lifting returns a word of an override that lifts limits.
func (h *history) lifting() string {
	return pick(h.random, "no limit", "no limit calls", "no limit at once") +
		pick(h.random, "", "", ", on search", ", on chat", ", except search")
}

// said returns a limit without what goes without saying.
func said(text string) string { return strings.Replace(text+",", ", each caller,", ",", 1) }

// unnumbered returns what was said without the number and the mark of shadow.
func unnumbered(text string) string {
	_, rest, _ := strings.Cut(said(strings.TrimSuffix(text, ", shadow")), " ")
	return rest
}

func (h *history) list(n int, inPolicy, override bool) []string {
	var texts []string
	if override && h.random.IntN(3) == 0 {
		texts = append(texts, h.lifting())
	}
	for range h.random.IntN(n + 1) {
		text := h.limit(inPolicy, override)
		if slices.ContainsFunc(texts, func(other string) bool {
			return said(other) == said(text) ||
				strings.Contains(text, "bucket") && unnumbered(other) == unnumbered(text)
		}) {
			continue // a limit that is there twice is refused, and so is a second bucket
		}
		texts = append(texts, text)
	}
	return texts
}

// edit changes the policy or a key.
func (h *history) edit() { h.change(h.random.IntN(11), pick(h.random, "one", "two", "three")) }

// between makes changes that concern one of the open calls, and settles it.
func (h *history) between() error {
	if len(h.open) == 0 {
		return nil
	}
	i := h.random.IntN(len(h.open))
	for _, n := range pick(h.random, []int{}, []int{0}, []int{1}, []int{2}, []int{3}, []int{3, 4}, []int{5},
		[]int{6}, []int{8}, []int{5, 9}, []int{5, 9, 10}) {
		if name := h.open[i].key; name != "four" { // whom only its tokens change
			h.change(n, name)
		}
	}
	return h.settle(i)
}

// change makes the change of a kind, of the key or its group where it is of one.
func (h *history) change(kind int, name string) {
	r := h.random
	switch kind {
	case 0:
		plan, texts := pick(r, "free", "pro"), h.list(4, false, false)
		h.say("plan %s: %q", plan, texts)
		h.plan(plan, texts...)
		h.happened("plan edited", func(k policy.Key) bool { return k.Plan == plan })
	case 1:
		texts := h.list(3, true, false)
		h.say("policy: %q", texts)
		h.save(func(s *policy.Set) { s.Limits = parseAll(h.t, texts) })
		h.happened("policy edited", func(policy.Key) bool { return true })
	case 2:
		plan := pick(r, "free", "pro")
		h.say("%s to %s", name, plan)
		h.happenedTo("moved to another plan", name, h.keys[name].Plan != plan)
		h.key(name, plan)
	case 3:
		texts := h.list(3, false, true)
		h.say("override of %s: %q", name, texts)
		h.happenedTo("override", name, true)
		h.key(name, h.keys[name].Plan, func(k *policy.Key) {
			k.Override = &policy.Override{Limits: parseAll(h.t, texts), Reason: "a test"}
		})
	case 4:
		h.say("no override of %s", name)
		h.happenedTo("override ends", name, h.keys[name].Override != nil)
		h.key(name, h.keys[name].Plan, func(k *policy.Key) { k.Override = nil })
	case 5:
		group := pick(r, "", "acme", "beta")
		h.say("%s to group %q", name, group)
		h.happenedTo("moved to another group", name, h.keys[name].Group != group)
		h.key(name, h.keys[name].Plan, func(k *policy.Key) { k.Group = group })
	case 6, 7: // no billing month begins today or tomorrow
		b := limits.Billing{Day: 1 + (time.Now().Day()+5+r.IntN(15))%28, Zone: pick(r, "", "Asia/Tokyo")}
		if r.IntN(2) == 0 {
			h.say("billing of %s: %v", name, b)
			h.happenedTo("billing", name, true)
			h.key(name, h.keys[name].Plan, func(k *policy.Key) { k.Billing = b })
			return
		}
		group := pick(r, "acme", "beta")
		h.say("billing of group %s: %v", group, b)
		h.happened("billing", func(k policy.Key) bool { return k.Group == group })
		h.save(func(s *policy.Set) {
			s.GroupBilling = maps.Clone(s.GroupBilling)
			if s.GroupBilling == nil {
				s.GroupBilling = map[string]limits.Billing{}
			}
			s.GroupBilling[group] = b
		})
	case 8:
		h.say("reset %s", name)
		h.happenedTo("reset", name, true)
		h.key(name, h.keys[name].Plan, func(k *policy.Key) { k.Reset = h.serverNow() })
		for list := range h.lists {
			if strings.HasPrefix(list, "caller "+name+" ") {
				delete(h.lists, list)
			}
		}
	case 9:
		group, texts := cmp.Or(h.keys[name].Group, "acme"), h.list(3, false, true)
		h.say("override of group %s: %q", group, texts)
		h.groupOverride(group, &policy.Override{Limits: parseAll(h.t, texts), Reason: "a test"})
		h.happened("override of its group", func(k policy.Key) bool { return k.Group == group })
	case 10:
		group := cmp.Or(h.keys[name].Group, "acme")
		h.say("no override of group %s", group)
		h.happened("override of its group ends", func(k policy.Key) bool {
			_, has := h.policy.GroupOverrides[group]
			return has && k.Group == group
		})
		h.groupOverride(group, nil)
	}
}

func (h *history) groupOverride(group string, o *policy.Override) {
	h.save(func(s *policy.Set) {
		s.GroupOverrides = maps.Clone(s.GroupOverrides)
		if s.GroupOverrides == nil {
			s.GroupOverrides = map[string]policy.Override{}
		}
		if delete(s.GroupOverrides, group); o != nil {
			s.GroupOverrides[group] = *o
		}
	})
}

// overrideOf returns the override in force for a key, its own before its group's.
func (h *history) overrideOf(k policy.Key) *policy.Override {
	if k.Override != nil {
		return k.Override
	}
	if o, has := h.policy.GroupOverrides[k.Group]; has {
		return &o
	}
	return nil
}

// asToken returns a call of a caller without a record, whose token or backend names a plan
// and a group, and the key that it amounts to.
func (h *history) asToken(call Call) (Call, policy.Key) {
	plan, group := pick(h.random, "", "free", "pro"), pick(h.random, "", "acme", "beta")
	call.Kind, call.Subject, call.Plan, call.Group = policy.Token, "four-of-tokens", plan, group
	return call, policy.Key{ID: call.Subject, Kind: policy.Token, Plan: cmp.Or(plan, "free"), Group: group}
}

// applying lists the limits that apply to a call of a key.
func (h *history) applying(name string, k policy.Key, q request) []asked {
	plan, _ := h.policy.Plan(k.Plan)
	override := h.overrideOf(k)
	var all []asked
	add := func(list []limits.Limit, setter, planName string) {
		for _, l := range list {
			if l.Lifted {
				continue
			}
			if a, ok := h.ask(l, name, k, planName, q); ok {
				a.setter, a.plan = setter, planName
				if o := override; o != nil && setter != "override" && l.Who.OfCaller() {
					a.replaced = slices.ContainsFunc(o.Limits, func(by limits.Limit) bool {
						return max(by.Who, limits.EachCaller) == max(l.Who, limits.EachCaller) &&
							by.Param == l.Param &&
							by.Unit == l.Unit && by.AtOnce == l.AtOnce && by.On == l.On &&
							slices.Equal(by.Except, l.Except) && !by.Shadow
					}) || setter == "plan" && len(o.Limits) == 0
				}
				all = append(all, a)
			}
		}
	}
	if override != nil {
		add(override.Limits, "override", "")
	}
	add(plan.Limits, "plan", plan.Name)
	add(h.policy.Limits, "policy", "")
	return all
}

// ask returns a limit as it applies to a call; ok is false if it does not.
func (h *history) ask(l limits.Limit, name string, k policy.Key, plan string, q request) (a asked, ok bool) {
	group := k.Group
	if l.On != "" && !slices.Contains(q.routes, l.On) {
		return a, false // no call falls under the other pattern
	}
	for _, except := range l.Except {
		if slices.Contains(q.routes, except) {
			return a, false
		}
	}
	a = asked{Limit: l, shared: !l.Who.OfCaller(), group: l.Who == limits.EachGroup}
	if l.Calendar == limiter.BillingMonth {
		if a.billing = k.Billing; a.group {
			a.billing = h.policy.GroupBilling[group]
		}
		a.billing.Day = max(a.billing.Day, 1)
	}
	switch l.Who {
	case limits.EachGroup:
		if a.identity = "group " + group; group == "" {
			return a, false
		}
	case limits.EachAddress:
		a.identity = "address"
	case limits.EachParam:
		a.identity = "value " + q.values[l.Param]
	case limits.CallerParam:
		a.identity = "caller " + name + " value " + q.values[l.Param]
	case limits.CallerPattern:
		a.identity = "caller " + name + " pattern " + patternOf[q.text]
	case limits.Together:
		a.identity = "together"
	default:
		a.identity = "caller " + name + " itself"
	}
	if a.shared && plan != "" {
		a.identity += " plan " + plan
	}
	if l.AtOnce {
		a.identity += " at once"
	}
	a.identity += fmt.Sprintf(" unit %q on %q except %q", l.Unit, l.On, l.Except)
	switch route := append(slices.Clone(q.routes), "")[0]; {
	case l.Unit == limits.Calls:
		a.cost, a.settles = 1, l.AtOnce
	case route == "free":
		a.cost = 0
	case route == "" && l.Unit != "":
		return a, false
	case route == "":
		a.cost = 1
	default:
		if a.cost, ok = costs[route][l.Unit]; !ok {
			return a, false
		}
		a.settles = route == "chat" || route == "items"
	}
	return a, true
}

// call makes a call, and compares its answer with the lists.
func (h *history) call() error {
	name, q := pick(h.random, "one", "two", "three", "four"), pick(h.random, requests...)
	k, call := h.keys[name], h.callOf(name, q.text)
	if name == "four" {
		call, k = h.asToken(call)
	}
	all := h.applying(name, k, q)
	h.calls++
	explained, err := h.Explain(h.t.Context(), &h.policy, k, call)
	if err != nil {
		return err
	}
	got, err := h.Check(h.t.Context(), call)
	if err != nil {
		return err
	}
	own := slices.DeleteFunc(slices.Clone(all), func(a asked) bool { return a.shared })
	allowed := h.fit(own, got)
	reached := allowed
	if reached {
		allowed = h.fit(all, got)
	}
	h.say("%d: %s %s: %v", h.calls, name, q.text, got.Allowed)
	if got.Allowed != allowed || explained.Result.Allowed != allowed {
		return fmt.Errorf("allowed %v, explained %v by %+v, want %v by %+v", got.Allowed,
			explained.Result.Allowed, got.Limits, allowed, all)
	}
	if err := h.compare(got, all, reached); err != nil {
		return err
	}
	h.count(k, name, all, allowed, got)
	return nil
}

// fit reports whether the enforced ones of some limits have room.
func (h *history) fit(all []asked, _ Result) bool {
	return !slices.ContainsFunc(all, func(a asked) bool {
		return !a.Shadow && !a.replaced && !h.fits(a)
	})
}

func (h *history) fits(a asked) bool {
	return a.cost == 0 || a.cost <= a.Requests-h.used(a.list())
}

// compare compares what the result says of each limit with the lists.
func (h *history) compare(got Result, all []asked, reached bool) error {
	if len(got.Limits) != len(all) {
		return fmt.Errorf("%d limits apply, want %d", len(got.Limits), len(all))
	}
	for _, l := range got.Limits {
		i := slices.IndexFunc(all, func(a asked) bool {
			return a.Equal(l.Limit) && a.replaced == l.CountsOnly &&
				(a.setter == "override") ==
					(l.Source == limits.FromOverride || l.Source == limits.FromGroupOverride) &&
				(a.setter == "policy") == (l.Source == limits.FromPolicy)
		})
		if i < 0 {
			return fmt.Errorf("%s does not apply", l.Limit)
		}
		a := all[i]
		switch {
		case a.replaced || a.shared && !reached:
			if !l.Unread {
				return fmt.Errorf("%s was asked", l.Limit)
			}
		case a.CountDenied && (!reached || a.Shadow && h.shadowDenies(all, a.list())):
			// a denied attempt waits for itself, too
			a.Requests -= a.cost
			if l.Full() == h.fits(a) {
				return fmt.Errorf("%s: full %v, used %d after the attempt, cost %d", l.Limit, l.Full(),
					h.used(a.list()), a.cost)
			}
		case l.Full() == h.fits(a):
			return fmt.Errorf("%s: full %v, used %d, cost %d", l.Limit, l.Full(), h.used(a.list()), a.cost)
		}
	}
	return nil
}

// shadowDenies reports whether a limit in shadow that reads a list has no room.
func (h *history) shadowDenies(all []asked, list string) bool {
	return slices.ContainsFunc(all, func(a asked) bool {
		return a.Shadow && !a.replaced && a.list() == list && !h.fits(a)
	})
}

// count adds a call to the lists.
func (h *history) count(k policy.Key, name string, all []asked, allowed bool, got Result) {
	shadowFits := map[string]bool{} // by list: the call fits all its limits in shadow
	for _, a := range all {
		if a.Shadow && !a.replaced {
			fits, known := shadowFits[a.list()]
			shadowFits[a.list()] = (fits || !known) && h.fits(a)
		}
	}
	added := map[string]bool{}
	add := func(list string, cost int64) {
		if !added[list] {
			added[list] = true
			h.add(list, h.calls, cost)
		}
	}
	for _, a := range all {
		if a.CountDenied { // attempts, denied ones too
			add(a.list(), a.cost)
		}
		if !allowed {
			continue
		}
		add(a.plain(), a.cost)
		if a.Shadow && !a.CountDenied {
			if fits, asked := shadowFits[a.list()]; fits || !asked {
				add(a.list(), a.cost)
			}
		}
	}
	if got.Settlement != "" {
		h.open = append(h.open, settleable{text: got.Settlement, call: h.calls, asked: all, key: name,
			caller: h.featuresOf(k)})
	}
}

// settle settles an open call.
func (h *history) settle(i int) error {
	s := h.open[i]
	h.open = slices.Delete(h.open, i, i+1)
	actual := map[string]int64{"": int64(h.random.IntN(8)), "input": int64(h.random.IntN(60))}
	if h.random.IntN(4) == 0 {
		delete(actual, "input")
	}
	h.say("settle %d: %v", s.call, actual)
	h.since.visit(s)
	if _, err := h.Settle(h.t.Context(), s.text, limits.Costs{Units: actual}); err != nil {
		return err
	}
	done := map[string]bool{}
	for _, a := range s.asked {
		cost, given := actual[a.Unit]
		if a.AtOnce {
			cost, given = 0, true
		}
		if !given || !a.settles || a.shared && !a.group {
			continue
		}
		if a.group {
			cost = min(cost, 10*a.cost)
		}
		lists := []string{a.plain()}
		if a.Shadow && !a.CountDenied {
			lists = append(lists, a.list())
		}
		for _, list := range lists {
			if !done[list] {
				done[list] = true
				h.move(list, s.call, a.cost, cost)
			}
		}
	}
	return nil
}

// move moves what a call added to a list. What was reset is not given back, and what is
// charged counts now.
func (h *history) move(list string, call int, took, cost int64) {
	i := slices.IndexFunc(h.lists[list], func(e entry) bool { return e.call == call })
	switch {
	case cost > took && h.everTook(list, call):
		h.add(list, -call, cost-took)
	case i >= 0:
		h.lists[list] = slices.Clone(h.lists[list])
		h.lists[list][i].cost = min(h.lists[list][i].cost, cost)
	}
}

// everTook reports whether a call was added to a list, perhaps before a reset.
func (h *history) everTook(list string, call int) bool {
	_, took := h.costs[call][list]
	return took
}

func newHistory(t testing.TB, url string, seed uint64, since crossings) *history {
	h := &history{world: newWorld(t, url), random: rand.New(rand.NewPCG(seed, 47)), since: since,
		oracle: oracle{lists: map[string][]entry{}, costs: map[int]map[string]int64{}}}
	unitCosts := func(name string) limits.Costs { return limits.Costs{Units: costs[name]} }
	h.save(func(s *policy.Set) {
		s.Routes = []limits.Route{
			{Name: "search", Match: patternsOf(t, "GET /search", "GET /find/{q}"), Cost: unitCosts("search")},
			{Name: "items", Match: patternsOf(t, "POST /items/{item}"), Cost: unitCosts("items"),
				Settle: true},
			{Name: "chat", Match: patternsOf(t, "POST /chat"), Cost: unitCosts("chat"), Settle: true},
			{Name: "free", Match: patternsOf(t, "GET /free"), Cost: limits.Costs{Free: true}},
		}
		s.Plans = []policy.Plan{{Name: "free"}, {Name: "pro"}}
		s.TokenPlan = "free"
	})
	for _, name := range []string{"one", "two", "three"} {
		h.key(name, pick(h.random, "free", "pro"), func(k *policy.Key) {
			k.Group = pick(h.random, "", "acme", "beta")
		})
	}
	return h
}

// run plays a history of some steps.
func (h *history) run(steps int) error {
	for range 6 {
		h.edit()
	}
	for range steps {
		var err error
		switch n := h.random.IntN(12); {
		case n < 2:
			h.edit()
		case n < 5:
			err = h.between()
		default:
			err = h.call()
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// What checks allow, what their answers say and what settlements move is what a list of
// calls says, whatever is edited in between. The histories reach every crossing of what a
// limit and a caller are with what may happen before a settlement.
func TestChecksAgreeWithLists(t *testing.T) {
	histories := tier.Histories(1000)
	url := valkeytest.Start(t)
	since := crossings{}
	for seed := range histories {
		t.Run(fmt.Sprint(seed), func(t *testing.T) { // which closes its connections
			h := newHistory(t, url, uint64(seed), since)
			if err := h.run(100); err != nil {
				t.Fatalf("%v\n%s", err, strings.Join(h.log, "\n"))
			}
			if err := h.client.Do(t.Context(), h.client.B().Flushall().Build()).Error(); err != nil &&
				!valkey.IsValkeyNil(err) {
				t.Fatal(err)
			}
		})
		if t.Failed() {
			return
		}
	}
	since.report(t, histories == tier.Histories(1000) && !testing.Short())
}
