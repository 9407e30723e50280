package middleware

import (
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

// script answers one attempt after the other. A status of 0 is a connection that breaks
// after the request was sent, -1 one that hangs, -2 none at all.
type script struct {
	t       *testing.T
	answers []answered
	asked   []time.Duration // since the first attempt
	began   time.Time
}

type answered struct {
	status     int
	retryAfter string
	body       string // {"detail":"why"} unless given
}

var errBroken = errors.New("connection reset")

// RoundTrip answers an attempt as a server would.
func (s *script) RoundTrip(r *http.Request) (*http.Response, error) {
	body, err := io.ReadAll(r.Body)
	if want := `{"cost":7,"reservation":"tgr_x"}`; err != nil || string(body) != want {
		s.t.Errorf("attempt with %s, %v", body, err)
	}
	if len(s.asked) == 0 {
		s.began = time.Now()
	}
	n := len(s.asked)
	s.asked = append(s.asked, time.Since(s.began))
	if n >= len(s.answers) {
		s.t.Fatalf("attempt %d", n+1)
	}
	a := s.answers[n]
	switch a.status {
	case 0:
		return nil, errBroken
	case -2:
		return nil, &net.OpError{Op: "dial", Net: "tcp", Err: errBroken}
	case -1:
		<-r.Context().Done()
		return nil, r.Context().Err()
	}
	w := httptest.NewRecorder()
	if a.retryAfter != "" {
		w.Header().Set("Retry-After", a.retryAfter)
	}
	w.WriteHeader(a.status)
	if a.body == "" {
		a.body = map[bool]string{true: `{"reserved":9,"actual":7}`,
			false: `{"detail":"why"}`}[a.status == http.StatusOK]
	}
	_, _ = w.WriteString(a.body)
	return w.Result(), nil
}

func times(n int, a answered) []answered {
	list := make([]answered, n)
	for i := range list {
		list[i] = a
	}
	return list
}

func statuses(list ...int) []answered {
	var all []answered
	for _, status := range list {
		all = append(all, answered{status: status})
	}
	return all
}

// settleBy settles against a script, on a clock of its own.
func settleBy(t *testing.T, answers []answered, check func(s *script, got Settlement, err error)) {
	synctest.Test(t, func(t *testing.T) {
		s := &script{t: t, answers: answers}
		settler := &Settler{URL: "https://dashboard.example", Token: "machine",
			Client: &http.Client{Transport: s}}
		got, err := settler.Settle(t.Context(), "tgr_x", 7)
		check(s, got, err)
	})
}

// What another attempt can mend is tried again, a bounded number of times; what is
// refused is not.
func TestSettleRetries(t *testing.T) {
	whole := Settlement{Reserved: 9, Actual: 7}
	unknown := Settlement{Actual: 7} // settled by an attempt whose answer was lost
	for name, c := range map[string]struct {
		answers []answered
		want    Settlement
		status  int   // of the error; 0 for none
		err     error // other than a status
	}{
		"at once":              {statuses(200), whole, 0, nil},
		"throttled once":       {statuses(429, 200), whole, 0, nil},
		"throttled four times": {statuses(429, 429, 429, 429, 200), whole, 0, nil},
		"throttled always":     {statuses(429, 429, 429, 429, 429), Settlement{}, 429, nil},
		"away":                 {statuses(503, 502, 500, 504, 200), whole, 0, nil},
		"away always":          {statuses(503, 503, 503, 503, 502), Settlement{}, 502, nil},
		"broken connections":   {statuses(0, 0, 0, 0, 200), whole, 0, nil},
		"broken always":        {statuses(0, 0, 0, 0, 0), Settlement{}, 0, errBroken},
		"hangs once":           {statuses(-1, 200), whole, 0, nil},
		"cut short": {
			[]answered{{status: 200, body: `{"reserved":`}, {status: 409}}, unknown, 0, nil},
		"settled by a lost attempt":              {statuses(0, 409), unknown, 0, nil},
		"settled by a failed attempt":            {statuses(503, 409), unknown, 0, nil},
		"settled by an attempt that hung":        {statuses(-1, 409), unknown, 0, nil},
		"lost, throttled, settled":               {statuses(0, 429, 409), unknown, 0, nil},
		"settled by others":                      {statuses(409), Settlement{}, 409, nil},
		"settled by others, after throttles":     {statuses(429, 429, 409), Settlement{}, 409, nil},
		"settled by others, after no connection": {statuses(-2, 409), Settlement{}, 409, nil},
		"expired":                                {statuses(410), Settlement{}, 410, nil},
		"expired meanwhile":                      {statuses(503, 410), Settlement{}, 410, nil},
		"no reservation":                         {statuses(422), Settlement{}, 422, nil},
		"no token":                               {statuses(401), Settlement{}, 401, nil},
		"no address":                             {statuses(403), Settlement{}, 403, nil},
	} {
		t.Run(name, func(t *testing.T) {
			settleBy(t, c.answers, func(s *script, got Settlement, err error) {
				var refused *SettleError
				switch {
				case len(s.asked) != len(c.answers) || got != c.want:
					t.Errorf("%d attempts, %+v", len(s.asked), got)
				case c.status != 0 && (!errors.As(err, &refused) || refused.Status != c.status ||
					refused.Detail != "why"):
					t.Errorf("%v, want %d", err, c.status)
				case c.status == 0 && !errors.Is(err, c.err):
					t.Errorf("%v, want %v", err, c.err)
				}
			})
		})
	}
}

// Pauses double, differ from call to call, and heed Retry-After up to a bound.
func TestSettlePauses(t *testing.T) {
	pauses := map[time.Duration]bool{}
	for range 20 {
		settleBy(t, statuses(429, 503, 0, 429, 200), func(s *script, _ Settlement, _ error) {
			for i := range 4 {
				pause, most := s.asked[i+1]-s.asked[i], settlePause<<i
				if pause < most/2 || pause > most {
					t.Errorf("pause %d is %s, want %s to %s", i+1, pause, most/2, most)
				}
			}
			pauses[s.asked[1]] = true
		})
	}
	if len(pauses) < 10 {
		t.Errorf("%d different first pauses of 20 calls", len(pauses))
	}
	for after, least := range map[string]time.Duration{
		"2": 2 * time.Second, "0": 0, "-5": 0, "soon": 0, "3600": maxRetryAfter, "99999999999999": 0,
		"Sat, 01 Jan 2000 00:00:03 GMT": 3 * time.Second, // the clock of the test begins at midnight
	} {
		settleBy(t, []answered{{status: 429, retryAfter: after}, {status: 200}},
			func(s *script, _ Settlement, err error) {
				if pause := s.asked[1]; err != nil || pause < least || pause > least+settlePause {
					t.Errorf("Retry-After %s: %s, %v", after, pause, err)
				}
			})
	}
}

// All attempts together have an end, at which the last answer is told.
func TestSettleEnds(t *testing.T) {
	for name, c := range map[string]struct {
		answer   answered
		attempts int
	}{
		"long waits": {answered{status: 503, retryAfter: "60"}, 3},
		"hangs":      {answered{status: -1}, 3},
	} {
		settleBy(t, times(settleAttempts, c.answer), func(s *script, _ Settlement, err error) {
			if took := time.Since(s.began); err == nil || took > settlePatience ||
				len(s.asked) != c.attempts {
				t.Errorf("%s: %d attempts in %s, %v", name, len(s.asked), took, err)
			}
		})
	}
}

// A server that really fails, by answers and by breaking connections, settles once at
// last.
func TestSettleThroughAServer(t *testing.T) {
	asked, done := 0, 0
	got, err := settling(t, "tgr_x", func(w http.ResponseWriter, _ *http.Request) {
		switch asked++; asked {
		case 1:
			http.Error(w, `{"message":"Too Many Requests"}`, http.StatusTooManyRequests)
		case 2:
			done++
			panic(http.ErrAbortHandler) // settled, and the answer is lost
		default:
			http.Error(w, `{"detail":"settled already"}`, http.StatusConflict)
		}
	})
	if err != nil || got != (Settlement{Actual: 7}) || asked != 3 || done != 1 {
		t.Errorf("%+v, %v after %d attempts", got, err, asked)
	}
	unreachable := &Settler{URL: "http://127.0.0.1:1", Token: "machine"}
	if _, err := unreachable.Settle(t.Context(), "tgr_x", 1); err == nil ||
		!strings.Contains(err.Error(), "connect") {
		t.Error(fmt.Sprint(err))
	}
}
