//go:build unix

package attacks

import (
	"encoding/json"
	"fmt"
	"net/http"
	"regexp"
	"testing"
	"time"

	"tidegate/internal/limiter"
	"tidegate/internal/policy"
	"tidegate/internal/route"
)

// settled is the body of the API's answer to a settlement.
type settled struct {
	Reserved, Actual, AboveMax int64
	Partial                    bool
}

func (i *installation) settle(t testing.TB, token, reservation string, cost int64) (reply, settled) {
	t.Helper()
	body := fmt.Sprintf(`{"reservation":%q,"cost":%d}`, reservation, cost)
	got := i.site.send(t, http.MethodPost, "/api/v1/reservations/settle", body, machineHeaders(token)...)
	var s settled
	if got.status == http.StatusOK {
		if err := json.Unmarshal([]byte(got.body), &s); err != nil {
			t.Fatal(err)
		}
	}
	return got, s
}

var reservationIn = regexp.MustCompile(`"reservation": *"(tgr_[^"]+)"`)

// reservation returns the reservation that the backend got with a call and echoed.
func (r reply) reservation(t testing.TB) string {
	t.Helper()
	found := reservationIn.FindStringSubmatch(r.body)
	if found == nil {
		t.Fatalf("%d, no reservation in %.600s", r.status, r.body)
	}
	return found[1]
}

// A settlement gives back exactly the unused cost, whatever calls came in between.
func TestAttackRefunds(t *testing.T) {
	a, i := attack(t, "refunds that are not exact",
		"30 calls of cost 4,000 settled with 500 in another order, with calls in between, at limits "+
			"of 1,000,000 of one caller and of all")
	per := limiter.Limit{Requests: 1_000_000, Window: 7 * time.Minute}
	i.rules(t, policy.Route{
		Name: "refunds", Pattern: route.Pattern{Path: "/refunds"}, Cost: 4000, Settle: true,
		PerKey: []limiter.Limit{per}, Shared: []limiter.Limit{per},
	})
	const calls, cost, used = 30, 4000, 500
	token := i.machineToken(t, "settle")
	_, secret := i.key(t, wide)
	var open []string
	call := func() reply { return i.rest.get(t, "/refunds", "x-api-key", secret) }
	for range calls {
		open = append(open, call().reservation(t))
	}
	want := per.Requests - calls*cost
	for n := range calls {
		a.probe()
		at := n * 7 % calls // every one once, since 7 and 30 have no factor in common
		if _, s := i.settle(t, token, open[at], used); s.Partial || s.Actual != used || s.Reserved != cost {
			t.Errorf("settlement %d: %+v", n+1, s)
		}
		got := call()
		want += cost - used - cost
		for _, scope := range []string{"route ", "route-all "} {
			if left := got.remaining(t, scope); left != want {
				t.Errorf("after settlement %d %s has %d left, want %d", n+1, scope, left, want)
			}
		}
	}
}
