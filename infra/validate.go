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

	"tidegate/functions/check/identity"
	"tidegate/infra/authorizer"
	"tidegate/internal/config"
)

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

// check returns all errors, each with the name of its flag.
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
	want(slices.Contains([]string{"", toEventBridge, toSNS}, p.Crossings), "crossings", p.Crossings,
		"must be %s or %s", toEventBridge, toSNS)
	p.Store.check(want)
	p.Check.check("check", want)
	p.Admin.check("admin", want)
	level := p.Check.LogLevel
	want(slices.Contains([]string{"debug", "info", "warn", "error"}, level), "logLevel", level,
		"must be debug, info, warn or error")
	want(corsOrigin.MatchString(p.CORSOrigin), "corsOrigin", p.CORSOrigin,
		"must be an origin such as https://app.example.com, * or none")
	p.checkJournal(want)
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

// checkJournal checks the flags of the journal.
func (p *Props) checkJournal(want wants) {
	want(slices.Contains([]string{"", "refuse", "queue"}, p.JournalAway), "journalAway", p.JournalAway,
		"must be refuse or queue")
	want(slices.Contains([]string{"", "ask", "always"}, p.JournalRestore), "journalRestore", p.JournalRestore,
		"must be ask or always")
	want(p.JournalLockDays <= maxLockDays, "journalLockDays", p.JournalLockDays,
		"must be 1 to %d", maxLockDays)
	if p.AuditRetention != nil {
		err := config.AuditRetention.Check(*p.AuditRetention)
		want(err == nil, "auditRetention", *p.AuditRetention, "%v", err)
	}
	want(p.Journal || p.JournalAway+p.JournalRestore == "" && p.JournalLockDays == 0 &&
		p.AuditRetention == nil,
		"journal", p.Journal,
		"is needed by journalAway, journalRestore, journalLockDays and auditRetention: set journal=true too")
}

// wants records an error for a flag unless its condition holds.
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

// check validates the variables with the check function's own code.
func (i *IdentityProps) check(want wants) {
	variables, problems := config.Read[identity.Variables](assignments(i.environment()))
	_, err := variables.Config()
	problems.AddError(err)
	if err := problems.Err(); err != nil {
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
	_, err = config.Networks(strings.Join(l.OwnerNetworks, ","))
	want(err == nil, "ownerNetworks", strings.Join(l.OwnerNetworks, ","), "%v", err)
	want(slices.Contains([]string{"", "off", "api", "page"}, l.OwnerView), "ownerView", l.OwnerView,
		"must be off, api or page")
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

// httpsURL reports whether text is an https URL of nothing but a host and a path.
func httpsURL(text string) bool {
	u, err := url.Parse(text)
	return err == nil && u.Scheme == "https" && u.Host != "" && u.User == nil && u.RawQuery == "" &&
		u.Fragment == ""
}

func sorted[V any](m map[string]V) []string { return slices.Sorted(maps.Keys(m)) }
