package limits

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	"tidegate/internal/limiter"
	"tidegate/internal/route"
)

func pick(r *rand.Rand, all ...string) string { return all[r.IntN(len(all))] }

// randomLimit returns the text of a limit, valid or not.
func randomLimit(r *rand.Rand) string {
	rate := fmt.Sprintf("%d%s per %s", 1+r.IntN(9), pick(r, "", "", "", " calls", " input", "k"),
		pick(r, "10 seconds", "minute", "60 seconds", "day", "24 hours", "billing month", "calendar day",
			"calendar day (Asia/Tokyo)"))
	rate = pick(r, rate, rate, rate, rate, "3 at once", "no limit", "no limit calls")
	return rate +
		pick(r, "", "", "", ", on search", ", on items", ", on GET /search", ", on POST /items/{item}") +
		pick(r, "", "", "", ", except search", ", except items", ", except GET /other") +
		pick(r, "", "", ", each caller", ", each group", ", each address", ", together", ", each {item}",
			", each caller and {item}", ", each caller and pattern") +
		pick(r, "", "", ", counter", ", fixed window", ", token bucket", ", token bucket") +
		pick(r, "", "", "", ", denied calls count", ", notify 80 %") + pick(r, "", "", ", shadow")
}

// grow appends random limits to a list, as long as the policy stays valid.
func grow(r *rand.Rand, list *[]Limit, n int, valid func() bool) {
	for range n {
		l, err := Parse(randomLimit(r))
		if err != nil {
			continue
		}
		if *list = append(*list, l); !valid() {
			*list = (*list)[:len(*list)-1]
		}
	}
}

// What validation passes can be counted: whoever calls, and whatever they call, each
// subject's limits make a step.
func TestValidPoliciesCanBeCounted(t *testing.T) {
	counted := 0
	calls := []string{"GET /search", "POST /items/a", "GET /other"}
	for seed := range uint64(1_500) {
		r := rand.New(rand.NewPCG(seed, 53))
		p := a(t, `
			route search {"cost":2,"input":3}: GET /search; GET /find/{q}
			route items settle: POST /items/{item}`)
		p.Plans = []Plan{{ID: "p", Name: "p"}}
		var override []Limit
		valid := func() bool {
			return len(p.Errors()) == 0 && len(p.OverrideErrors("limits", override, &p.Plans[0])) == 0
		}
		grow(r, &p.Plans[0].Limits, 16, valid)
		grow(r, &p.Limits, 8, valid)
		grow(r, &override, 12, valid)
		router := p.router(t)
		for _, text := range calls {
			method, path, _ := strings.Cut(text, " ")
			call, err := router.Find(route.Call{Method: method, Path: path})
			if err != nil {
				t.Fatal(err)
			}
			for _, caller := range []Caller{
				{Plan: &p.Plans[0], Address: true},
				{Plan: &p.Plans[0], Group: "acme", Address: true, Override: override, InForce: true,
					Source: FromOverride},
			} {
				steps := map[Who][]limiter.Applied{}
				for _, a := range p.Applied(caller, &call) {
					who := a.Who
					if who.OfCaller() {
						who = EachCaller
					}
					periods := limiter.Periods{}
					if a.Calendar != 0 {
						periods = limiter.Periods{1, 2, 3, 4}
					}
					steps[who] = append(steps[who], a.Counted(a.Count.Name(), periods))
				}
				for _, step := range steps {
					counted++
					if _, err := limiter.NewStep(step); err != nil {
						t.Fatalf("%s: %v\nplan %v\npolicy %v\noverride %v", text, err, p.Plans[0].Limits,
							p.Limits, override)
					}
				}
			}
		}
	}
	t.Logf("%d steps", counted)
}
