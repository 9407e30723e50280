// Package settings has what an operator chooses for a deployment: every flag of the CDK
// app, its default, the values that it takes, and the variable of a function that it
// sets. Package infra builds the stack from it. It does not use the CDK.
package settings

import (
	"cmp"
	"time"
)

// Props are all choices of an operator, as Read returns them. A field is set by the flag
// in its tag: cdk -c FLAG=VALUE, or the context of cdk.json. A field with a variable in
// its tag env sets that of the functions; an empty one leaves the function's own default.
type Props struct {
	// Stage names the deployment: lower-case letters, digits and hyphens, at most 12.
	// Default dev.
	Stage string `flag:"stage"`
	// Keep protects the stack from deletion, and keeps its data if it is deleted all the
	// same: a last snapshot of the cache, its encryption key, the pepper and the logs.
	// Default true in stage prod, else false.
	Keep bool `flag:"keep"`
	// CIDR is the network's range, /16 to /24. Default 10.42.0.0/22.
	CIDR string `flag:"cidr"`
	// Zones are the availability zones, default the first two of the region.
	Zones []string `flag:"zones"`

	// Journal keeps every change before it is acknowledged.
	Journal Journal
	// Crossings is where events of crossed limits go: the account's default event bus,
	// or a topic of the stack. Default none.
	Crossings string `flag:"crossings" values:"eventbridge,sns"`
	// Store is where counts and configuration are stored.
	Store Store
	// Check is the authorizer's function. Its default Concurrency is 100 in stage prod.
	Check Function `flag:"check"`
	// Admin is the dashboard's function. Its default Concurrency is 5 in stage prod.
	Admin Function `flag:"admin"`
	// LogLevel is that of both functions, default info.
	LogLevel string `flag:"logLevel" values:"debug,info,warn,error"`
	// Identity is how the check function identifies callers.
	Identity Identity
	// Decision is how the check function decides and answers.
	Decision Decision
	// Login is how people log in to the dashboard.
	Login Login
	// NATGateways is their number if a function needs the internet, for Login.OIDC or
	// Identity.JWT.JWKSURL. Default 1, but one for each of two zones if Keep.
	NATGateways int `flag:"natGateways" range:"1-3"`

	// Example adds a REST API and an HTTP API with a sample backend, both behind the
	// authorizer. Default true, but false in stage prod.
	Example bool `flag:"example"`
	// CORSOrigin is the origin whose scripts may read the example APIs' answers in a
	// browser: an origin, * or none. Default *.
	CORSOrigin string `flag:"corsOrigin"`
	// WAF puts a web ACL with a rate-based rule before the example's REST API. HTTP APIs
	// cannot have one.
	WAF bool `flag:"waf"`
	// Callers are ARNs of authorizers of other stacks or accounts that may invoke the
	// check function.
	Callers []string `flag:"callers"`
	// Domain is the dashboard's own host name.
	Domain Domain

	// Observe is what is recorded of the calls.
	Observe Observe
	// Release names on the dashboard what is deployed, such as a commit.
	Release string `flag:"release"`
	// AlarmEmail gets the alarms, once its owner has confirmed.
	AlarmEmail string `flag:"alarmEmail"`
	// LogDays is how long logs are kept: one of the numbers that CloudWatch knows.
	// Default 180 in stage prod, else 14.
	LogDays int `flag:"logDays"`
	// Tags are added to every resource.
	Tags map[string]string `flag:"tags"`

	// Nag has the synthesis fail for any finding of cdk-nag that is not accepted.
	Nag bool `flag:"nag"`
}

// Journal is the bucket that keeps every change. It stays when the stack is deleted.
type Journal struct {
	Enabled bool   `flag:"journal"`
	Away    string `flag:"journalAway" values:"refuse,queue" env:"JOURNAL_AWAY"`
	Restore string `flag:"journalRestore" values:"ask,always" env:"JOURNAL_RESTORE"`
	// LockDays is how long nobody, not even the account's root user, can delete entries.
	// Default none.
	LockDays int `flag:"journalLockDays" range:"1-3650"`
	// AuditRetention is how long entries of the audit stay in Valkey.
	AuditRetention *time.Duration `flag:"auditRetention" env:"AUDIT_RETENTION"`
}

// Store is the cache.
type Store struct {
	// Kind is that of the cache, default serverless.
	Kind StoreKind `flag:"store" values:"serverless,nodes"`
	// MaxStorageGB, and MaxECPUs a second, bound the size and the cost of a serverless
	// cache. Defaults 5 and 100000.
	MaxStorageGB int `flag:"maxStorageGB" range:"1-5000"`
	MaxECPUs     int `flag:"maxECPUs" range:"1000-15000000"`
	// NodeType, Shards and Replicas, of each shard, are for nodes. Defaults
	// cache.t4g.small, but cache.r7g.large in stage prod; 1, but 2 in stage prod; 1.
	// Without a replica a failed node would lose its counts.
	NodeType string `flag:"nodeType"`
	Shards   int    `flag:"shards" range:"1-500"`
	Replicas int    `flag:"replicas" range:"1-5"`
	// Version of Valkey, 7.2 to 9.1. Default 8.1, with Durability 9.0. A cache never
	// goes back to an older one.
	Version string `flag:"valkeyVersion"`
	// Durability is for nodes, default none. It is chosen when the cache is created.
	Durability Durability `flag:"valkeyDurability" values:"sync,async"`
	// SnapshotDays is how long daily snapshots are kept. Default 7 if Keep, else 0: none
	// are made.
	SnapshotDays int `flag:"snapshotDays" range:"1-35"`
}

// StoreKind is a kind of cache.
type StoreKind string

// The kinds of caches.
const (
	Serverless StoreKind = "serverless"
	Nodes      StoreKind = "nodes"
)

// Function sizes a function. The names of its flags begin with the function's.
type Function struct {
	// Memory in MB also decides the share of a processor. Default 512.
	Memory int `flag:"Memory" range:"128-10240"`
	// Concurrency is reserved: the most environments at a time, which other functions of
	// the account cannot use. Its default outside stage prod is Unreserved.
	Concurrency int `flag:"Concurrency" none:"-1"`
}

// Unreserved is no reserved concurrency.
const Unreserved = -1

// Identity is which credentials the check function accepts.
type Identity struct {
	// Sources are key, jwt and ip, in the order of trust; ip only last.
	Sources []string `flag:"identity" env:"IDENTITY_SOURCES"`
	// IPv4Prefix and IPv6Prefix are how much of an address counts as one caller.
	IPv4Prefix int `flag:"ipv4Prefix" env:"IPV4_PREFIX"`
	IPv6Prefix int `flag:"ipv6Prefix" env:"IPV6_PREFIX"`
	// ForeignKeys accepts API keys of another system, in both functions.
	ForeignKeys bool `flag:"foreignKeys" env:"FOREIGN_KEYS"`
	// JWT is needed with source jwt.
	JWT JWT
}

// JWT says which bearer tokens are valid.
type JWT struct {
	// Issuer and Audiences must be those of the tokens.
	Issuer    string   `flag:"jwtIssuer" env:"JWT_ISSUER"`
	Audiences []string `flag:"jwtAudience" env:"JWT_AUDIENCE"`
	// JWKSURL is the address of the issuer's keys, which needs a NAT gateway. JWKS are
	// the keys themselves instead.
	JWKSURL string `flag:"jwtJwksUrl" env:"JWT_JWKS_URL"`
	JWKS    string `flag:"jwtJwks" env:"JWT_JWKS"`
	// IdentityClaim and PlanClaim are claims that say who calls, and under which plan.
	IdentityClaim string `flag:"jwtIdentityClaim" env:"JWT_IDENTITY_CLAIM"`
	PlanClaim     string `flag:"jwtPlanClaim" env:"JWT_PLAN_CLAIM"`
	// Leeway is how far the issuer's clock may be off.
	Leeway *time.Duration `flag:"jwtLeeway" env:"JWT_LEEWAY"`
}

// Decision is how the check function decides and answers.
type Decision struct {
	// StoreTimeout is how long the cache may take to answer.
	StoreTimeout *time.Duration `flag:"storeTimeout" env:"VALKEY_TIMEOUT"`
	// CallerCache is how long a caller counts as verified while the cache is unavailable.
	CallerCache *time.Duration `flag:"callerCache" env:"CALLER_CACHE"`
	// DenyCache is how long a caller that keeps calling is denied without asking the
	// cache again.
	DenyCache *time.Duration `flag:"denyCache" env:"DENY_CACHE"`
	// ReservationLease is how long a reservation of either function can be settled.
	ReservationLease *time.Duration `flag:"reservationLease" env:"RESERVATION_LEASE"`
	// HTTPAPIDeny lets calls over a limit pass an HTTP API if it is context, with denied
	// in the context: its backend must refuse them.
	HTTPAPIDeny string `flag:"httpApiDeny" values:"deny,context"`
	// UsageIdentifier adds a usageIdentifierKey to answers to REST and WebSocket APIs.
	UsageIdentifier bool `flag:"usageIdentifier" env:"USAGE_IDENTIFIER"`
}

// Login says who may use the dashboard.
type Login struct {
	// User is the first user's name, default admin. The password is generated; the
	// stack's output FirstLogin says how to read it. NoUser means no user and no
	// password, and needs Users or OIDC.
	User string `flag:"adminUser"`
	// Users is the name of a secret in Secrets Manager that lists more users, as
	// ADMIN_USERS does.
	Users string `flag:"adminUsersSecretName"`
	// Networks may use the dashboard and its API, others get 403. Default all.
	Networks []string `flag:"adminNetworks" env:"ADMIN_NETWORKS"`
	// OwnerView is what the owner of an API key sees of it. OwnerNetworks are for these
	// alone, default Networks.
	OwnerView     string   `flag:"ownerView" values:"off,api,page" env:"OWNER_VIEW"`
	OwnerNetworks []string `flag:"ownerNetworks" env:"OWNER_NETWORKS"`
	// SessionIdle and SessionLifetime end sessions.
	SessionIdle     *time.Duration `flag:"sessionIdle" env:"SESSION_IDLE"`
	SessionLifetime *time.Duration `flag:"sessionLifetime" env:"SESSION_LIFETIME"`
	// OIDC lets people log in at an OpenID provider. It needs a NAT gateway.
	OIDC OIDC
}

// NoUser is no first user.
const NoUser = "none"

// OIDC is the dashboard's client at an OpenID provider, such as a Cognito user pool.
type OIDC struct {
	// Issuer is the provider's https URL; without it there is no OIDC.
	Issuer string `flag:"oidcIssuer" env:"OIDC_ISSUER"`
	// ClientID and ClientSecret name the client; ClientSecret is the name of a secret in
	// Secrets Manager, never the secret itself.
	ClientID     string `flag:"oidcClientId" env:"OIDC_CLIENT_ID"`
	ClientSecret string `flag:"oidcSecretName"`
	// RoleClaim is the claim that decides on people's role: Editors and Viewers are its
	// values for each.
	RoleClaim string   `flag:"oidcRoleClaim" env:"OIDC_ROLE_CLAIM"`
	Editors   []string `flag:"oidcEditors" env:"OIDC_EDITOR_VALUES"`
	Viewers   []string `flag:"oidcViewers" env:"OIDC_VIEWER_VALUES"`
	// Scopes are requested, default openid, profile and email.
	Scopes []string `flag:"oidcScopes"`
}

// Domain gives the dashboard its own host name, and switches its default one off.
type Domain struct {
	Name string `flag:"domain"`
	// Certificate is the ARN of its ACM certificate, in the stack's region.
	Certificate string `flag:"certificate"`
	// Zone and ZoneID are the name and the id of the Route 53 zone to add the name to.
	// Without them the record is the operator's task.
	Zone   string `flag:"zone"`
	ZoneID string `flag:"zoneId"`
}

// Observe is what is recorded of the calls, in addition to the functions' logs and the
// alarms on AWS's own metrics. The bill that synthesis prints says what each costs.
type Observe struct {
	// Tracing has X-Ray record a part of the calls.
	Tracing bool `flag:"tracing"`
	// Metrics has the check function write metrics of its own, on which some alarms
	// depend. Default true in stage prod.
	Metrics bool `flag:"metrics"`
	// Dashboard is the CloudWatch dashboard, which draws these metrics. Default as
	// Metrics.
	Dashboard bool `flag:"cloudWatchDashboard"`
	// AccessLogs are those of the HTTP APIs. Default true in stage prod.
	AccessLogs bool `flag:"accessLogs"`
}

// Egress reports which functions need the internet.
func (p *Props) Egress() (check, admin bool) {
	return p.Identity.JWT.JWKSURL != "", p.Login.OIDC.Issuer != ""
}

// Name returns the stack's name, which is the prefix of its resources' names.
func (p *Props) Name() string { return "tidegate-" + p.Stage }

// LongestCheck is how long a check takes at most: to connect, to ask, and to ask again.
func (d *Decision) LongestCheck() time.Duration { return ConnectTimeout + d.Timeout()*3/2 }

// Timeout returns StoreTimeout, or the function's default.
func (d *Decision) Timeout() time.Duration {
	if d.StoreTimeout == nil {
		return defaultStoreTimeout
	}
	return *d.StoreTimeout
}

// setDefaults sets the unset fields. Read has set those that are true by default.
func (p *Props) setDefaults() {
	p.Stage = cmp.Or(p.Stage, "dev")
	prod := p.Stage == "prod"
	p.CIDR = cmp.Or(p.CIDR, "10.42.0.0/22")
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
