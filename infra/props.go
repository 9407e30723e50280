package main

import (
	"errors"
	"fmt"
	"maps"
	"net/netip"
	"net/url"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/aws/aws-cdk-go/awscdk/v2/awslambda"

	"tidegate/functions/check/identity"
	"tidegate/infra/authorizer"
	"tidegate/internal/config"
)

// Props are everything that an operator can choose. The zero value of a field means its
// default, which Defaults fills in and which may depend on Stage; NewStack wants props
// that it has filled in. Every field has a flag: cdk -c FLAG=VALUE, or the context of
// cdk.json.
type Props struct {
	// Stage names the deployment: lower-case letters, digits and hyphens, at most 12.
	// Flag stage, default dev.
	Stage string
	// Keep keeps data when the stack is deleted: a last snapshot of the cache, its
	// encryption key, the pepper and the logs; and it protects the stack from deletion.
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
	// Store is where counts and configuration live.
	Store StoreProps
	// Check is the authorizer's function.
	Check FunctionProps
	// Admin is the dashboard's function.
	Admin FunctionProps
	// Identity is how the check function tells who calls.
	Identity IdentityProps
	// Decision is how the check function decides and answers.
	Decision DecisionProps
	// Login is how people log in to the dashboard.
	Login LoginProps
	// NATGateways is how many there are when a function needs the internet: for
	// Login.OIDC and Identity.JWT.JWKSURL. Flag natGateways, default 1, but one for each
	// of two zones if Keep.
	NATGateways int

	// Example adds a REST API and an HTTP API with a sample backend, both behind the
	// authorizer. Flag example, default true, but false in stage prod.
	Example bool
	// CORSOrigin is whose scripts may read the example APIs' answers in a browser. Flag
	// corsOrigin: an origin, * or none. Default *.
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
	// Release says on the dashboard what is deployed, such as a commit. Flag release.
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

// codeOf finds the zip of a function by its name.
type codeOf func(name string) awslambda.Code

// StoreProps choose the cache.
type StoreProps struct {
	// Kind is serverless or nodes. Flag store, default serverless.
	Kind StoreKind
	// MaxStorageGB and MaxECPUs, a second, bound what a serverless cache may take and
	// cost. Flags maxStorageGB, default 5, and maxECPUs, default 100000.
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
	// Memory in MB, and with it the share of a processor. Flags checkMemory and
	// adminMemory, default 512.
	Memory int
	// Concurrency is reserved: the most environments at a time, and what nobody else in
	// the account can take. Unreserved reserves none. Flags checkConcurrency, default 100
	// in stage prod, and adminConcurrency, default 5 in stage prod; "none", the default
	// elsewhere, means Unreserved.
	Concurrency int
	// LogLevel is debug, info, warn or error. Flag logLevel, for both, default info.
	LogLevel string
}

// Unreserved is no reserved concurrency.
const Unreserved = -1

// IdentityProps choose what the check function takes for a credential. Empty fields leave
// the function's own defaults.
type IdentityProps struct {
	// Sources are key, jwt and ip, in the order of trust; ip only last. Flag identity, as
	// key,jwt.
	Sources []string
	// IPv4Prefix and IPv6Prefix are how much of an address counts as one caller. Flags
	// ipv4Prefix, 8 to 32, and ipv6Prefix, 16 to 128.
	IPv4Prefix, IPv6Prefix int
	// JWT is needed with source jwt.
	JWT JWTProps
}

// JWTProps say which bearer tokens are good.
type JWTProps struct {
	// Issuer and Audiences must be those of the tokens. Flags jwtIssuer and jwtAudience,
	// as one,two.
	Issuer    string
	Audiences []string
	// JWKSURL is where the issuer's keys are: it costs a NAT gateway. Or JWKS are the
	// keys themselves. Flags jwtJwksUrl and jwtJwks.
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
	// generated; the stack's output FirstLogin says how to read it. NoUser wants other
	// users, or OIDC, and there is no password.
	User string
	// Users is the name of a secret in Secrets Manager that lists more users, as
	// ADMIN_USERS does. Flag adminUsersSecretName.
	Users string
	// Networks may use the dashboard and its API, others get 403. Flag adminNetworks, as
	// 203.0.113.0/24,2001:db8::/32; default all.
	Networks []string
	// SessionIdle and SessionLifetime end sessions. Flags sessionIdle and
	// sessionLifetime.
	SessionIdle, SessionLifetime *time.Duration
	// OIDC lets people log in at an OpenID provider. It costs a NAT gateway.
	OIDC OIDCProps
}

// OIDCProps are the client that the dashboard is at an OpenID provider, such as a Cognito
// user pool.
type OIDCProps struct {
	// Issuer is the provider's https URL. Flag oidcIssuer; without it there is no OIDC.
	Issuer string
	// ClientID and ClientSecret name the client; ClientSecret is the name of a secret in
	// Secrets Manager, never the secret itself. Flags oidcClientId and oidcSecretName.
	ClientID, ClientSecret string
	// RoleClaim is the claim that gives people their role, by values for editors and for
	// viewers. Flags oidcRoleClaim, default groups; oidcEditors; oidcViewers.
	RoleClaim        string
	Editors, Viewers []string
	// Scopes are asked for. Flag oidcScopes, as one,two; default openid, profile and
	// email.
	Scopes []string
}

// NoUser is no first user.
const NoUser = "none"

// DomainProps give the dashboard a host name of its own; its default one is switched off
// then.
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

// Defaults fills in what is not set.
func Defaults(p Props) Props {
	p.Stage = first(p.Stage, "dev")
	prod := p.Stage == "prod"
	p.CIDR = first(p.CIDR, "10.42.0.0/22")
	p.CORSOrigin = first(p.CORSOrigin, authorizer.AnyOrigin)
	p.LogDays = first(p.LogDays, pick(prod, 180, 14))
	p.Login.User = first(p.Login.User, "admin")
	p.NATGateways = first(p.NATGateways, pick(p.Keep, 2, 1))
	s := &p.Store
	s.Kind = first(s.Kind, Serverless)
	s.MaxStorageGB, s.MaxECPUs = first(s.MaxStorageGB, 5), first(s.MaxECPUs, 100_000)
	s.Version = first(s.Version, s.defaultVersion())
	s.NodeType = first(s.NodeType, pick(prod, "cache.r7g.large", "cache.t4g.small"))
	s.Shards, s.Replicas = first(s.Shards, pick(prod, 2, 1)), first(s.Replicas, 1)
	if p.Keep {
		s.SnapshotDays = first(s.SnapshotDays, 7)
	}
	// A new account may have 10 environments in all, of which none can be reserved. So
	// only prod reserves any.
	for f, concurrency := range map[*FunctionProps]int{&p.Check: pick(prod, 100, Unreserved),
		&p.Admin: pick(prod, 5, Unreserved)} {
		f.Memory, f.Concurrency, f.LogLevel = first(f.Memory, 512), first(f.Concurrency, concurrency),
			first(f.LogLevel, "info")
	}
	return p
}

func first[T comparable](value, fallback T) T {
	var zero T
	if value == zero {
		return fallback
	}
	return value
}

func pick[T any](condition bool, yes, no T) T {
	if condition {
		return yes
	}
	return no
}

// egress reports which functions need the internet.
func (p *Props) egress() (check, admin bool) {
	return p.Identity.JWT.JWKSURL != "", p.Login.OIDC.Issuer != ""
}

// name is the stack's, and begins the names of what is in it.
func (p *Props) name() string { return "tidegate-" + p.Stage }

var (
	stageName   = regexp.MustCompile(`^[a-z][a-z0-9-]{0,10}[a-z0-9]$`)
	zoneName    = regexp.MustCompile(`^[a-z]{2}(-[a-z]+)+-\d[a-z]$`)
	hostName    = regexp.MustCompile(`^([a-z0-9]([a-z0-9-]*[a-z0-9])?\.)+[a-z]{2,}$`)
	zoneID      = regexp.MustCompile(`^Z[A-Z0-9]+$`)
	nodeType    = regexp.MustCompile(`^cache\.[a-z0-9]+\.[a-z0-9]+$`)
	certificate = regexp.MustCompile(`^arn:aws[a-z-]*:acm:[a-z0-9-]+:\d{12}:certificate/[a-z0-9-]+$`)
	email       = regexp.MustCompile(`^[^@\s]+@[^@\s]+\.[^@\s]+$`)
	secretName  = regexp.MustCompile(`^[A-Za-z0-9/_+=.@-]{1,256}$`)
	corsOrigin  = regexp.MustCompile(`^(\*|none|https?://[a-z0-9.-]+(:\d{1,5})?)$`)
	releaseName = regexp.MustCompile(`^[A-Za-z0-9._+/-]{0,64}$`)
	userName    = regexp.MustCompile(`^[A-Za-z0-9._@-]{1,64}$`)
)

var logDays = []int{1, 3, 5, 7, 14, 30, 60, 90, 120, 150, 180, 365, 400, 545, 731}

// check says everything that is wrong, naming the flag of each.
func (p *Props) check() error {
	var errs []error
	want := func(ok bool, flag string, value any, format string, arguments ...any) {
		problem := fmt.Sprintf(format, arguments...)
		switch {
		case ok:
		case flag == "":
			errs = append(errs, errors.New(problem)) // names its flags
		default:
			errs = append(errs, fmt.Errorf("-c %s=%v: %s", flag, value, problem))
		}
	}
	want(stageName.MatchString(p.Stage), "stage", p.Stage,
		"must be 2 to 12 lower-case letters, digits and hyphens, a letter first, no hyphen last")
	want(networkRange(p.CIDR), "cidr", p.CIDR,
		"must be a private IPv4 range of /16 to /24, such as 10.42.0.0/22")
	want(len(p.Zones) == 0 || len(p.Zones) >= 2 && len(p.Zones) <= 3, "zones", strings.Join(p.Zones, ","),
		"must be 2 or 3 zones")
	for _, zone := range p.Zones {
		want(zoneName.MatchString(zone), "zones", zone, "must be names such as eu-west-1a")
	}
	p.Store.check(want)
	p.Check.check("check", want)
	p.Admin.check("admin", want)
	level := p.Check.LogLevel
	want(slices.Contains([]string{"debug", "info", "warn", "error"}, level), "logLevel", level,
		"must be debug, info, warn or error")
	want(corsOrigin.MatchString(p.CORSOrigin), "corsOrigin", p.CORSOrigin,
		"must be an origin such as https://app.example.com, * or none")
	want(slices.Contains([]string{"", "refuse", "queue"}, p.JournalAway), "journalAway", p.JournalAway,
		"must be refuse or queue")
	want(slices.Contains([]string{"", "ask", "always"}, p.JournalRestore), "journalRestore", p.JournalRestore,
		"must be ask or always")
	want(p.Journal || p.JournalAway+p.JournalRestore == "", "journal", p.Journal,
		"is needed by journalAway and journalRestore: set journal=true too")
	want(p.Example || !p.WAF, "waf", p.WAF, "guards the example's REST API: set example=true too")
	for _, caller := range p.Callers {
		if err := authorizer.CheckARN(caller); err != nil {
			want(false, "callers", caller, "%v", err)
		}
	}
	p.Identity.check(want)
	p.Decision.check(want)
	p.Login.check(want)
	p.Observe.check(want)
	want(releaseName.MatchString(p.Release), "release", p.Release,
		"must be at most 64 letters, digits and ._+/-")
	want(p.NATGateways >= 1 && p.NATGateways <= 3, "natGateways", p.NATGateways, "must be 1 to 3")
	p.Domain.check(want)
	want(p.AlarmEmail == "" || email.MatchString(p.AlarmEmail), "alarmEmail", p.AlarmEmail,
		"must be an address")
	want(slices.Contains(logDays, p.LogDays), "logDays", p.LogDays, "must be one of %v", logDays)
	for name := range p.Tags {
		want(name != "" && !strings.HasPrefix(strings.ToLower(name), "aws:"), "tags", name,
			"must be names that do not begin with aws:")
	}
	return errors.Join(errs...)
}

// wants records that a condition of a flag does not hold.
type wants func(ok bool, flag string, value any, format string, arguments ...any)

func (s *StoreProps) check(want wants) {
	want(s.Kind == Serverless || s.Kind == Nodes, "store", s.Kind, "must be %s or %s", Serverless, Nodes)
	want(s.MaxStorageGB >= 1 && s.MaxStorageGB <= 5000, "maxStorageGB", s.MaxStorageGB, "must be 1 to 5000")
	want(s.MaxECPUs >= 1000 && s.MaxECPUs <= 15_000_000, "maxECPUs", s.MaxECPUs,
		"must be 1000 to 15000000 a second")
	want(nodeType.MatchString(s.NodeType), "nodeType", s.NodeType, "must be a type such as cache.r7g.large")
	want(s.Shards >= 1 && s.Shards <= 500, "shards", s.Shards, "must be 1 to 500")
	want(s.Replicas >= 1 && s.Replicas <= 5, "replicas", s.Replicas,
		"must be 1 to 5: without one a failed node loses its counts")
	s.checkEngine(want)
	want(s.SnapshotDays >= 0 && s.SnapshotDays <= 35, "snapshotDays", s.SnapshotDays, "must be 0 to 35")
}

func (f *FunctionProps) check(name string, want wants) {
	want(f.Memory >= 128 && f.Memory <= 10_240, name+"Memory", f.Memory, "must be 128 to 10240 MB")
	want(f.Concurrency == Unreserved || f.Concurrency >= 1, name+"Concurrency", f.Concurrency,
		"must be at least 1, or none")
}

// maxJWKS leaves room for the other variables of a function, which have 4 KB together.
const maxJWKS = 2500

// flagOf is the flag by the variable that the check function reads.
var flagOf = strings.NewReplacer(
	"IDENTITY_SOURCES", "-c identity", "IPV4_PREFIX", "-c ipv4Prefix", "IPV6_PREFIX", "-c ipv6Prefix",
	"JWT_ISSUER", "-c jwtIssuer",
	"JWT_AUDIENCE", "-c jwtAudience", "JWT_JWKS_URL", "-c jwtJwksUrl", "JWT_JWKS", "-c jwtJwks",
	"JWT_IDENTITY_CLAIM", "-c jwtIdentityClaim",
	"JWT_PLAN_CLAIM", "-c jwtPlanClaim", "JWT_LEEWAY", "-c jwtLeeway",
)

// check has the check function's own code look at what that function will read.
func (i *IdentityProps) check(want wants) {
	variables, wrong := config.Read[identity.Variables](assignments(i.environment()))
	_, err := variables.Config()
	wrong.AddError(err)
	if err := wrong.Err(); err != nil {
		want(false, "", "", "%s", flagOf.Replace(err.Error()))
	}
	want(i.JWT.JWKSURL == "" || strings.HasPrefix(i.JWT.JWKSURL, "https:"), "jwtJwksUrl", i.JWT.JWKSURL,
		"must be an https URL")
	want(len(i.JWT.JWKS) <= maxJWKS, "jwtJwks", "…",
		"must be at most %d bytes, since a function's environment has 4 KB: give jwtJwksUrl", maxJWKS)
}

func (d *DecisionProps) check(want wants) {
	wantDuration(want, "storeTimeout", d.StoreTimeout, config.ValkeyTimeout)
	wantDuration(want, "callerCache", d.CallerCache, config.CallerCache)
	wantDuration(want, "denyCache", d.DenyCache, config.DenyCache)
	wantDuration(want, "reservationLease", d.ReservationLease, config.ReservationLease)
	want(d.longestCheck() < checkTimeout*time.Second, "storeTimeout", duration(d.StoreTimeout),
		"must be shorter: a check may take 3/2 of it "+
			"and %s to connect, and the function ends after %d s", connectTimeout, checkTimeout)
}

// longestCheck is how long a check takes at most: to connect, to ask, and to ask again.
func (d *DecisionProps) longestCheck() time.Duration { return connectTimeout + d.storeTimeout()*3/2 }

func (d *DecisionProps) storeTimeout() time.Duration {
	if d.StoreTimeout == nil {
		return defaultStoreTimeout
	}
	return *d.StoreTimeout
}

func wantDuration(want wants, flag string, value *time.Duration, bound config.Duration) {
	if value != nil {
		err := bound.Check(*value)
		want(err == nil, flag, *value, "%v", err)
	}
}

func (l *LoginProps) check(want wants) {
	want(userName.MatchString(l.User), "adminUser", l.User, "must be 1 to 64 letters, digits and ._@-")
	somebody := l.User != NoUser || l.Users != "" || l.OIDC.Issuer != ""
	want(somebody, "adminUser", l.User, "leaves nobody to log in: set adminUsersSecretName or oidcIssuer")
	want(l.Users == "" || secretName.MatchString(l.Users), "adminUsersSecretName", "…", aSecretsName)
	_, err := config.Networks(strings.Join(l.Networks, ","))
	want(err == nil, "adminNetworks", strings.Join(l.Networks, ","), "%v", err)
	wantDuration(want, "sessionIdle", l.SessionIdle, config.SessionIdle)
	wantDuration(want, "sessionLifetime", l.SessionLifetime, config.SessionLifetime)
	if l.SessionIdle != nil && l.SessionLifetime != nil {
		want(*l.SessionLifetime >= *l.SessionIdle, "sessionLifetime", *l.SessionLifetime,
			"must be no shorter than sessionIdle")
	}
	l.OIDC.check(want)
}

const aSecretsName = "must be the name of a secret in Secrets Manager that you have made, not the secret"

func (o *OIDCProps) check(want wants) {
	want(o.Issuer == "" || httpsURL(o.Issuer), "oidcIssuer", o.Issuer, "must be an https URL")
	want((o.Issuer == "") == (o.ClientID == ""), "oidcClientId", o.ClientID, "goes with oidcIssuer: set both")
	want((o.Issuer == "") == (o.ClientSecret == ""), "oidcSecretName", "…", "goes with oidcIssuer: set both")
	want(o.ClientSecret == "" || secretName.MatchString(o.ClientSecret), "oidcSecretName", "…", aSecretsName)
	roles := len(o.Editors) + len(o.Viewers)
	want(o.Issuer == "" || roles > 0, "oidcEditors", "",
		"and oidcViewers are not set: say which values of the role claim may edit or look")
	want(o.Issuer != "" || o.RoleClaim == "" && roles+len(o.Scopes) == 0, "oidcIssuer", "",
		"is not set: the other oidc flags go with it")
	want(len(o.Scopes) == 0 || slices.Contains(o.Scopes, "openid"), "oidcScopes", strings.Join(o.Scopes, ","),
		"must have openid among them")
}

func (d *DomainProps) check(want wants) {
	want(d.Name == "" || hostName.MatchString(d.Name), "domain", d.Name, "must be a host name")
	want((d.Name == "") == (d.Certificate == ""), "certificate", d.Certificate, "goes with domain: set both")
	want(d.Certificate == "" || certificate.MatchString(d.Certificate), "certificate", d.Certificate,
		"must be the ARN of an ACM certificate")
	want((d.Zone == "") == (d.ZoneID == ""), "zoneId", d.ZoneID, "goes with zone: set both")
	want(d.ZoneID == "" || zoneID.MatchString(d.ZoneID), "zoneId", d.ZoneID,
		"must be the id of a Route 53 zone, such as Z0123456789ABC")
	inZone := d.Name == d.Zone || strings.HasSuffix(d.Name, "."+d.Zone)
	want(d.Zone == "" || hostName.MatchString(d.Zone) && inZone, "zone", d.Zone,
		"must be the zone that domain is in")
}

func networkRange(cidr string) bool {
	prefix, err := netip.ParsePrefix(cidr)
	return err == nil && prefix.Addr().Is4() && prefix.Addr().IsPrivate() && prefix.Bits() >= 16 &&
		prefix.Bits() <= 24 && prefix == prefix.Masked()
}

// httpsURL reports whether text is an https URL of a host, and nothing more than that and
// a path.
func httpsURL(text string) bool {
	u, err := url.Parse(text)
	return err == nil && u.Scheme == "https" && u.Host != "" && u.User == nil && u.RawQuery == "" &&
		u.Fragment == ""
}

func sorted[V any](m map[string]V) []string { return slices.Sorted(maps.Keys(m)) }
