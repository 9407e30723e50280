package settings

import (
	"errors"
	"fmt"
	"net/netip"
	"net/url"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"time"

	"tidegate/functions/check/identity"
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
	iamCaller   = regexp.MustCompile(`^arn:aws[a-z-]*:iam::\d{12}:(role|user)/[A-Za-z0-9_+=,.@/-]+$`)
	corsOrigin  = regexp.MustCompile(`^(\*|none|https?://[a-z0-9.-]+(:\d{1,5})?)$`)
	releaseName = regexp.MustCompile(`^[A-Za-z0-9._+/-]{0,64}$`)
	bucketURL   = regexp.MustCompile(`^https://([^/]+\.)?s3[.-][a-z0-9.-]*amazonaws\.com`)
	userName    = regexp.MustCompile(`^[A-Za-z0-9._@-]{1,64}$`)
)

var logDays = []int{1, 3, 5, 7, 14, 30, 60, 90, 120, 150, 180, 365, 400, 545, 731}

// wants records an error for a flag unless ok is true.
type wants func(ok bool, flag string, value any, format string, arguments ...any)

// SubnetBits is how many bits longer a subnet's prefix is than the network's: a sixteenth of
// it for each of at most 3 groups in 3 zones.
const SubnetBits = 4

const wantStage = "must be 2 to 12 lower-case letters, digits and hyphens, a letter first, no hyphen last"

// check validates the props after defaults. It returns all errors, each with the flag's
// name.
func (p *Props) check() error {
	var errs []error
	want := func(ok bool, flag string, value any, format string, arguments ...any) {
		if !ok {
			errs = append(errs, fmt.Errorf("-c %s=%v: %s", flag, value, fmt.Sprintf(format, arguments...)))
		}
	}
	want(stageName.MatchString(p.Stage), "stage", p.Stage, wantStage)
	want(networkRange(p.CIDR), "cidr", p.CIDR,
		"must be a private IPv4 range of /16 to /24, such as 10.42.0.0/20")
	want(len(p.Zones) == 0 || len(p.Zones) >= 2 && len(p.Zones) <= 3, "zones", strings.Join(p.Zones, ","),
		"must be 2 or 3 zones")
	for i, zone := range p.Zones {
		want(zoneName.MatchString(zone), "zones", zone, "must be names such as eu-west-1a")
		want(!slices.Contains(p.Zones[:i], zone), "zones", zone, "must be given once")
	}
	want(corsOrigin.MatchString(p.CORSOrigin), "corsOrigin", p.CORSOrigin,
		"must be an origin such as https://app.example.com, * or none")
	want(releaseName.MatchString(p.Release), "release", p.Release,
		"must be at most 64 letters, digits and ._+/-")
	want(p.AlarmEmail == "" || email.MatchString(p.AlarmEmail), "alarmEmail", p.AlarmEmail,
		"must be an email address")
	want(slices.Contains(logDays, p.LogDays), "logDays", p.LogDays, "must be one of %v", logDays)
	for name := range p.Tags {
		want(name != "" && !strings.HasPrefix(strings.ToLower(name), "aws:"), "tags", name,
			"must be names that do not begin with aws:")
	}
	want(!networkRange(p.CIDR) || p.nodes() <= p.room(), "shards", p.Store.Shards,
		"means %d nodes, and cidr=%s has room for %d: choose a larger range, such as 10.42.0.0/16",
		p.nodes(), p.CIDR, p.room())
	want(!bucketURL.MatchString(p.Identity.JWT.JWKSURL), "jwtJwksUrl",
		p.Identity.JWT.JWKSURL, "must not be in S3: the network's way to S3 leads to the log of changes "+
			"only. Use jwtJwks, or an address before the bucket")
	p.Store.check(want)
	if err := p.Identity.check(want); err != nil {
		errs = append(errs, err)
	}
	p.Decision.check(want)
	p.checkDirect(want)
	p.Login.check(want)
	p.Domain.check(want)
	return errors.Join(errs...)
}

// nodes returns the number of the cache's nodes.
func (p *Props) nodes() int {
	if p.Store.Kind != Nodes {
		return 0
	}
	return p.Store.Shards * (p.Store.Replicas + 1)
}

// reservedAddresses are the addresses of a subnet that no node can have: AWS's five, and
// those of the functions' interfaces.
const reservedAddresses = 8

// room returns how many nodes the isolated subnets have addresses for.
func (p *Props) room() int {
	if !networkRange(p.CIDR) {
		return 0
	}
	return max(2, len(p.Zones)) * (1<<(32-p.PrefixBits()-SubnetBits) - reservedAddresses)
}

// maxJWKS is the maximum size of a JWKS in bytes. It leaves room for the function's other
// variables: all together may have 4 KB.
const maxJWKS = 2500

// check validates the variables with the check function's own code. The error names the
// flags itself.
func (i *Identity) check(want wants) error {
	want(len(i.JWT.JWKS) <= maxJWKS, "jwtJwks", "…",
		"must be at most %d bytes, since a function's environment has 4 KB: use jwtJwksUrl", maxJWKS)
	want(len(i.JWT.Issuers) <= maxJWKS, "jwtIssuers", "…", "must be at most %d bytes, since a function's "+
		"environment has 4 KB: use jwksUrl", maxJWKS)
	set, problems := config.Read[identity.Variables](assignments(variables(*i)))
	c, err := set.Config()
	problems.AddError(err)
	keysFlag := "jwtJwksUrl"
	if i.JWT.Issuers != "" {
		keysFlag = "jwtIssuers"
	}
	for _, issuer := range c.JWT.Issuers {
		want(issuer.KeysURL == nil || issuer.KeysURL.Scheme == "https", keysFlag, issuer.KeysURL,
			"must be an https URL")
	}
	if err := problems.Err(); err != nil {
		return errors.New(strings.NewReplacer(flagsOf(reflect.TypeFor[Identity]())...).Replace(err.Error()))
	}
	return nil
}

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

func (d *Decision) check(want wants) {
	wantDuration(want, "storeTimeout", d.StoreTimeout, config.ValkeyTimeout)
	wantDuration(want, "callerCache", d.CallerCache, config.CallerCache)
	wantDuration(want, "denyCache", d.DenyCache, config.DenyCache)
	wantDuration(want, "settleWithin", d.SettleWithin, config.SettleWithin)
	want(d.LongestCheck() < CheckTimeout*time.Second, "storeTimeout", d.Timeout(),
		"must be shorter: a check may take 3/2 of it "+
			"and %s to connect, and the function ends after %d s", ConnectTimeout, CheckTimeout)
}

// checkDirect checks who may make direct calls.
func (p *Props) checkDirect(want wants) {
	for _, caller := range p.DirectCallers {
		want(iamCaller.MatchString(caller), "directCallers", caller,
			"must be the ARN of a role or a user, such as arn:aws:iam::111122223333:role/backend")
	}
	want(len(p.DirectCallers) == 0 || p.Decision.DirectCalls == "on", "directCalls", p.Decision.DirectCalls,
		"must be on with directCallers")
}

func wantDuration(want wants, flag string, value *time.Duration, bound config.Duration) {
	if value != nil {
		err := bound.Check(*value)
		want(err == nil, flag, *value, "%v", err)
	}
}

func wantNetworks(want wants, flag string, networks []string) {
	text := strings.Join(networks, ",")
	_, err := config.Networks(text)
	want(err == nil, flag, text, "%v", err)
}

func (l *Login) check(want wants) {
	want(userName.MatchString(l.User), "adminUser", l.User, "must be 1 to 64 letters, digits and ._@-")
	hasUsers := l.User != NoUser || l.Users != "" || l.OIDC.Issuer != ""
	want(hasUsers, "adminUser", l.User, "leaves nobody to log in: set adminUsersSecretName or oidcIssuer")
	want(l.Users == "" || secretName.MatchString(l.Users), "adminUsersSecretName", "…", wantSecretName)
	wantNetworks(want, "adminNetworks", l.Networks)
	wantNetworks(want, "ownerNetworks", l.OwnerNetworks)
	wantDuration(want, "sessionIdle", l.SessionIdle, config.SessionIdle)
	wantDuration(want, "sessionLifetime", l.SessionLifetime, config.SessionLifetime)
	idle := valueOr(l.SessionIdle, config.DefaultSessionIdle)
	lifetime := valueOr(l.SessionLifetime, config.DefaultSessionLifetime)
	want(lifetime >= idle, "sessionLifetime", lifetime, "must not be shorter than sessionIdle=%s", idle)
	l.OIDC.check(want)
}

const wantSecretName = "must be the name of an existing secret in Secrets Manager, not its value"

func (o *OIDC) check(want wants) {
	want(o.Issuer == "" || httpsURL(o.Issuer), "oidcIssuer", o.Issuer, "must be an https URL")
	want((o.Issuer == "") == (o.ClientID == ""), "oidcClientId", o.ClientID,
		"set both oidcClientId and oidcIssuer")
	want((o.Issuer == "") == (o.ClientSecret == ""), "oidcSecretName", "…",
		"set both oidcSecretName and oidcIssuer")
	want(o.ClientSecret == "" || secretName.MatchString(o.ClientSecret), "oidcSecretName", "…",
		wantSecretName)
	roles := len(o.Editors) + len(o.Viewers)
	want(o.Issuer == "" || roles > 0, "oidcEditors", "",
		"set oidcEditors or oidcViewers: the values of the role claim for editors and viewers")
	want(o.Issuer != "" || o.RoleClaim == "" && roles+len(o.Scopes) == 0, "oidcIssuer", "",
		"must be set with the other oidc flags")
	want(len(o.Scopes) == 0 || slices.Contains(o.Scopes, "openid"), "oidcScopes", strings.Join(o.Scopes, ","),
		"must include openid")
}

func (d *Domain) check(want wants) {
	want(d.Name == "" || hostName.MatchString(d.Name), "domain", d.Name, "must be a host name")
	want((d.Name == "") == (d.Certificate == ""), "certificate", d.Certificate,
		"set both certificate and domain")
	want(d.Certificate == "" || certificate.MatchString(d.Certificate), "certificate", d.Certificate,
		"must be the ARN of an ACM certificate")
	want((d.Zone == "") == (d.ZoneID == ""), "zoneId", d.ZoneID, "set both zoneId and zone")
	want(d.ZoneID == "" || zoneID.MatchString(d.ZoneID), "zoneId", d.ZoneID,
		"must be the id of a Route 53 zone, such as Z0123456789ABC")
	inZone := d.Name == d.Zone || strings.HasSuffix(d.Name, "."+d.Zone)
	want(d.Zone == "" || hostName.MatchString(d.Zone) && inZone, "zone", d.Zone,
		"must be the zone that contains domain")
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
