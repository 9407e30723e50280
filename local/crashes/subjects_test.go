//go:build linux

package crashes

import (
	"encoding/json"
	"errors"
	"net/http"
	"slices"
	"strconv"

	"tidegate/functions/admin/auth/token"
	"tidegate/internal/audit"
	"tidegate/internal/policy"
)

// check compares all stored state with the client's part of the oracle.
func (c *client) check() {
	c.t.Helper()
	for _, k := range c.keys {
		c.read(k)
	}
	if c.plan != nil {
		c.readPlan()
	}
	c.readTokens()
}

// plan is the oracle's view of a plan whose limit its client changes: the limits that it
// may have.
type plan struct {
	name     string
	possible []int64
}

func (c *client) readPlan() {
	c.t.Helper()
	set, err := c.world.keys.Set(c.t.Context())
	if err != nil {
		c.t.Fatal(err)
	}
	i := slices.IndexFunc(set.Plans, func(p policy.Plan) bool { return p.Name == c.plan.name })
	if i < 0 {
		c.t.Fatalf("the plan %s is lost", c.plan.name)
	}
	got := set.Plans[i].Limits[0].Requests
	if !slices.Contains(c.plan.possible, got) {
		c.t.Fatalf("the limit of %s is %d, want one of %d", c.plan.name, got, c.plan.possible)
	}
	c.plan.possible = []int64{got}
}

// changePlan saves the policies with another limit for the client's plan. The save is
// refused if the other client saved first.
func (c *client) changePlan() {
	c.t.Helper()
	c.readPlan()
	a := c.send(c.env, http.MethodGet, "/api/v1/policy", nil, nil)
	var document struct {
		Version int64            `json:"version"`
		Plans   []map[string]any `json:"plans"`
	}
	if !a.good() || json.Unmarshal(a.body, &document) != nil {
		return
	}
	limit := c.plan.possible[0] + 1
	for _, p := range document.Plans {
		if p["name"] == c.plan.name {
			p["limits"] = []any{map[string]any{"requests": limit, "window": "1h"}}
		}
	}
	a = c.send(c.env, http.MethodPut, "/api/v1/policy?reason=test", map[string]any{"plans": document.Plans},
		map[string]string{"If-Match": strconv.Quote(strconv.FormatInt(document.Version, 10))})
	if a.status == http.StatusPreconditionFailed {
		return
	}
	c.count(a)
	c.plan.possible = append(c.plan.possible, limit)
	if a.good() {
		c.plan.possible = []int64{limit}
	}
}

// machineToken is the oracle's view of a token.
type machineToken struct {
	token.Token
	mayExist, mayBeGone bool
}

// readTokens fails the test if a revoked token exists, or if another one is gone.
func (c *client) readTokens() {
	c.t.Helper()
	stored, err := c.world.tokens.List(c.t.Context())
	if err != nil {
		c.t.Fatal(err)
	}
	for _, known := range c.tokens {
		found := slices.ContainsFunc(stored, func(s token.Token) bool { return s.ID == known.ID })
		if found && !known.mayExist || !found && !known.mayBeGone {
			c.t.Fatalf("token %s exists: %v; may exist: %v; may be gone: %v", known.ID, found,
				known.mayExist, known.mayBeGone)
		}
		known.mayExist, known.mayBeGone = found, !found
	}
}

// changeTokens creates a token, or revokes one that exists.
func (c *client) changeTokens(broken bool) {
	c.t.Helper()
	c.readTokens()
	i := slices.IndexFunc(c.tokens, func(k *machineToken) bool { return k.mayExist })
	if i < 0 {
		made, _, err := c.makeToken(token.Read)
		switch {
		case errors.Is(err, audit.ErrUnsafe): // on a slow machine; the token is not acknowledged
			return
		case err != nil:
			c.t.Fatal(err)
		}
		c.tokens = append(c.tokens, &machineToken{made, true, false})
		return
	}
	a := c.send(c.env, http.MethodDelete, "/api/v1/tokens/"+c.tokens[i].ID, nil, nil)
	c.count(a)
	c.tokens[i].mayBeGone = true
	if a.good() && !broken {
		c.tokens[i].mayExist = false
	}
}
