//go:build unix

package attacks

import (
	"encoding/json"
	"fmt"
	"net/http"
	"regexp"
	"testing"
)

// settled is the body of the API's answer to a settlement.
type settled struct {
	Reserved, Actual int64
	Partial          bool
}

func (i *installation) settle(t testing.TB, token, settlement string, cost int64) (reply, settled) {
	t.Helper()
	body := fmt.Sprintf(`{"settlement":%q,"cost":%d}`, settlement, cost)
	got := i.site.send(t, http.MethodPost, "/api/v1/settlements", body, machineHeaders(token)...)
	var s settled
	if got.status == http.StatusOK {
		if err := json.Unmarshal([]byte(got.body), &s); err != nil {
			t.Fatal(err)
		}
	}
	return got, s
}

var settlementIn = regexp.MustCompile(`"settlement": *"(tgr_[^"]+)"`)

// settlement returns the settlement that the backend got with a call and echoed.
func (r reply) settlement(t testing.TB) string {
	t.Helper()
	found := settlementIn.FindStringSubmatch(r.body)
	if found == nil {
		t.Fatalf("%d, no settlement in %.600s", r.status, r.body)
	}
	return found[1]
}

// A settlement gives back exactly the unused cost to the caller's own limit, whatever calls
// came in between. The limit of all callers keeps the estimate.
func TestAttackRefunds(t *testing.T) {
	a, i := attack(t, "refunds that are not exact",
		"30 calls of cost 4,000 settled with 500 in another order, with calls in between, at limits "+
			"of 1,000,000 of one caller and of all")
	const calls, cost, used, own, all = 30, 4000, 500, "1,000,000 per 7 minutes", "1,000,000 per 8 minutes"
	i.route(t, "refunds", cost, own+", on refunds, each caller", all+", on refunds, together")
	token := i.machineToken(t, "settle")
	_, secret := i.key(t, wide)
	var open []string
	call := func() reply { return i.rest.get(t, "/refunds", "x-api-key", secret) }
	for range calls {
		open = append(open, call().settlement(t))
	}
	want := map[string]int64{own: 1_000_000 - calls*cost, all: 1_000_000 - calls*cost}
	for n := range calls {
		a.probe()
		at := n * 7 % calls // every one once, since 7 and 30 have no factor in common
		if _, s := i.settle(t, token, open[at], used); s.Partial || s.Actual != used || s.Reserved != cost {
			t.Errorf("settlement %d: %+v", n+1, s)
		}
		got := call()
		want[own] += cost - used - cost
		want[all] -= cost
		for name, want := range want {
			if left := got.remaining(t, name); left != want {
				t.Errorf("after settlement %d %s has %d left, want %d", n+1, name, left, want)
			}
		}
	}
}
