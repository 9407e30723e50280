// Package settings defines every flag of the CDK app: its default, its valid values and
// the environment variable of a function that it sets. Package infra builds the stack
// from these settings. Package settings does not use the CDK.
package settings

import (
	"cmp"
	"net/netip"
	"strings"
	"time"
)

// Props are the settings of a deployment, as Read returns them. The flag in a field's tag
// sets the field: in the stage's file, or by cdk -c FLAG=VALUE. A field with the tag env
// sets this variable of the functions; an empty field leaves the function's own default.
// The tag fixed says why a field cannot change while the stack exists.
type Props struct {
	// Stage names the deployment: lower-case letters, digits and hyphens, at most 12.
	// Default dev.
	Stage string `flag:"stage"`
	// Keep protects the stack from deletion. If the stack is deleted all the same, Keep
	// retains its data: a last snapshot of the cache, the encryption key, the pepper and
	// the logs. Default true in stage prod, else false.
	Keep bool `flag:"keep"`
	// CIDR is the network's private IPv4 range, /16 to /24. Default 10.42.0.0/20.
	CIDR string `flag:"cidr" fixed:"the network and the cache would be replaced"`
	// Zones are 2 or 3 availability zones. Default the first two of the region.
	Zones []string `flag:"zones" fixed:"the subnets and the cache would be replaced"`

	// ChangesLockDays is for how many days nobody, not even the account's root user, can
	// delete an object of the log of changes. Default none.
	ChangesLockDays int `flag:"changesLockDays" range:"1-3650"`
	// Crossings is the target of events of crossed limits: the account's default event
	// bus, or a topic of the stack. Default none.
	Crossings string `flag:"crossings" values:"eventbridge,sns"`
	// Store is the cache that stores counts and configuration.
	Store Store
	// Check is the authorizer's function. Its default Concurrency is 100 in stage prod.
	Check Function `flag:"check"`
	// Admin is the dashboard's function. Its default Concurrency is 5 in stage prod.
	Admin Function `flag:"admin"`
	// LogLevel is the log level of both functions. Default info.
	LogLevel string `flag:"logLevel" values:"debug,info,warn,error"`
	// Identity configures how the check function identifies callers.
	Identity Identity
	// Decision configures how the check function decides and answers.
	Decision Decision
	// Login configures how people log in to the dashboard.
	Login Login
	// NATGateways is the number of NAT gateways, if a function needs the internet for
	// Login.OIDC or Identity.JWT.JWKSURL. Default 1; 2, one for each zone, if Keep.
	NATGateways int `flag:"natGateways" range:"1-3"`

	// Example adds a REST API and an HTTP API with a sample backend, both behind the
	// authorizer. Default false in stage prod, else true.
	Example bool `flag:"example"`
	// CORSOrigin is the origin whose scripts may read the example APIs' answers in a
	// browser: an origin, * or none. Default *.
	CORSOrigin string `flag:"corsOrigin"`
	// Callers are ARNs of authorizers of other stacks or accounts that may invoke the
	// check function.
	Callers []string `flag:"callers"`
	// DirectCallers are ARNs of IAM roles and users, also of other accounts, that may invoke
	// the check function for direct calls.
	DirectCallers []string `flag:"directCallers"`
	// Domain is the dashboard's own host name.
	Domain Domain

	// Observe selects the records of calls.
	Observe Observe
	// Release is the version that the dashboard shows, such as a commit.
	Release string `flag:"release"`
	// AlarmEmail is the address that gets the alarms, once its owner has confirmed.
	AlarmEmail string `flag:"alarmEmail"`
	// LogDays is how many days logs are kept: a retention that CloudWatch supports.
	// Default 180 in stage prod, else 14.
	LogDays int `flag:"logDays"`
	// Tags are added to every resource.
	Tags map[string]string `flag:"tags"`

	// Nag makes synthesis fail for every finding of cdk-nag that is not an exception.
	Nag bool `flag:"nag"`
}

// Store is the cache.
type Store struct {
	// Kind of the cache. Default serverless.
	Kind StoreKind `flag:"store" values:"serverless,nodes" fixed:"the new cache would be empty"`
	// MaxStorageGB and MaxECPUs, ECPUs a second, bound the size and the cost of a
	// serverless cache. Defaults 5 and 100000.
	MaxStorageGB int `flag:"maxStorageGB" range:"1-5000"`
	MaxECPUs     int `flag:"maxECPUs" range:"1000-15000000"`
	// NodeType is for nodes. Default cache.r7g.large in stage prod, else cache.t4g.small.
	NodeType string `flag:"nodeType"`
	// Shards is for nodes. Default 2 in stage prod, else 1.
	Shards int `flag:"shards" range:"1-500"`
	// Replicas of each shard, for nodes. Default 1: without a replica a failed node would
	// lose its counts.
	Replicas int `flag:"replicas" range:"1-5" fixed:"the cache would be replaced"`
	// Version of Valkey, 7.2 to 9.1. Default 9.0 with Durability, else 8.1. ElastiCache
	// cannot downgrade a cache.
	Version string `flag:"valkeyVersion" fixed:"ElastiCache cannot go back to an older version"`
	// Durability is for nodes. Default none. Choose it when the cache is created:
	// see docs/deploy.md.
	Durability Durability `flag:"valkeyDurability" values:"sync,async"`
	// SnapshotDays is how many days daily snapshots are kept. Default 7 if Keep, else 0:
	// no snapshots.
	SnapshotDays int `flag:"snapshotDays" range:"1-35"`
}

// StoreKind is a kind of cache.
type StoreKind string

// The kinds of caches.
const (
	Serverless StoreKind = "serverless"
	Nodes      StoreKind = "nodes"
)

// Function is the size of a function. Its flags begin with the function's name.
type Function struct {
	// Memory in MB, which also decides the share of a processor. Default 512.
	Memory int `flag:"Memory" range:"128-10240"`
	// Concurrency is the reserved concurrency: the maximum number of Lambda environments
	// at a time. Other functions of the account cannot use it. The default outside stage
	// prod is Unreserved.
	Concurrency int `flag:"Concurrency" none:"-1"`
}

// Unreserved means no reserved concurrency.
const Unreserved = -1

// Identity configures which credentials the check function accepts.
type Identity struct {
	// Sources are one or more of key, jwt and ip, the most trusted first; ip must be
	// last. Or it is key+jwt, which requires both.
	Sources []string `flag:"identity" env:"IDENTITY_SOURCES"`
	// IPv4Prefix and IPv6Prefix are prefix lengths in bits: addresses with the same
	// prefix are one caller.
	IPv4Prefix int `flag:"ipv4Prefix" env:"IPV4_PREFIX"`
	IPv6Prefix int `flag:"ipv6Prefix" env:"IPV6_PREFIX"`
	// TrustedProxies are the proxies that report the addresses of clients, to both
	// functions.
	TrustedProxies string `flag:"trustedProxies" env:"TRUSTED_PROXIES"`
	// KeyHeaders are the headers with API keys.
	KeyHeaders []string `flag:"keyHeaders" env:"KEY_HEADERS"`
	// ForeignKeys accepts API keys of another system, in both functions.
	ForeignKeys bool `flag:"foreignKeys" env:"FOREIGN_KEYS"`
	// JWT is required with source jwt.
	JWT JWT
}

// JWT configures which bearer tokens are valid.
type JWT struct {
	// Issuers has several issuers as a JSON list, instead of Issuer to JWKS.
	Issuers string `flag:"jwtIssuers" env:"JWT_ISSUERS"`
	// Issuer and Audiences are the iss and aud of valid tokens.
	Issuer    string   `flag:"jwtIssuer" env:"JWT_ISSUER"`
	Audiences []string `flag:"jwtAudience" env:"JWT_AUDIENCE"`
	// JWKSURL is the address of the issuer's keys, which needs a NAT gateway.
	JWKSURL string `flag:"jwtJwksUrl" env:"JWT_JWKS_URL"`
	// JWKS has the issuer's keys themselves, instead of JWKSURL.
	JWKS string `flag:"jwtJwks" env:"JWT_JWKS"`
	// IdentityClaim and PlanClaim are the claims with the caller's identity and plan.
	IdentityClaim string `flag:"jwtIdentityClaim" env:"JWT_IDENTITY_CLAIM"`
	PlanClaim     string `flag:"jwtPlanClaim" env:"JWT_PLAN_CLAIM"`
	// PlanMap has the plans of the groups that PlanClaim lists, as a JSON object.
	PlanMap string `flag:"jwtPlanMap" env:"JWT_PLAN_MAP"`
	// RequiredClaims are claims that must have the given texts, as a JSON object.
	RequiredClaims string `flag:"jwtRequiredClaims" env:"JWT_REQUIRED_CLAIMS"`
	// ContextClaims are claims that backends get.
	ContextClaims []string `flag:"jwtContextClaims" env:"JWT_CONTEXT_CLAIMS"`
	// Cookie is the name of a cookie with a token, which counts for pages of CookieOrigins.
	Cookie        string   `flag:"jwtCookie" env:"JWT_COOKIE"`
	CookieOrigins []string `flag:"jwtCookieOrigins" env:"JWT_COOKIE_ORIGINS"`
	// Leeway is the accepted difference between the issuer's clock and ours.
	Leeway *time.Duration `flag:"jwtLeeway" env:"JWT_LEEWAY"`
}

// Decision configures how the check function decides and answers.
type Decision struct {
	// StoreTimeout is how long the cache may take to answer.
	StoreTimeout *time.Duration `flag:"storeTimeout" env:"VALKEY_TIMEOUT"`
	// CallerCache is how long a caller counts as verified while the cache is unavailable.
	CallerCache *time.Duration `flag:"callerCache" env:"CALLER_CACHE"`
	// DenyCache is how long a denied caller that keeps calling is denied from memory,
	// without a request to the cache.
	DenyCache *time.Duration `flag:"denyCache" env:"DENY_CACHE"`
	// SettleWithin is how long a call can be settled.
	SettleWithin *time.Duration `flag:"settleWithin" env:"SETTLE_WITHIN"`
	// HTTPAPIDeny is deny or context. With context, calls over a limit pass an HTTP API
	// with denied in the authorizer's context, and the backend must refuse them.
	HTTPAPIDeny string `flag:"httpApiDeny" values:"deny,context"`
	// DirectCalls is on or off. With on, the check function answers direct calls by whom IAM
	// lets invoke it.
	DirectCalls string `flag:"directCalls" values:"off,on" env:"DIRECT_CALLS"`
	// UsageIdentifier adds a usageIdentifierKey to answers to REST and WebSocket APIs.
	UsageIdentifier bool `flag:"usageIdentifier" env:"USAGE_IDENTIFIER"`
}

// Login configures who may use the dashboard.
type Login struct {
	// User is the first user's name. Default admin. The password is generated; the
	// stack's output FirstLogin has the command that prints it. NoUser means no first
	// user, and requires Users or OIDC.
	User string `flag:"adminUser"`
	// Users is the name of a secret in Secrets Manager whose value is ADMIN_USERS: a list
	// of more users.
	Users string `flag:"adminUsersSecretName"`
	// Networks may use the dashboard and its API; others get 403. Default all.
	Networks []string `flag:"adminNetworks" env:"ADMIN_NETWORKS"`
	// OwnerView is where the owner of an API key can see its use: nowhere or in the API.
	OwnerView string `flag:"ownerView" values:"off,api" env:"OWNER_VIEW"`
	// OwnerNetworks may use the owner's view. Default Networks.
	OwnerNetworks []string `flag:"ownerNetworks" env:"OWNER_NETWORKS"`
	// SessionIdle and SessionLifetime are the maximum idle time and age of a session.
	SessionIdle     *time.Duration `flag:"sessionIdle" env:"SESSION_IDLE"`
	SessionLifetime *time.Duration `flag:"sessionLifetime" env:"SESSION_LIFETIME"`
	// OIDC lets people log in at an OpenID provider. It needs a NAT gateway.
	OIDC OIDC
}

// NoUser means no first user.
const NoUser = "none"

// OIDC is the dashboard's client at an OpenID provider, such as a Cognito user pool.
type OIDC struct {
	// Issuer is the provider's https URL; without it there is no OIDC.
	Issuer string `flag:"oidcIssuer" env:"OIDC_ISSUER"`
	// ClientID is the client's id at the provider.
	ClientID string `flag:"oidcClientId" env:"OIDC_CLIENT_ID"`
	// ClientSecret is the name of a secret in Secrets Manager, never the secret itself.
	ClientSecret string `flag:"oidcSecretName"`
	// RoleClaim is the claim that decides a person's role. Editors and Viewers are the
	// claim's values for each role.
	RoleClaim string   `flag:"oidcRoleClaim" env:"OIDC_ROLE_CLAIM"`
	Editors   []string `flag:"oidcEditors" env:"OIDC_EDITOR_VALUES"`
	Viewers   []string `flag:"oidcViewers" env:"OIDC_VIEWER_VALUES"`
	// Scopes to request. Default openid, profile and email.
	Scopes []string `flag:"oidcScopes"`
}

// Domain gives the dashboard its own host name, and disables its default host name.
type Domain struct {
	Name string `flag:"domain"`
	// Certificate is the ARN of its ACM certificate, in the stack's region.
	Certificate string `flag:"certificate"`
	// Zone and ZoneID are the name and the id of the Route 53 zone that gets the record.
	// Without them the operator must create the record.
	Zone   string `flag:"zone"`
	ZoneID string `flag:"zoneId"`
}

// Observe selects the records of calls, in addition to the functions' logs and the alarms
// on AWS's own metrics. Synthesis prints what each costs.
type Observe struct {
	// Tracing records a part of the calls in X-Ray.
	Tracing bool `flag:"tracing"`
	// Metrics makes the check function write its own metrics, which some alarms need.
	// Default true in stage prod, else false.
	Metrics bool `flag:"metrics"`
	// AccessLogs are the access logs of the HTTP APIs. Default true in stage prod, else
	// false.
	AccessLogs bool `flag:"accessLogs"`
}

// Egress reports which functions need the internet.
func (p *Props) Egress() (check, admin bool) {
	return p.Identity.JWT.JWKSURL != "" || strings.Contains(p.Identity.JWT.Issuers, `"jwksUrl"`),
		p.Login.OIDC.Issuer != ""
}

// PrefixBits returns the length of CIDR's prefix.
func (p *Props) PrefixBits() int { return netip.MustParsePrefix(p.CIDR).Bits() }

// Name returns the stack's name, which is the prefix of its resources' names.
func (p *Props) Name() string { return "tidegate-" + p.Stage }

// LongestCheck returns the longest time of a check: a connection, a request to the cache
// and a second one.
func (d *Decision) LongestCheck() time.Duration { return ConnectTimeout + d.Timeout()*3/2 }

// Timeout returns StoreTimeout, or the function's default.
func (d *Decision) Timeout() time.Duration { return valueOr(d.StoreTimeout, defaultStoreTimeout) }

// valueOr returns a flag's value, or the function's default if the flag is not given.
func valueOr(value *time.Duration, standard time.Duration) time.Duration {
	if value == nil {
		return standard
	}
	return *value
}

// setDefaults sets the unset fields. Read has already set the bools that default to true.
func (p *Props) setDefaults() {
	p.Stage = cmp.Or(p.Stage, "dev")
	prod := p.Stage == "prod"
	p.CIDR = cmp.Or(p.CIDR, "10.42.0.0/20")
	p.CORSOrigin = cmp.Or(p.CORSOrigin, "*")
	p.LogDays = cmp.Or(p.LogDays, pick(prod, 180, 14))
	p.LogLevel = cmp.Or(p.LogLevel, "info")
	p.Login.User = cmp.Or(p.Login.User, "admin")
	p.NATGateways = cmp.Or(p.NATGateways, pick(p.Keep, 2, 1))
	s := &p.Store
	s.Kind = cmp.Or(s.Kind, Serverless)
	s.MaxStorageGB, s.MaxECPUs = cmp.Or(s.MaxStorageGB, 5), cmp.Or(s.MaxECPUs, 100_000)
	s.Version = cmp.Or(s.Version, s.defaultVersion())
	s.NodeType = cmp.Or(s.NodeType, pick(prod, "cache.r7g.large", "cache.t4g.small"))
	s.Shards, s.Replicas = cmp.Or(s.Shards, pick(prod, 2, 1)), cmp.Or(s.Replicas, 1)
	if p.Keep {
		s.SnapshotDays = cmp.Or(s.SnapshotDays, 7)
	}
	p.Check.Memory, p.Admin.Memory = cmp.Or(p.Check.Memory, 512), cmp.Or(p.Admin.Memory, 512)
	// A new account may have 10 environments in total, none of which can be reserved. So
	// only prod reserves any.
	p.Check.Concurrency = cmp.Or(p.Check.Concurrency, pick(prod, 100, Unreserved))
	p.Admin.Concurrency = cmp.Or(p.Admin.Concurrency, pick(prod, 5, Unreserved))
}

func pick[T any](condition bool, yes, no T) T {
	if condition {
		return yes
	}
	return no
}
