package settings

import (
	"errors"
	"fmt"
	"net/netip"
	"net/url"
	"regexp"
	"slices"
	"strings"
)

var (
	stageName   = regexp.MustCompile(`^[a-z]([a-z0-9]|-[a-z0-9]){1,11}$`)
	zoneName    = regexp.MustCompile(`^[a-z]{2}(-[a-z]+)+-\d[a-z]$`)
	hostName    = regexp.MustCompile(`^([a-z0-9]([a-z0-9-]*[a-z0-9])?\.)+[a-z]{2,}$`)
	nodeType    = regexp.MustCompile(`^cache\.[a-z0-9]+\.[a-z0-9]+$`)
	certificate = regexp.MustCompile(`^arn:aws[a-z-]*:acm:[a-z0-9-]+:\d{12}:certificate/[a-z0-9-]+$`)
	email       = regexp.MustCompile(`^[^@\s]+@[^@\s]+\.[^@\s]+$`)
	secretName  = regexp.MustCompile(`^[A-Za-z0-9/_+=.@:-]{1,256}$`)
	iamCaller   = regexp.MustCompile(`^arn:aws[a-z-]*:iam::\d{12}:(role|user)/[A-Za-z0-9_+=,.@/-]+$`)
	bucketURL   = regexp.MustCompile(`^https://([^/]+\.)?s3[.-][a-z0-9.-]*amazonaws\.com`)
	userName    = regexp.MustCompile(`^[A-Za-z0-9._@-]{1,64}$`)
	vpcID       = regexp.MustCompile(`^vpc-[0-9a-f]+$`)
	subnetIDs   = regexp.MustCompile(`^subnet-[0-9a-f]+(,subnet-[0-9a-f]+)*$`)
	groupID     = regexp.MustCompile(`^sg-[0-9a-f]+$`)
	keyARN      = regexp.MustCompile(`^arn:aws[a-z-]*:kms:[a-z0-9-]+:\d{12}:key/[a-zA-Z0-9-]+$`)
	topicARN    = regexp.MustCompile(`^arn:aws[a-z-]*:sns:[a-z0-9-]+:\d{12}:[A-Za-z0-9_-]+$`)
	bucketName  = regexp.MustCompile(`^[a-z0-9][a-z0-9.-]{1,61}[a-z0-9]$`)
	snapshotARN = regexp.MustCompile(`^arn:aws[a-z-]*:elasticache:[a-z0-9-]+:\d{12}:serverlesscachesnapshot:[a-z0-9-]+$`)
	snapshot    = regexp.MustCompile(`^[a-z][a-z0-9-]*$`)
)

// versions are the versions of Valkey that ElastiCache offers, the oldest first.
var versions = []string{"7.2", "8.0", "8.1", "8.2", "9.0", "9.1"}

var logDays = []int{1, 3, 5, 7, 14, 30, 60, 90, 120, 150, 180, 365, 400, 545, 731}

// subnetBits is how many bits longer a subnet's prefix is than the network's: a sixteenth of
// it for each of at most 2 groups in 3 zones.
const subnetBits = 4

const wantStage = "must be 2 to 12 lower-case letters, digits and single hyphens, a letter first, no " +
	"hyphen last"

// wants records an error for a setting unless ok is true.
type wants func(ok bool, name string, value any, format string, arguments ...any)

// Validate returns all errors of the props, each with the setting's name.
func (p *Props) Validate() error {
	var errs []error
	want := func(ok bool, name string, value any, format string, arguments ...any) {
		if !ok {
			errs = append(errs, fmt.Errorf("%s=%v: %s", name, value, fmt.Sprintf(format, arguments...)))
		}
	}
	want(isStage(p.Stage), "stage", p.Stage, wantStage)
	p.checkForms(want)
	p.checkNetwork(want)
	p.checkStore(want)
	p.checkExisting(want)
	p.checkNumbers(want)
	p.checkCallers(want)
	p.checkLogin(want)
	want(slices.Contains([]string{"", EventBridge, SNS}, p.Crossings), "crossings", p.Crossings,
		"must be eventbridge or sns")
	want(slices.Contains(logDays, p.LogDays), "logDays", p.LogDays, "must be one of %v", logDays)
	for name := range p.Tags {
		want(name != "" && !strings.HasPrefix(strings.ToLower(name), "aws:"), "tags", name,
			"must be names that do not begin with aws:")
	}
	p.checkVariables(want)
	return errors.Join(append(errs, p.checkIdentity())...)
}

func isStage(name string) bool { return stageName.MatchString(name) && len(name) <= 12 }

// token reports whether a text is the CDK's token of a value that only deployment knows.
func token(text string) bool { return strings.Contains(text, "${Token[") }

// checkForms wants texts of their forms. What is empty or a token is left to the rules on
// what is required.
func (p *Props) checkForms(want wants) {
	for _, f := range []struct {
		name, value string
		form        *regexp.Regexp
		advice      string
	}{
		{"vpc", p.VPC, vpcID, "the id of a network, such as vpc-0a1b2c3d"},
		{"subnets", strings.Join(p.Subnets, ","), subnetIDs, "ids such as subnet-0a1b2c3d"},
		{"securityGroup", p.SecurityGroup, groupID, "an id such as sg-0a1b2c3d"},
		{"nodeType", p.NodeType, nodeType, "a type such as cache.r7g.large"},
		{"key", p.Key, keyARN, "the ARN of a KMS key"},
		{"alarmTopic", p.AlarmTopic, topicARN, "the ARN of a topic"},
		{"alarmEmail", p.AlarmEmail, email, "an email address"},
		{"changesBucket", p.ChangesBucket, bucketName, "the name of a bucket"},
		{"domain", p.Domain, hostName, "a host name"},
		{"certificate", p.Certificate, certificate, "the ARN of an ACM certificate"},
	} {
		want(f.value == "" || token(f.value) || f.form.MatchString(f.value), f.name, f.value, "must be %s",
			f.advice)
	}
	for name, secret := range map[string]string{"pepperSecret": p.PepperSecret,
		"valkeyUrlSecret": p.URLSecret, "adminUsersSecret": p.AdminUsersSecret, "oidcSecret": p.OIDCSecret} {
		want(secret == "" || token(secret) || secretName.MatchString(secret), name, "…",
			"must be the name or ARN of an existing secret in Secrets Manager, not its value")
	}
}

func (p *Props) checkNetwork(want wants) {
	want(networkRange(p.CIDR), "cidr", p.CIDR,
		"must be a private IPv4 range of /16 to /24, such as 10.42.0.0/20")
	want(len(p.Zones) == 0 || len(p.Zones) >= 2 && len(p.Zones) <= 3, "zones", strings.Join(p.Zones, ","),
		"must be 2 or 3 zones")
	for i, zone := range p.Zones {
		want(zoneName.MatchString(zone), "zones", zone, "must be names such as eu-west-1a")
		want(!slices.Contains(p.Zones[:i], zone), "zones", zone, "must be given once")
	}
	want((p.VPC == "") == (len(p.Subnets) == 0), "subnets", strings.Join(p.Subnets, ","),
		"set both subnets and vpc")
	want(p.VPC == "" || p.Kind == URL || len(p.Subnets) > 1 || token(strings.Join(p.Subnets, "")),
		"subnets", strings.Join(p.Subnets, ","), "must be at least 2, in different zones, for the cache")
	want(p.SecurityGroup == "" || p.VPC != "", "securityGroup", p.SecurityGroup,
		"needs the vpc that it belongs to")
	want(p.Internet == NAT || p.Internet == IPv6, "internet", p.Internet, "must be nat or ipv6")
	check, _ := p.Egress()
	want(!check || !bucketURL.MatchString(p.Check["JWT_JWKS_URL"]) || !p.OwnNetwork(), "check.JWT_JWKS_URL",
		p.Check["JWT_JWKS_URL"], "must not be in S3: the network's way to S3 leads to the log of changes "+
			"only. Use JWT_JWKS, or an address before the bucket")
}

func (p *Props) checkStore(want wants) {
	want(slices.Contains([]string{Serverless, Nodes, URL}, p.Kind), "store", p.Kind,
		"must be serverless, nodes or url")
	want((p.Kind == URL) == (p.URLSecret != ""), "valkeyUrlSecret", p.URLSecret,
		"set both store=url and valkeyUrlSecret")
	want(slices.Contains(versions, p.Version), "valkeyVersion", p.Version, "must be one of %s",
		strings.Join(versions, ", "))
	want(!networkRange(p.CIDR) || !p.OwnNetwork() || p.Kind != Nodes || p.nodes() <= p.room(), "shards",
		p.Shards, "means %d nodes, and cidr=%s has room for %d: choose a larger range, such as 10.42.0.0/16",
		p.nodes(), p.CIDR, p.room())
	form, advice := snapshotARN, "must be the ARN of a serverless cache's snapshot"
	switch p.Kind {
	case Nodes:
		form, advice = snapshot, "must be the name of a snapshot of nodes"
	case URL:
		want(p.Snapshot == "", "snapshot", p.Snapshot, "is for a new cache, and store=url makes none")
		return
	}
	want(p.Snapshot == "" || token(p.Snapshot) || form.MatchString(p.Snapshot), "snapshot", p.Snapshot,
		advice)
}

func (p *Props) checkExisting(want wants) {
	want(p.ChangesBucket == "" || p.Key != "", "changesBucket", p.ChangesBucket,
		"needs the key that encrypts the bucket: set key")
	want(p.ChangesBucket == "" || p.ChangesLockDays == 0, "changesLockDays", p.ChangesLockDays,
		"is for a new bucket: change the lock of changesBucket itself")
}

func (p *Props) checkNumbers(want wants) {
	for _, n := range []struct {
		name             string
		value, low, high int
	}{
		{"maxStorageGB", p.MaxStorageGB, 1, 5000}, {"maxECPUs", p.MaxECPUs, 1000, 15_000_000},
		{"shards", p.Shards, 1, 500}, {"replicas", p.Replicas, 1, 5}, {"snapshotDays", p.SnapshotDays, 0, 35},
		{"checkMemory", p.CheckMemory, 128, 10240}, {"adminMemory", p.AdminMemory, 128, 10240},
		{"checkConcurrency", p.CheckConcurrency, 0, 100_000},
		{"adminConcurrency", p.AdminConcurrency, 0, 100_000},
		{"changesLockDays", p.ChangesLockDays, 0, 3650},
	} {
		want(n.value >= n.low && n.value <= n.high, n.name, n.value, "must be a whole number from %d to %d",
			n.low, n.high)
	}
}

// nodes returns the number of the cache's nodes.
func (p *Props) nodes() int { return p.Shards * (p.Replicas + 1) }

// reservedAddresses are the addresses of a subnet that no node can have: AWS's five, and
// those of the functions' interfaces.
const reservedAddresses = 8

// room returns how many nodes an own network's subnets have addresses for.
func (p *Props) room() int { return p.ZoneCount() * (1<<p.HostBits() - reservedAddresses) }

func (p *Props) checkCallers(want wants) {
	for _, caller := range p.DirectCallers {
		want(token(caller) || iamCaller.MatchString(caller), "directCallers", caller,
			"must be the ARN of a role or a user, such as arn:aws:iam::111122223333:role/backend")
	}
	want(len(p.DirectCallers) == 0 || p.Check["DIRECT_CALLS"] == "on", "check.DIRECT_CALLS",
		p.Check["DIRECT_CALLS"], "must be on with directCallers")
}

func (p *Props) checkLogin(want wants) {
	issuer := p.Admin["OIDC_ISSUER"]
	want(userName.MatchString(p.AdminUser), "adminUser", p.AdminUser,
		"must be 1 to 64 letters, digits and ._@-")
	want(p.AdminUser != NoUser || p.AdminUsersSecret != "" || issuer != "", "adminUser", p.AdminUser,
		"leaves nobody to log in: set adminUsersSecret or admin.OIDC_ISSUER")
	want((issuer == "") == (p.OIDCSecret == ""), "oidcSecret", "…",
		"set both oidcSecret and admin.OIDC_ISSUER")
	want(issuer == "" || httpsURL(issuer), "admin.OIDC_ISSUER", issuer, "must be an https URL")
	want((issuer == "") == (p.Admin["OIDC_CLIENT_ID"] == ""), "admin.OIDC_CLIENT_ID",
		p.Admin["OIDC_CLIENT_ID"], "set both OIDC_CLIENT_ID and OIDC_ISSUER")
	roles := p.Admin["OIDC_EDITOR_VALUES"] + p.Admin["OIDC_VIEWER_VALUES"]
	want((issuer == "") == (roles == ""), "admin.OIDC_EDITOR_VALUES", p.Admin["OIDC_EDITOR_VALUES"],
		"set OIDC_EDITOR_VALUES or OIDC_VIEWER_VALUES with OIDC_ISSUER: the values of the role claim")
	scopes := p.Admin["OIDC_SCOPES"]
	want(scopes == "" || slices.Contains(strings.Fields(scopes), "openid"), "admin.OIDC_SCOPES", scopes,
		"must include openid")
	want((p.Domain == "") == (p.Certificate == ""), "certificate", p.Certificate,
		"set both certificate and domain")
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
