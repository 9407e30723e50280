package settings

import (
	"fmt"
	"maps"
	"net/url"
	"slices"
	"strings"
	"time"

	"tidegate/functions/check/identity"
	"tidegate/internal/config"
)

const (
	// CheckTimeout is the check function's time-out in seconds, longer than any check. An
	// HTTP API waits at most 10 seconds for its authorizer.
	CheckTimeout = 9
	// ConnectTimeout is the maximum time of a connection to the cache, with TLS and
	// log-in. A log-in by IAM at a serverless cache can take seconds.
	ConnectTimeout = 5 * time.Second
	// defaultStoreTimeout is the function's default of VALKEY_TIMEOUT.
	defaultStoreTimeout = 100 * time.Millisecond
)

// ByConstruct are the variables that the construct itself sets, with the setting that
// changes each.
var ByConstruct = map[string]string{
	"VALKEY_URL": "store", "VALKEY_CONNECT_TIMEOUT": "", "KEY_PEPPER": "pepperSecret", "STAGE": "stage",
	"HTTP_API_RESPONSE": "", "CHANGES_LOG": "changesBucket", "ADMIN_URL": "domain", "BASE_PATH": "domain",
	"ADMIN_USER": "adminUser", "ADMIN_PASSWORD": "adminUser", "ADMIN_PASSWORD_HASH": "adminUser",
	"ADMIN_USERS": "adminUsersSecret", "OIDC_CLIENT_SECRET": "oidcSecret", "CROSSINGS_TARGET": "crossings",
	"EXAMPLE_URL": "example",
}

// ofBoth are the variables that both functions read, and must read alike.
var ofBoth = []string{"FOREIGN_KEYS", "TRUSTED_PROXIES"}

// durations has the bounds of variables that are durations.
var durations = map[string]config.Duration{
	"VALKEY_TIMEOUT": config.ValkeyTimeout, "CALLER_CACHE": config.CallerCache,
	"DENY_CACHE": config.DenyCache, "SETTLE_WITHIN": config.SettleWithin,
	"SESSION_IDLE": config.SessionIdle, "SESSION_LIFETIME": config.SessionLifetime,
}

// choices has the values of variables with few.
var choices = map[string][]string{
	"HTTP_API_DENY": {"deny", "context"}, "DIRECT_CALLS": {"on", "off"}, "OWNER_VIEW": {"off", "api"},
	"FOREIGN_KEYS": {"true", "false"}, "USAGE_IDENTIFIER": {"true", "false"},
	"LOG_LEVEL": {"debug", "info", "warn", "error"},
}

// maxVariables is how many bytes a function's variables may have: 4 KB less those that the
// construct sets.
const maxVariables = 3000

// checkVariables checks the functions' variables by the functions' own bounds.
func (p *Props) checkVariables(want wants) {
	for part, function := range map[string]struct {
		values map[string]string
		known  []string
	}{"check": {p.Check, config.CheckVariables}, "admin": {p.Admin, config.AdminVariables}} {
		size := 0
		for _, name := range slices.Sorted(maps.Keys(function.values)) {
			value := function.values[name]
			size += len(name) + len(value)
			setting, ours := ByConstruct[name]
			switch {
			case ours && setting == "":
				want(false, part+"."+name, "…", "the construct sets it")
			case ours:
				want(false, part+"."+name, "…", "the construct sets it: see the setting %s", setting)
			case !slices.Contains(function.known, name):
				want(false, part+"."+name, value,
					"is no variable of this function: docs/configuration.md lists them")
			case part == "admin" && slices.Contains(ofBoth, name):
				want(false, "admin."+name, value, "set check.%s: both functions get it", name)
			default:
				checkVariable(want, part+"."+name, name, value)
			}
		}
		want(size <= maxVariables, part, "…", "has %d bytes of variables, and a function's environment has "+
			"room for %d: use JWT_JWKS_URL, or fewer networks", size, maxVariables)
	}
	idle := durationOr(p.Admin["SESSION_IDLE"], config.DefaultSessionIdle)
	lifetime := durationOr(p.Admin["SESSION_LIFETIME"], config.DefaultSessionLifetime)
	want(lifetime >= idle, "admin.SESSION_LIFETIME", lifetime, "must not be shorter than SESSION_IDLE=%s",
		idle)
	want(ConnectTimeout+p.Timeout()*3/2 < CheckTimeout*time.Second, "check.VALKEY_TIMEOUT", p.Timeout(),
		"must be shorter: a check may take 3/2 of it and %s to connect, and the function ends after %d s",
		ConnectTimeout, CheckTimeout)
}

func durationOr(text string, standard time.Duration) time.Duration {
	if d, err := time.ParseDuration(text); err == nil {
		return d
	}
	return standard
}

func checkVariable(want wants, path, name, value string) {
	if bound, ok := durations[name]; ok {
		d, err := time.ParseDuration(value)
		if want(err == nil, path, value, "must be a duration such as 500ms, 10m or 2h"); err == nil {
			err = bound.Check(d)
			want(err == nil, path, value, "%v", err)
		}
	}
	if values, ok := choices[name]; ok {
		want(slices.Contains(values, value), path, value, "must be %s", strings.Join(values, " or "))
	}
	if name == "ADMIN_NETWORKS" || name == "OWNER_NETWORKS" {
		_, err := config.Networks(value)
		want(err == nil, path, value, "%v", err)
	}
}

// identities reads the variables of identities with the check function's own code.
func (p *Props) identities() (identity.Config, config.Problems) {
	var assignments []string
	for name, value := range p.Check {
		assignments = append(assignments, name+"="+value)
	}
	set, problems := config.Read[identity.Variables](assignments)
	c, err := set.Config()
	problems.AddError(err)
	return c, problems
}

// Providers returns the host names of the identity providers that the functions call.
func (p *Props) Providers() []string {
	var hosts []string
	c, _ := p.identities()
	for _, issuer := range c.JWT.Issuers {
		if issuer.KeysURL != nil {
			hosts = append(hosts, issuer.KeysURL.Hostname())
		}
	}
	if issuer, err := url.Parse(p.Admin["OIDC_ISSUER"]); err == nil && issuer.Host != "" {
		hosts = append(hosts, issuer.Hostname())
	}
	return hosts
}

// checkIdentity validates the variables of identities. The error names the variables.
func (p *Props) checkIdentity() error {
	c, problems := p.identities()
	for _, issuer := range c.JWT.Issuers {
		if issuer.KeysURL != nil && issuer.KeysURL.Scheme != "https" {
			problems.Add("JWT_JWKS_URL", fmt.Sprintf("is %s: must be an https URL", issuer.KeysURL))
		}
	}
	if err := problems.Err(); err != nil {
		return fmt.Errorf("check: %w", err)
	}
	return nil
}
