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

// reserving adds a rule whose calls reserve a cost that the backend settles.
func (i *installation) reserving(t *testing.T, path string) {
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
	i.reserving(t, "/forged")
	token := i.machine(t, "settle")
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
	i.reserving(t, "/replayed")
	token := i.machine(t, "settle")
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
	if left := call().left(t, "route "); left != 10_000-40 {
		t.Errorf("%d left, want %d", left, 10_000-40)
	}
}

// A cost must be a whole number within its bounds, and an id must be well formed.
func TestAttackOddNumbers(t *testing.T) {
	a, i := attack(t, "odd costs and ids",
		"costs that are NaN, negative, fractions, beyond any integer, in hex, as text; ids with "+
			"braces, NUL, line breaks, stars")
	i.reserving(t, "/odd")
	header := machineHeaders(i.machine(t, "write"))
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
