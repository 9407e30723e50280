//go:build unix

package attacks

import (
	"fmt"
	"net/http"
	"strings"
	"testing"
)

// countDenied lets a flood keep a limit exhausted, so it is refused on a limit that
// callers share.
func TestAttackCountDenied(t *testing.T) {
	a, i := attack(t, "countDenied on a limit of several callers",
		"a policy that counts denied calls on a limit of a route, of all callers, of an address and "+
			"of an address on a route")
	header := i.page(t)
	const counting = `[{"requests":100,"window":"1m","countDenied":true}]`
	for place, part := range map[string]string{
		"global.limits[0]":    `"global":{"limits":%s}`,
		"perIP.limits[0]":     `"perIP":{"limits":%s}`,
		"routes[0].shared[0]": `"routes":[{"name":"counting","pattern":{"path":"/counting"},"shared":%s}]`,
		"routes[0].perIP[0]":  `"routes":[{"name":"counting","pattern":{"path":"/counting"},"perIP":%s}]`,
	} {
		a.probe()
		body := fmt.Sprintf(`{"plans":[{"name":"wide","limits":[{"requests":10000000,"window":"1h"}]}],`+part+
			`}`, counting)
		got := i.site.send(t, http.MethodPut, "/api/v1/policy?dry_run=true", body, header...)
		if got.status != http.StatusUnprocessableEntity || !strings.Contains(got.body, place+".countDenied") {
			t.Errorf("%s: %d %.500s", place, got.status, got.body)
		}
	}
}
