package crossing

import (
	"encoding/json"
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/valkey-io/valkey-go"

	"tidegate/internal/apikey"
	"tidegate/internal/enforce"
	"tidegate/internal/limiter"
	"tidegate/internal/limits"
	"tidegate/internal/policy"
	"tidegate/internal/registry"
	"tidegate/internal/route"
	"tidegate/internal/store/acl"
	"tidegate/internal/telemetry"
	"tidegate/internal/testing/registrytest"
	"tidegate/internal/testing/storetest"
	"tidegate/internal/testing/valkeytest"
	"tidegate/internal/testing/waiting"
)

var (
	testPepper = apikey.Pepper(strings.Repeat("pepper!!", 4))
	byTest     = registry.Edit{By: registry.Actor{Kind: "user", Name: "tester"}, Reason: "a test"}
)

// world is a Valkey with a policy set. Its environments have the rights of the check
// function.
type world struct {
	*registry.Store
	url    string
	client valkey.Client // with all rights
	lines  lines
}

func newWorld(t *testing.T, change func(*policy.Set)) *world {
	t.Helper()
	url := valkeytest.Start(t)
	w := &world{url: url, client: storetest.Connect(t, url)}
	w.Store = registrytest.New(t, w.client, testPepper)
	registrytest.Save(t, w, byTest, change)
	return w
}

func (w *world) key(t *testing.T, plan string) enforce.Call {
	t.Helper()
	k, secret := registrytest.Create(t, w.Store, byTest,
		policy.NewKey{Name: "Acme", Env: "test",
			Plan: plan, Group: "acme"})
	return enforce.Call{Kind: policy.APIKey, Subject: k.ID, Secret: secret,
		Route: route.Call{API: "api", Stage: "prod", Method: "GET", Path: "/orders"}}
}

// store returns the Store that a dashboard would have.
func (w *world) store() *Store { return NewStore(w.client, slog.New(slog.DiscardHandler)) }

// environment is a Lambda environment of the check function.
type environment struct {
	checker *enforce.Checker
	client  valkey.Client
	log     *Log
}

func (w *world) environment(t *testing.T) *environment {
	t.Helper()
	client := storetest.Connect(t, valkeytest.As(t, w.url, "check", acl.Rules(acl.Check())))
	return &environment{checker: enforce.NewChecker(client, testPepper), client: client,
		log: NewLog(slog.New(telemetry.NewHandler(&w.lines, slog.LevelError)))}
}

// call checks a call and reports the thresholds that it crossed. An environment that dies
// reports none.
func (e *environment) call(t *testing.T, call enforce.Call, dies bool) enforce.Result {
	t.Helper()
	result, err := e.checker.Check(t.Context(), call)
	if err != nil {
		t.Error(err)
		return result
	}
	e.log.Note(ResultOf(&result, call.Kind), result.Crossings)
	if dies {
		e.log.take()
	}
	e.log.Send(t.Context(), e.client)
	return result
}

// lines collects the lines of a log. It is safe for concurrent use.
type lines struct{ waiting.Buffer }

// events returns how often each threshold was reported: by who, the route that the limit is
// on, the subject of a limit that is not together, and the percentage.
func (l *lines) events(t *testing.T) map[string]int {
	t.Helper()
	found := map[string]int{}
	for line := range strings.Lines(l.String()) {
		var e struct {
			Msg, Event, Who, Subject, Limit string
			Threshold                       int
			Used, Max                       int64
		}
		err := json.Unmarshal([]byte(line), &e)
		if e.Msg == unlisted {
			continue
		}
		if err != nil || e.Msg != Message || e.Event != telemetry.LimitCrossed {
			t.Fatalf("got a line that is no crossed limit, %v: %s", err, line)
		}
		if 100*e.Used < e.Max*int64(e.Threshold) || e.Used > e.Max {
			t.Errorf("got a use below the threshold or above the limit: %s", line)
		}
		if _, on, found := strings.Cut(e.Limit, " on "); found {
			name, _, _ := strings.Cut(on, " ")
			e.Who += " on " + name
		}
		if !strings.HasPrefix(e.Who, "together") {
			e.Who += " " + e.Subject
		}
		found[fmt.Sprint(e.Who, " ", e.Threshold)]++
	}
	return found
}

func notifying(requests int64, algorithm limiter.Algorithm, percents ...int) limits.Limit {
	return limits.Limit{Requests: requests, Window: 366 * 24 * time.Hour, Algorithm: algorithm,
		Notify: percents}
}

// of returns a limit for another who, on a route or on every call.
func of(l limits.Limit, who limits.Who, on string) limits.Limit {
	l.Who, l.On = who, on
	return l
}

// chat is a route whose backend settles the cost.
func chat(name, path string, cost int64) limits.Route {
	return limits.Route{Name: name, Match: []route.Pattern{{Path: path}}, Settle: true,
		Cost: limits.Costs{Units: map[string]int64{limits.Cost: cost}}}
}
