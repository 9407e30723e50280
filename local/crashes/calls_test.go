//go:build linux

package crashes

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"testing"

	"tidegate/internal/apikey"
	"tidegate/internal/policy"
	"tidegate/internal/testing/built"
	"tidegate/internal/testing/registrytest"
	"tidegate/internal/testing/waiting"
	"tidegate/local/lambda"
)

// caller is a key and its secret.
type caller struct {
	policy.Key

	secret string
}

// callers creates keys of both plans in turn.
func (w *world) callers(n int) []caller {
	w.t.Helper()
	var made []caller
	for i := range n {
		plan := []policy.Degraded{policy.Open, policy.Closed}[i%2]
		k, secret := registrytest.Create(w.t, w.keys, byTest,
			policy.NewKey{Name: fmt.Sprint("caller ", i), Env: "test", Plan: string(plan)})
		made = append(made, caller{k, secret.Reveal()})
	}
	return made
}

// checks is a check function of one environment, so that it knows every caller. Calls wait
// for one another, since Lambda would throttle them.
type checks struct {
	t        *testing.T
	function *lambda.Function
	turn     sync.Mutex
}

// startChecks starts the built check function and makes one call of each caller, so that it
// knows them all.
func (w *world) startChecks(callers []caller) *checks {
	t := w.t
	t.Helper()
	c := &checks{t: t}
	var err error
	c.function, err = lambda.Start(lambda.Config{Name: "check",
		Binary: built.Program(t, "tidegate/functions/check"), Warm: 1, NoFreeze: true,
		Timeout: waiting.Timeout,
		Env: map[string]string{"VALKEY_URL": w.url, "KEY_PEPPER": string(pepper), "VALKEY_TIMEOUT": "5s",
			"CALLER_CACHE": "1h"}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.function.Close)
	for _, caller := range callers {
		if status, degraded := c.call(caller.secret); status != http.StatusOK || degraded {
			t.Fatalf("%s: got %d, degraded %v, want 200 by Valkey", caller.Name, status, degraded)
		}
	}
	return c
}

// call returns the status that a client of a REST API sees, and whether the decision was
// made without Valkey.
func (c *checks) call(secret string) (status int, degraded bool) {
	c.t.Helper()
	event, err := json.Marshal(map[string]any{
		"type":              "REQUEST",
		"methodArn":         "arn:aws:execute-api:eu-west-1:123456789012:abcdef1234/prod/GET/orders",
		"headers":           map[string]string{"x-api-key": secret},
		"multiValueHeaders": map[string][]string{"x-api-key": {secret}},
		"requestContext": map[string]any{"stage": "prod", "requestId": "r",
			"identity": map[string]any{"sourceIp": "192.0.2.1"}},
	})
	if err != nil {
		c.t.Error(err)
	}
	c.turn.Lock()
	payload, err := c.function.Invoke(c.t.Context(), event)
	c.turn.Unlock()
	switch {
	case err != nil && strings.Contains(err.Error(), "Unauthorized"):
		return http.StatusUnauthorized, false
	case err != nil:
		c.t.Error(err)
		return http.StatusInternalServerError, false
	}
	var answer struct {
		PolicyDocument struct{ Statement []struct{ Effect string } }
		Context        map[string]any
	}
	if err := json.Unmarshal(payload, &answer); err != nil {
		c.t.Error(err)
	}
	degraded, _ = answer.Context["degraded"].(bool)
	if answer.PolicyDocument.Statement[0].Effect == "Allow" {
		return http.StatusOK, degraded
	}
	return http.StatusTooManyRequests, degraded
}

// anyDegraded calls for each caller and reports whether a decision was made without Valkey.
// It fails the test if a status is not what the caller's plan says.
func (c *checks) anyDegraded(callers []caller) (found bool) {
	c.t.Helper()
	for _, caller := range callers {
		status, degraded := c.call(caller.secret)
		want := http.StatusOK
		if degraded && caller.Plan == string(policy.Closed) {
			want = http.StatusTooManyRequests
		}
		if status != want {
			c.t.Errorf("%s: got %d, degraded %v, want %d", caller.Name, status, degraded, want)
		}
		found = found || degraded
	}
	return found
}

// wantRefused fails the test unless a key is refused as revoked or unknown.
func (c *checks) wantRefused(secret string) {
	c.t.Helper()
	if status, degraded := c.call(secret); status != http.StatusUnauthorized {
		c.t.Errorf("a revoked key: got %d, degraded %v, want 401", status, degraded)
	}
}

// refusedSecrets returns the secrets of a revoked and of an unknown key.
func (w *world) refusedSecrets() []string {
	w.t.Helper()
	k, revoked := registrytest.Create(w.t, w.keys, byTest,
		policy.NewKey{Name: "revoked", Env: "test", Plan: string(policy.Open)})
	_, err := registrytest.Revoke(w.t.Context(), w.keys, k.ID, byTest)
	unknown, generated := apikey.Generate("test")
	if err := errors.Join(err, generated); err != nil {
		w.t.Fatal(err)
	}
	return []string{revoked.Reveal(), unknown.Reveal()}
}

// underLoad calls for each caller in turn until the returned function is called. The keys of
// refused never pass.
func (c *checks) underLoad(callers []caller, refused []string) (end func()) {
	ctx, stop := context.WithCancel(c.t.Context())
	var running sync.WaitGroup
	running.Go(func() {
		for ctx.Err() == nil {
			c.anyDegraded(callers)
			for i, secret := range refused {
				if status, _ := c.call(secret); status == http.StatusOK {
					c.t.Errorf("refused key %d: got 200", i)
				}
			}
		}
	})
	end = func() {
		stop()
		running.Wait()
	}
	c.t.Cleanup(end)
	return end
}
