//go:build unix

package attacks

import (
	"encoding/base64"
	"encoding/json"
	"fmt"
	"net/http"
	"regexp"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"tidegate/internal/limiter"
	"tidegate/internal/policy"
	"tidegate/internal/route"
)

// settled is the body of the API's answer to a settlement.
type settled struct {
	Reserved, Actual, Short, AboveMax int64
	Partial                           bool
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

// addReservationRule adds a rule whose calls reserve a cost that the backend settles.
func (i *installation) addReservationRule(t *testing.T, path string) {
	t.Helper()
	i.rules(t, policy.Route{
		Name: path, Pattern: route.Pattern{Path: path}, Cost: 40, Settle: true,
		PerKey: []limiter.Limit{{Requests: 10_000, Window: time.Hour}},
	})
}

// Only the check function creates valid reservations, and a changed one is refused.
func TestAttackForgedReservations(t *testing.T) {
	a, i := attack(t, "forged reservations",
		"each byte of a reservation flipped, cut, prolonged, in other encodings")
	i.addReservationRule(t, "/forged")
	token := i.machineToken(t, "settle")
	_, secret := i.key(t, wide)
	good := i.rest.get(t, "/forged", "x-api-key", secret).reservation(t)
	encoded := strings.TrimPrefix(good, "tgr_")
	raw, err := base64.RawURLEncoding.DecodeString(encoded)
	if err != nil {
		t.Fatal(err)
	}
	var forged []string
	for n := range 100 { // the first 68 and the last 32 bytes, where the signature is
		at := n
		if n >= 68 {
			at = len(raw) - 100 + n
		}
		flipped := []byte(string(raw))
		flipped[at] ^= 1
		forged = append(forged, "tgr_"+base64.RawURLEncoding.EncodeToString(flipped))
	}
	forged = append(forged,
		encoded, "tgr_", "tgr_"+encoded[:len(encoded)-4], good+"AAAA", good+"=", "TGR_"+encoded, good+good,
		" "+good, "tgr_"+strings.Repeat("A", 4000),
		"tgr_"+base64.StdEncoding.EncodeToString(raw)+"=", "tgr_é",
	)
	for _, text := range forged {
		a.probe()
		if got, _ := i.settle(t, token, text, 0); got.status < 400 || got.status >= 500 {
			t.Errorf("%.40s: %d %.200s", text, got.status, got.body)
		}
	}
	if got, _ := i.settle(t, token, good, 0); got.status != http.StatusOK {
		t.Errorf("the reservation itself: %d %s", got.status, got.body)
	}
}

// A reservation is settled once, also when many settle it at the same time.
func TestAttackReplayedSettlements(t *testing.T) {
	a, i := attack(t, "replayed settlements", "one reservation settled by 30 at once")
	i.addReservationRule(t, "/replayed")
	token := i.machineToken(t, "settle")
	_, secret := i.key(t, wide)
	call := func() reply { return i.rest.get(t, "/replayed", "x-api-key", secret) }
	taken := call().reservation(t)
	var group sync.WaitGroup
	var settled, unexpected atomic.Int64
	for range 30 {
		group.Go(func() {
			a.probe()
			switch got, _ := i.settle(t, token, taken, 0); got.status {
			case http.StatusOK:
				settled.Add(1)
			case http.StatusConflict:
			default:
				unexpected.Add(1)
			}
		})
	}
	group.Wait()
	if settled.Load() != 1 || unexpected.Load() != 0 {
		t.Errorf("settled %d times, %d other answers", settled.Load(), unexpected.Load())
	}
	if left := call().remaining(t, "route "); left != 10_000-40 {
		t.Errorf("%d left, want %d", left, 10_000-40)
	}
}

// A cost must be a whole number within its bounds, and an id must be well formed.
func TestAttackOddNumbers(t *testing.T) {
	a, i := attack(t, "odd costs and ids",
		"costs that are NaN, negative, fractions, beyond any integer, in hex, as text; ids with "+
			"braces, NUL, line breaks, stars")
	i.addReservationRule(t, "/odd")
	header := machineHeaders(i.machineToken(t, "write"))
	k, secret := i.key(t, wide)
	taken := i.rest.get(t, "/odd", "x-api-key", secret).reservation(t)
	for _, cost := range []string{
		"NaN", "-1", "1.5", "1e400", "0x10", `"5"`, "null", "9223372036854775808", "1000000001",
		"-9223372036854775809", "[]", "{}", "true",
		"1e3", "-0.1", "Infinity", "01",
	} {
		for path, body := range map[string]string{
			"reservations":        fmt.Sprintf(`{"keyId":%q,"route":"/odd","cost":%s}`, k.ID, cost),
			"reservations/settle": fmt.Sprintf(`{"reservation":%q,"cost":%s}`, taken, cost),
		} {
			a.probe()
			if got := i.site.send(t, http.MethodPost, "/api/v1/"+path, body, header...); got.status < 400 ||
				got.status >= 500 {
				t.Errorf("%s of cost %s: %d %.200s", path, cost, got.status, got.body)
			}
		}
	}
	for _, id := range []string{
		`{` + k.ID + `}`, k.ID + `\u0000`, k.ID + `\n`, `*`, `../` + k.ID, `tg:{a}:b`, `}{`, ` ` + k.ID,
		strings.Repeat("A", 65), strings.ToLower(k.ID) + "x",
	} {
		a.probe()
		body := `{"keyId":"` + id + `","route":"/odd","cost":1}`
		if got := i.site.send(t, http.MethodPost, "/api/v1/reservations", body,
			header...); got.status < 400 || got.status >= 500 {
			t.Errorf("id %q: %d %.200s", id, got.status, got.body)
		}
	}
}

// RESERVATION_LEASE takes effect: a reservation with a lease of one second cannot be
// settled after that second.
func TestAttackOldReservation(t *testing.T) {
	a, i := attack(t, "a reservation kept for later",
		"a reservation settled after its `RESERVATION_LEASE` of 1s, and one of the usual lease")
	i.rules(t, policy.Route{
		Name: "leased", Pattern: route.Pattern{Path: "/leased"}, Cost: 40, Settle: true,
		PerKey: []limiter.Limit{{Requests: 1000, Window: time.Hour}},
	})
	short, _, err := i.apis(1, map[string]string{"RESERVATION_LEASE": "1s"})
	if err != nil {
		t.Fatal(err)
	}
	token := i.machineToken(t, "settle")
	_, secret := i.key(t, wide)
	brief := short.get(t, "/leased", "x-api-key", secret).reservation(t)
	usual := i.rest.get(t, "/leased", "x-api-key", secret).reservation(t)
	<-time.After(1100 * time.Millisecond) // the lease itself
	a.probe()
	if got, _ := i.settle(t, token, brief, 0); got.status != http.StatusGone {
		t.Errorf("after its lease: %d %s", got.status, got.body)
	}
	a.probe()
	if got, _ := i.settle(t, token, usual, 0); got.status != http.StatusOK {
		t.Errorf("within the usual lease: %d %s", got.status, got.body)
	}
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

// A call that a shared limit denies takes nothing from the caller's own limit.
func TestAttackDeniedCallsCost(t *testing.T) {
	a, i := attack(t, "a denied call that costs",
		"10 calls of cost 4,000 that a limit of all callers denies, against the caller's own limit of "+
			"1,000,000")
	own := limiter.Limit{Requests: 1_000_000, Window: 7 * time.Minute}
	i.rules(t, policy.Route{
		Name: "denied", Pattern: route.Pattern{Path: "/denied"}, Cost: 4000,
		PerKey: []limiter.Limit{own}, Shared: []limiter.Limit{{Requests: 8000, Window: 5 * time.Minute}},
	})
	_, secret := i.key(t, wide)
	_, other := i.key(t, wide)
	i.rest.get(t, "/denied", "x-api-key", secret)
	i.rest.get(t, "/denied", "x-api-key", other)
	for range 10 {
		a.probe()
		got := i.rest.get(t, "/denied", "x-api-key", secret)
		if left := got.remaining(t, "route "); got.status != http.StatusTooManyRequests ||
			left != own.Requests-4000 {
			t.Errorf("%d, %d left, want 429 and %d", got.status, left, own.Requests-4000)
		}
	}
	i.edit(t, func(s *policy.Set) {
		for n := range s.Routes {
			if s.Routes[n].Name == "denied" {
				s.Routes[n].Shared = nil
			}
		}
	})
	got := i.rest.get(t, "/denied", "x-api-key", secret)
	if left := got.remaining(t, "route "); left != own.Requests-2*4000 {
		t.Errorf("%d left, want %d", left, own.Requests-2*4000)
	}
}
