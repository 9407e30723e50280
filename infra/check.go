package main

import (
	"fmt"
	"strconv"
	"strings"
	"time"

	"tidegate/infra/authorizer"
)

// checkTimeout is in seconds, longer than any check. An HTTP API's maximum is 10.
const checkTimeout = 9

// newCheck creates the authorizer's function. Only the listed authorizers may make API
// Gateway invoke it.
func (s *Stack) newCheck() *function {
	egress, _ := s.props.egress()
	return s.newFunction(functionSpec{
		id: "Check", name: "check",
		description: "Tidegate's authorizer: one sliding-window step per API call",
		props:       s.props.Check, timeout: checkTimeout, group: s.network.check, egress: egress,
		environment: joined(s.props.Identity.environment(), s.props.Decision.environment(),
			s.metricsEnvironment()),
	})
}

// metricsEnvironment sets the stage, without which the check function writes no metrics.
func (s *Stack) metricsEnvironment() map[string]string {
	if !s.props.Observe.Metrics {
		return nil
	}
	return map[string]string{"STAGE": s.props.Stage}
}

// defaultStoreTimeout is the function's.
const defaultStoreTimeout = 100 * time.Millisecond

// environment returns the variables for the check function's decisions and answers. The
// authorizers here use simple responses.
func (d *DecisionProps) environment() map[string]string {
	environment := map[string]string{
		"HTTP_API_RESPONSE": "simple",
		"VALKEY_TIMEOUT":    duration(d.StoreTimeout),
		"CALLER_CACHE":      duration(d.CallerCache),
		"DENY_CACHE":        duration(d.DenyCache),
		"RESERVATION_LEASE": duration(d.ReservationLease),
		"USAGE_IDENTIFIER":  whenTrue(d.UsageIdentifier),
	}
	if d.DenialInContext {
		environment["HTTP_API_DENY"] = "context"
	}
	return environment
}

// duration returns text for a duration, none for nil, which means the default.
func duration(d *time.Duration) string {
	if d == nil {
		return ""
	}
	return d.String()
}

// environment returns the variables for the check function's credentials.
func (i *IdentityProps) environment() map[string]string {
	return map[string]string{
		"IDENTITY_SOURCES":   strings.Join(i.Sources, ","),
		"IPV4_PREFIX":        digits(i.IPv4Prefix),
		"IPV6_PREFIX":        digits(i.IPv6Prefix),
		"JWT_ISSUER":         i.JWT.Issuer,
		"JWT_AUDIENCE":       strings.Join(i.JWT.Audiences, ","),
		"JWT_JWKS_URL":       i.JWT.JWKSURL,
		"JWT_JWKS":           i.JWT.JWKS,
		"JWT_IDENTITY_CLAIM": i.JWT.IdentityClaim,
		"JWT_PLAN_CLAIM":     i.JWT.PlanClaim,
		"JWT_LEEWAY":         duration(i.JWT.Leeway),
		"FOREIGN_KEYS":       whenTrue(i.ForeignKeys),
	}
}

// whenTrue returns text for true, none for false, which is the default.
func whenTrue(b bool) string {
	if !b {
		return ""
	}
	return "true"
}

// digits returns text for a number, none for 0, which means the default.
func digits(n int) string {
	if n == 0 {
		return ""
	}
	return strconv.Itoa(n)
}

// allowCallers lets the authorizers of other stacks and accounts invoke the check
// function.
func (s *Stack) allowCallers() {
	for i, caller := range s.props.Callers {
		id := fmt.Sprintf("Caller%d", i+1)
		if err := authorizer.Allow(s.check, &id, caller); err != nil {
			panic(err) // Props.check has checked it
		}
	}
}
