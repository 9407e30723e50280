package api

import (
	"net/http"
	"testing"
)

// Calls are decided in the order of their times, and a denied call has its wait.
func TestSimulate(t *testing.T) {
	s := newService(t)
	got := s.post("/simulate", []byte(`{"limits":[{"requests":2,"window":"10s"},{"requests":90,"window":"1h"}],"calls":[0,9.9,1,10.000001]}`)).
		wants(http.StatusOK, `"allowed":3`)
	if got.at("decisions", 2, "at") != 9.9 || got.at("decisions", 2, "remaining") != 0.0 ||
		got.at("decisions", 2, "retryAfter").(float64) > 0.11 {
		t.Errorf("got %s, want the third call at 9.9 s denied until 10 s", got.text)
	}
	// The smallest share counts, as in the RateLimit field: 40 of 100 before 1 of 2.
	calls := make([]float64, 60)
	for i := range calls {
		calls[i] = 10.1 * float64(i)
	}
	limits := []any{
		map[string]any{"requests": 2, "window": "10s"}, map[string]any{"requests": 100, "window": "1h"},
	}
	share := s.post("/simulate", map[string]any{"limits": limits, "calls": calls}).wants(http.StatusOK)
	if got := share.at("decisions", 59, "remaining"); got != 40.0 {
		t.Errorf("got %v remaining, want 40", got)
	}
}

// A fixed window admits twice the limit around a boundary, and the log never does. Equal
// requests get equal responses.
func TestSimulateLab(t *testing.T) {
	s := newService(t)
	attack :=
		`{"limits":[{"requests":100,"window":"1m"}],"shape":"boundary","rate":1000,"windows":4,"algorithms":["log","fixed-window"],"points":50}`
	got := s.post("/simulate/lab", []byte(attack)).wants(http.StatusOK)
	if got.at("outcomes", 0, "worst") != 100.0 || got.at("outcomes", 1, "worst") != 200.0 ||
		got.at("outcomes", 0, "falseAllows") != 0.0 ||
		got.at("exact", "worst") != 100.0 {
		t.Errorf("got %s, want at most 100 calls for log and 200 for fixed-window", got.text)
	}
	if again := s.post("/simulate/lab", []byte(attack)).wants(http.StatusOK); again.text != got.text {
		t.Errorf("got %s\nand for the same request %s", got.text, again.text)
	}
	s.post("/simulate/lab", []byte(
		`{"limits":[{"requests":10,"window":"1m"}],"shape":"recorded","minutes":[4,30,0,7],"algorithms":["log"]}`)).
		wants(http.StatusOK, `"calls":41`, `"admitted":21`)
	// 4 and 10 calls pass the first limit, and one more the second.
	s.post("/simulate/lab", []byte(`{"limits":[{"requests":10,"window":"1m"},{"requests":15,"window":"1h"}],
		"shape":"recorded","minutes":[4,30,0,7],"algorithms":["log"]}`)).
		wants(http.StatusOK, `"calls":41`, `"admitted":15`)
	for body, want := range map[string]string{
		`{"limits":[{"requests":10,"window":"soon"}],"shape":"boundary","rate":100,"windows":1}`:                               `"location":"body.limits[0].window"`,
		`{"limits":[],"shape":"boundary","rate":100,"windows":1}`:                                                              `"location":"body.limits"`,
		`{"limits":[{"requests":10,"window":"1m"},{"requests":10,"window":"soon"}],"shape":"boundary","rate":100,"windows":1}`: `"location":"body.limits[1].window"`,
		`{"limits":[{"requests":10,"window":"1m"}],"shape":"boundary"}`:                                                        `"location":"body.rate"`,
		`{"limits":[{"requests":10,"window":"1m"}],"shape":"zigzag","rate":100,"windows":1}`:                                   `"location":"body.shape"`,
		`{"limits":[{"requests":10000,"window":"1m"}],"shape":"greedy","rate":1000,"windows":1}`:                               "must be 1 to 20000",
		`{"limits":[{"requests":10,"window":"1m"}],"shape":"recorded","minutes":[-1]}`:                                         `"location":"body.minutes[0]"`,
		`{"limits":[{"requests":10,"window":"1m"}],"shape":"recorded","minutes":[20000,1]}`:                                    `"location":"body.minutes"`,
		`{"limits":[{"requests":10,"window":"1m"}],"shape":"boundary","rate":100,"windows":1,"algorithms":["leaky"]}`:          `"location":"body.algorithms[0]"`,
	} {
		s.post("/simulate/lab", []byte(body)).wants(http.StatusUnprocessableEntity, want)
	}
}
