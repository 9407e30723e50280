//go:build unix

package main

import (
	"net/http"
	"strings"
	"testing"
	"time"

	"tidegate/internal/limits"
	"tidegate/internal/policy"
	"tidegate/internal/route"
	"tidegate/internal/testing/registrytest"
	"tidegate/internal/testing/valkeytest"
	"tidegate/local/echo"
	"tidegate/local/gateway"
)

// In place of a Cognito or JWT authorizer, Tidegate's takes the same tokens, with or without
// Bearer, gives backends the claims, and counts by plans of groups.
func TestReplacesATokenAuthorizer(t *testing.T) {
	f := startCheck(t, valkeytest.Start(t), tokens("JWT_PLAN_CLAIM", "tier", "JWT_PLAN_MAP",
		`{"gold":"two"}`, "JWT_CONTEXT_CLAIMS", "sub,tier"))
	registrytest.Save(t, f.store, byTest, func(set *policy.Set) {
		set.Limits, set.TokenPlan = nil, ""
		set.Plans[0].Limits = registrytest.Limits("4 per hour")
	})
	apis, err := gateway.Deployed()
	if err != nil {
		t.Fatal(err)
	}
	apis.REST.Authorizer, apis.REST.Integration = f, echo.Backend{}
	apis.HTTP.Authorizer, apis.HTTP.Integration = f, echo.Backend{}
	rest, api, token := served(t, apis.REST), served(t, apis.HTTP), signedToken(time.Minute)
	for _, address := range []string{rest, api} {
		for _, credential := range []string{token, "Bearer " + token} {
			_, body := get(t, address+"/orders", http.StatusOK, "Authorization", credential)
			for _, part := range []string{`"claim_sub": "ada"`, `"claim_tier": "[\"all\",\"gold\"]"`,
				`"plan": "two"`} {
				if !strings.Contains(body, part) {
					t.Errorf("%s: got %s, want %s", address, body, part)
				}
			}
		}
	}
	get(t, rest+"/orders", http.StatusTooManyRequests, "Authorization", token)
	get(t, api+"/orders", http.StatusForbidden, "Authorization", token)
	get(t, rest+"/orders", http.StatusUnauthorized, "Authorization", token[:len(token)-4]+"AAAA")
}

// A route with scopes takes tokens that have one of them. API keys need none.
func TestScopesOfRoutes(t *testing.T) {
	f := startCheck(t, valkeytest.Start(t), tokens("IDENTITY_SOURCES", "key,jwt"))
	registrytest.Save(t, f.store, byTest, func(set *policy.Set) {
		set.Limits, set.Plans[0].Limits = nil, registrytest.Limits("100 per hour")
		all := limits.Route{Name: "orders", Match: []route.Pattern{{Path: "/orders/{proxy+}"}},
			Scopes: []string{"orders"}}
		one := limits.Route{Name: "refunds", Match: []route.Pattern{{Method: "GET",
			Path: "/orders/{id}/refunds"}},
			Scopes: []string{"refunds", "admin"}}
		set.Routes = []limits.Route{all, one}
	})
	apis, err := gateway.Deployed()
	if err != nil {
		t.Fatal(err)
	}
	apis.REST.Authorizer, apis.REST.Integration = f, echo.Backend{}
	api := served(t, apis.REST)
	withScope := func(scope any) string {
		return "Bearer " + tokenKey.Sign(map[string]any{"iss": canaryIssuer, "aud": "orders", "sub": "ada",
			"scope": scope, "exp": time.Now().Add(time.Minute).Unix()})
	}
	for _, c := range []struct {
		path, scope string
		status      int
	}{
		{"/orders/7", "profile orders", http.StatusOK}, {"/orders/7", "profile", http.StatusUnauthorized},
		{"/orders/7", "", http.StatusUnauthorized}, {"/orders/7", "refunds", http.StatusUnauthorized},
		{"/orders/7/refunds", "orders", http.StatusUnauthorized},
		{"/orders/7/refunds", "admin", http.StatusOK}, {"/other", "", http.StatusOK},
	} {
		get(t, api+c.path, c.status, "Authorization", withScope(c.scope))
	}
	_, secret := f.newKey(t)
	get(t, api+"/orders/7", http.StatusOK, "X-Api-Key", secret.Reveal())
}
