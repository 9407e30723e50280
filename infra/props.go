package main

import (
	"time"

	"github.com/aws/aws-cdk-go/awscdk/v2/awslambda"
)

// Props are all choices of an operator. The zero value of a field means its default,
// which may depend on Stage. Defaults fills the defaults in, and NewStack needs its
// result. Every field has a flag: cdk -c FLAG=VALUE, or the context of cdk.json.
type Props struct {
	// Stage names the deployment: lower-case letters, digits and hyphens, at most 12.
	// Flag stage, default dev.
	Stage string
	// Keep protects the stack from deletion, and keeps its data if it is deleted all the
	// same: a last snapshot of the cache, its encryption key, the pepper and the logs.
	// Flag keep, default true in stage prod, else false.
	Keep bool
	// CIDR is the network's range, /16 to /24. Flag cidr, default 10.42.0.0/22.
	CIDR string
	// Zones are the availability zones. Flag zones, default the first two of the region.
	Zones []string

	// Journal keeps every change in a bucket before it is acknowledged. The bucket stays
	// when the stack is deleted. Flag journal, default false.
	Journal bool
	// JournalAway is refuse or queue, and JournalRestore ask or always. Flags journalAway
	// and journalRestore, default the function's own.
	JournalAway, JournalRestore string
	// JournalLockDays is how long nobody, not even the account's root user, can delete
	// entries of the journal. Flag journalLockDays, default none.
	JournalLockDays int
	// AuditRetention is how long entries of the audit stay in Valkey. Flag
	// auditRetention, default for ever.
	AuditRetention *time.Duration
	// Crossings is where events of crossed limits go: eventbridge, the account's default
	// event bus, or sns, a topic of the stack. Flag crossings, default none.
	Crossings string
	// Store is where counts and configuration are stored.
	Store StoreProps
	// Check is the authorizer's function.
	Check FunctionProps
	// Admin is the dashboard's function.
	Admin FunctionProps
	// Identity is how the check function identifies callers.
	Identity IdentityProps
	// Decision is how the check function decides and answers.
	Decision DecisionProps
	// Login is how people log in to the dashboard.
	Login LoginProps
	// NATGateways is their number if a function needs the internet, for Login.OIDC or
	// Identity.JWT.JWKSURL. Flag natGateways, default 1, but one for each of two zones if
	// Keep.
	NATGateways int

	// Example adds a REST API and an HTTP API with a sample backend, both behind the
	// authorizer. Flag example, default true, but false in stage prod.
	Example bool
	// CORSOrigin is the origin whose scripts may read the example APIs' answers in a
	// browser. Flag corsOrigin: an origin, * or none. Default *.
	CORSOrigin string
	// WAF puts a web ACL with a rate-based rule before the example's REST API. Flag waf.
	// HTTP APIs cannot have one.
	WAF bool
	// Callers are ARNs of authorizers of other stacks or accounts that may invoke the
	// check function. Flag callers.
	Callers []string
	// Domain is the dashboard's own host name.
	Domain DomainProps

	// Observe is what is recorded of the calls.
	Observe ObserveProps
	// Release names on the dashboard what is deployed, such as a commit. Flag release.
	Release string
	// AlarmEmail gets the alarms, once its owner has confirmed. Flag alarmEmail.
	AlarmEmail string
	// LogDays is how long logs are kept: 1, 3, 5, 7, 14, 30, 60, 90, 120, 150, 180, 365,
	// 400, 545 or 731. Flag logDays, default 180 in stage prod, else 14.
	LogDays int
	// Tags are added to every resource. Flag tags, as name=value,name=value.
	Tags map[string]string

	code codeOf
}

// codeOf returns the zip of a function by its name.
type codeOf func(name string) awslambda.Code

// StoreProps choose the cache.
type StoreProps struct {
	// Kind is serverless or nodes. Flag store, default serverless.
	Kind StoreKind
	// MaxStorageGB, and MaxECPUs a second, bound the size and the cost of a serverless
	// cache. Flags maxStorageGB, default 5, and maxECPUs, default 100000.
	MaxStorageGB, MaxECPUs int
	// NodeType, Shards and Replicas, of each shard, are for nodes. Flags nodeType,
	// default cache.t4g.small, but cache.r7g.large in stage prod; shards, default 1, but
	// 2 in stage prod; replicas, default 1.
	NodeType         string
	Shards, Replicas int
	// Version of Valkey, 7.2 to 9.1. Flag valkeyVersion, default 8.1, with Durability
	// 9.0. A cache never goes back to an older one.
	Version string
	// Durability is for nodes. Flag valkeyDurability: sync or async, default none. It is
	// chosen when the cache is created.
	Durability Durability
	// SnapshotDays is how long daily snapshots are kept. Flag snapshotDays, default 7 if
	// Keep, else 0: none are made.
	SnapshotDays int
}

// StoreKind is a kind of cache.
type StoreKind string

// The kinds of caches.
const (
	Serverless StoreKind = "serverless"
	Nodes      StoreKind = "nodes"
)

// FunctionProps size a function.
type FunctionProps struct {
	// Memory in MB also decides the share of a processor. Flags checkMemory and
	// adminMemory, default 512.
	Memory int
	// Concurrency is reserved: the most environments at a time, which other functions of
	// the account cannot use. Unreserved reserves none. Flags checkConcurrency, default
	// 100 in stage prod, and adminConcurrency, default 5 in stage prod; "none", the
	// default elsewhere, means Unreserved.
	Concurrency int
	// LogLevel is debug, info, warn or error. Flag logLevel, for both, default info.
	LogLevel string
}

// Unreserved is no reserved concurrency.
const Unreserved = -1

// IdentityProps choose which credentials the check function accepts. Empty fields leave
// the function's own defaults.
type IdentityProps struct {
	// Sources are key, jwt and ip, in the order of trust; ip only last. Flag identity, as
	// key,jwt.
	Sources []string
	// IPv4Prefix and IPv6Prefix are how much of an address counts as one caller. Flags
	// ipv4Prefix, 8 to 32, and ipv6Prefix, 16 to 128.
	IPv4Prefix, IPv6Prefix int
	// ForeignKeys accepts API keys of another system, in both functions. Flag
	// foreignKeys.
	ForeignKeys bool
	// JWT is needed with source jwt.
	JWT JWTProps
}

// JWTProps say which bearer tokens are valid.
type JWTProps struct {
	// Issuer and Audiences must be those of the tokens. Flags jwtIssuer and jwtAudience,
	// as one,two.
	Issuer    string
	Audiences []string
	// JWKSURL is the address of the issuer's keys, which needs a NAT gateway. JWKS are
	// the keys themselves instead. Flags jwtJwksUrl and jwtJwks.
	JWKSURL, JWKS string
	// IdentityClaim and PlanClaim are claims that say who calls, and under which plan.
	// Flags jwtIdentityClaim and jwtPlanClaim.
	IdentityClaim, PlanClaim string
	// Leeway is how far the issuer's clock may be off. Flag jwtLeeway.
	Leeway *time.Duration
}

// DecisionProps choose how the check function decides and answers. Fields that are nil or
// empty leave the function's own defaults.
type DecisionProps struct {
	// StoreTimeout is how long the cache may take to answer. Flag storeTimeout.
	StoreTimeout *time.Duration
	// CallerCache is how long a caller counts as verified while the cache is away. Flag
	// callerCache.
	CallerCache *time.Duration
	// DenyCache is how long a caller that keeps calling is denied without asking the
	// cache again. Flag denyCache.
	DenyCache *time.Duration
	// ReservationLease is how long a reservation of either function can be settled.
	// Flag reservationLease.
	ReservationLease *time.Duration
	// DenialInContext lets calls over a limit pass an HTTP API, with denied in the
	// context: its backend must refuse them. Flag httpApiDeny: deny or context.
	DenialInContext bool
	// UsageIdentifier adds a usageIdentifierKey to answers to REST and WebSocket APIs.
	// Flag usageIdentifier.
	UsageIdentifier bool
}

// LoginProps say who may use the dashboard.
type LoginProps struct {
	// User is the first user's name. Flag adminUser, default admin. The password is
	// generated; the stack's output FirstLogin says how to read it. NoUser means no user
	// and no password, and needs Users or OIDC.
	User string
	// Users is the name of a secret in Secrets Manager that lists more users, as
	// ADMIN_USERS does. Flag adminUsersSecretName.
	Users string
	// Networks may use the dashboard and its API, others get 403. Flag adminNetworks, as
	// 203.0.113.0/24,2001:db8::/32; default all.
	Networks []string
	// OwnerView is what the owner of an API key sees of it: off, api or page. Flag
	// ownerView, default the function's own. OwnerNetworks are for these alone, in the
	// form of Networks. Flag ownerNetworks, default Networks.
	OwnerView     string
	OwnerNetworks []string
	// SessionIdle and SessionLifetime end sessions. Flags sessionIdle and
	// sessionLifetime.
	SessionIdle, SessionLifetime *time.Duration
	// OIDC lets people log in at an OpenID provider. It needs a NAT gateway.
	OIDC OIDCProps
}

// OIDCProps describe the dashboard's client at an OpenID provider, such as a Cognito user
// pool.
type OIDCProps struct {
	// Issuer is the provider's https URL. Flag oidcIssuer; without it there is no OIDC.
	Issuer string
	// ClientID and ClientSecret name the client; ClientSecret is the name of a secret in
	// Secrets Manager, never the secret itself. Flags oidcClientId and oidcSecretName.
	ClientID, ClientSecret string
	// RoleClaim is the claim that decides on people's role: Editors and Viewers are its
	// values for each. Flags oidcRoleClaim, default groups; oidcEditors; oidcViewers.
	RoleClaim        string
	Editors, Viewers []string
	// Scopes are requested. Flag oidcScopes, as one,two; default openid, profile and
	// email.
	Scopes []string
}

// NoUser is no first user.
const NoUser = "none"

// DomainProps give the dashboard its own host name, and switch its default one off.
type DomainProps struct {
	// Name is the host name. Flag domain.
	Name string
	// Certificate is the ARN of its ACM certificate, in the stack's region. Flag
	// certificate.
	Certificate string
	// Zone and ZoneID are the name and the id of the Route 53 zone to add the name to.
	// Flags zone and zoneId; without them the record is the operator's task.
	Zone, ZoneID string
}

// egress reports which functions need the internet.
func (p *Props) egress() (check, admin bool) {
	return p.Identity.JWT.JWKSURL != "", p.Login.OIDC.Issuer != ""
}

// name returns the stack's name, which is the prefix of its resources' names.
func (p *Props) name() string { return "tidegate-" + p.Stage }
