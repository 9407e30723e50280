// Package settings has the settings of a deployment, their defaults and their bounds, and
// the stage's file that keeps them. The construct in infra/tidegate, preflight and
// ./scripts/stage read it. It does not use the CDK.
package settings

import (
	"net/netip"
	"strings"
	"time"
)

// Props are the settings of a deployment. Default has the values of a stage; its file has
// others by the names in the tags. Ids and ARNs of resources that exist may be tokens of
// the CDK. An empty one means that the construct makes the resource itself.
type Props struct {
	// Stage names the deployment: lower-case letters, digits and hyphens, at most 12.
	Stage string `json:"-"`
	// Keep protects the stack from deletion. If the stack is deleted all the same, Keep
	// retains its data: a last snapshot of the cache, the encryption key, the pepper and
	// the logs. Default true in stage prod, else false.
	Keep bool `json:"keep"`

	// CIDR is the private IPv4 range of an own network, /16 to /24. Default 10.42.0.0/20.
	CIDR string `json:"cidr"`
	// Zones are 2 or 3 availability zones of an own network. Default the region's first 2.
	Zones []string `json:"zones"`
	// VPC is the id of a network that exists. Subnets are ids of its subnets for the
	// functions and the cache. They must reach S3, by a gateway endpoint or a NAT gateway.
	VPC     string   `json:"vpc"`
	Subnets []string `json:"subnets"`
	// SecurityGroup is the id of a group of the functions, instead of two own ones.
	SecurityGroup string `json:"securityGroup"`
	// Internet is how functions in a network reach identity providers: NAT, or IPv6 for
	// providers that have IPv6 addresses. Subnets that exist must then be dual-stack, with
	// a way out. Default NAT.
	Internet string `json:"internet"`

	// Key is the ARN of a KMS key. Its policy must let CloudWatch Logs and CloudWatch
	// alarms use it.
	Key string `json:"key"`
	// PepperSecret is the name or ARN of a secret with the pepper, at least 32 characters.
	PepperSecret string `json:"pepperSecret"`
	// ChangesBucket is the name of a bucket with a log of changes, as an earlier stack
	// left it. Key must be the key that encrypts it.
	ChangesBucket string `json:"changesBucket"`
	// ChangesLockDays is for how many days nobody, not even the account's root user, can
	// delete an object of an own log of changes. Default none.
	ChangesLockDays int `json:"changesLockDays"`
	// AlarmTopic is the ARN of a topic for the alarms.
	AlarmTopic string `json:"alarmTopic"`
	// AlarmEmail is the address that gets the alarms, once its owner has confirmed.
	AlarmEmail string `json:"alarmEmail"`

	Store

	// CheckMemory and AdminMemory are sizes of the functions in MB, which also decide the
	// share of a processor. Default 512.
	CheckMemory int `json:"checkMemory"`
	AdminMemory int `json:"adminMemory"`
	// CheckConcurrency and AdminConcurrency are the reserved concurrency: the maximum
	// number of Lambda environments at a time. Other functions of the account cannot use
	// them. 0 reserves none. Defaults 0, in stage prod 100 and 33.
	CheckConcurrency int `json:"checkConcurrency"`
	AdminConcurrency int `json:"adminConcurrency"`
	// Check and Admin are environment variables of the functions, by name. The admin
	// function gets FOREIGN_KEYS and TRUSTED_PROXIES from Check.
	Check map[string]string `json:"check"`
	Admin map[string]string `json:"admin"`

	// AdminUser is the first user's name. Default admin. The password is generated. NoUser
	// means no first user, and requires AdminUsersSecret or OpenID Connect.
	AdminUser string `json:"adminUser"`
	// AdminUsersSecret and OIDCSecret are names of secrets in Secrets Manager, which hold
	// ADMIN_USERS and OIDC_CLIENT_SECRET.
	AdminUsersSecret string `json:"adminUsersSecret"`
	OIDCSecret       string `json:"oidcSecret"`
	// Domain is the dashboard's own host name, instead of API Gateway's. Certificate is
	// the ARN of its ACM certificate, in the stack's region.
	Domain      string `json:"domain"`
	Certificate string `json:"certificate"`

	// Callers are ARNs of authorizers of other stacks or accounts that may invoke the
	// check function.
	Callers []string `json:"callers"`
	// DirectCallers are ARNs of IAM roles and users, also of other accounts, that may
	// invoke the check function for direct calls.
	DirectCallers []string `json:"directCallers"`
	// Crossings is the target of events of crossed limits: EventBridge, the account's
	// default event bus, or SNS, a topic of the stack. Default none.
	Crossings string `json:"crossings"`
	// Metrics makes the check function write its own metrics, which some alarms need.
	// Default true in stage prod, else false.
	Metrics bool `json:"metrics"`
	// Tracing records a part of the calls in X-Ray.
	Tracing bool `json:"tracing"`
	// LogDays is how many days logs are kept: a retention that CloudWatch supports.
	// Default 180 in stage prod, else 14.
	LogDays int `json:"logDays"`
	// Example adds a REST API and an HTTP API with a sample backend, both behind the
	// authorizer. Default false in stage prod, else true.
	Example bool `json:"example"`
	// Tags are added to every resource.
	Tags map[string]string `json:"tags"`
}

// Store is the Valkey that stores counts and configuration.
type Store struct {
	// Kind is Serverless, Nodes or URL. Default Serverless.
	Kind string `json:"store"`
	// URLSecret is the name or ARN of a secret with the VALKEY_URL of a Valkey that exists,
	// for URL. Without a VPC the functions are then in no network.
	URLSecret string `json:"valkeyUrlSecret"`
	// MaxStorageGB and MaxECPUs, ECPUs a second, bound the size and the cost of a
	// serverless cache. Defaults 5 and 100000.
	MaxStorageGB int `json:"maxStorageGB"`
	MaxECPUs     int `json:"maxECPUs"`
	// NodeType is for nodes. Default cache.r7g.large in stage prod, else cache.t4g.small.
	NodeType string `json:"nodeType"`
	// Shards is for nodes. Default 2 in stage prod, else 1.
	Shards int `json:"shards"`
	// Replicas of each shard, for nodes. Default 1: without a replica a failed node would
	// lose its counts.
	Replicas int `json:"replicas"`
	// Version of Valkey, 7.2 to 9.1. Default 8.1. ElastiCache cannot downgrade a cache.
	Version string `json:"valkeyVersion"`
	// SnapshotDays is how many days daily snapshots are kept. Default 7 if Keep, else 0:
	// no snapshots.
	SnapshotDays int `json:"snapshotDays"`
	// Snapshot fills a new cache: the ARN of a serverless cache's snapshot, or the name of
	// one of nodes.
	Snapshot string `json:"snapshot"`
}

// The kinds of stores.
const (
	Serverless = "serverless"
	Nodes      = "nodes"
	URL        = "url"
)

// The targets of crossed limits.
const (
	EventBridge = "eventbridge"
	SNS         = "sns"
)

// The ways to the internet. An own network gets NAT gateways, or an egress-only internet
// gateway, which costs nothing.
const (
	NAT  = "nat"
	IPv6 = "ipv6"
)

// NoUser means no first user.
const NoUser = "none"

// Default returns the props of a stage without a file.
func Default(stage string) Props {
	p := Props{
		Stage: stage, CIDR: "10.42.0.0/20", AdminUser: "admin", CheckMemory: 512, AdminMemory: 512,
		Example: true, LogDays: 14, Internet: NAT,
		Store: Store{Kind: Serverless, MaxStorageGB: 5, MaxECPUs: 100_000, NodeType: "cache.t4g.small",
			Shards: 1, Replicas: 1, Version: "8.1"},
	}
	if stage == "prod" {
		p.Keep, p.Metrics, p.Example = true, true, false
		p.NodeType, p.Shards, p.LogDays = "cache.r7g.large", 2, 180
		// A new account may have 10 environments in total, none of which can be reserved.
		// So only prod reserves any. The dashboard's throttles let 330 calls a second pass,
		// and an environment takes 10.
		p.CheckConcurrency, p.AdminConcurrency = 100, 33
	}
	return p
}

// Name returns the stack's name, which is the prefix of its resources' names.
func (p *Props) Name() string { return "tidegate-" + p.Stage }

// Inside reports whether the functions are in a network.
func (p *Props) Inside() bool { return p.VPC != "" || p.Kind != URL }

// OwnNetwork reports whether the construct makes the network.
func (p *Props) OwnNetwork() bool { return p.VPC == "" && p.Kind != URL }

// Egress reports which functions need the internet.
func (p *Props) Egress() (check, admin bool) {
	return p.Check["JWT_JWKS_URL"] != "" || strings.Contains(p.Check["JWT_ISSUERS"], `"jwksUrl"`),
		p.Admin["OIDC_ISSUER"] != ""
}

// OwnInternet reports whether an own network has a way to the internet, since a function
// needs it.
func (p *Props) OwnInternet() bool {
	check, admin := p.Egress()
	return p.OwnNetwork() && (check || admin)
}

// Gateways returns how many NAT gateways an own network has: with Keep one for each zone.
func (p *Props) Gateways() int {
	if !p.OwnInternet() || p.Internet != NAT {
		return 0
	}
	if p.Keep {
		return p.ZoneCount()
	}
	return 1
}

// ZoneCount returns the number of zones of an own network.
func (p *Props) ZoneCount() int { return max(2, len(p.Zones)) }

// HostBits returns how many bits of a subnet's addresses are free. Subnets are a sixteenth
// of the network.
func (p *Props) HostBits() int {
	prefix, _ := netip.ParsePrefix(p.CIDR) // Validate refuses another text
	return 32 - prefix.Bits() - subnetBits
}

// Snapshots returns SnapshotDays, or its default.
func (p *Props) Snapshots() int {
	if p.SnapshotDays == 0 && p.Keep {
		return 7
	}
	return p.SnapshotDays
}

// MajorVersion returns the major version, which serverless caches and families of
// parameter groups use.
func (s *Store) MajorVersion() string {
	major, _, _ := strings.Cut(s.Version, ".")
	return major
}

// Timeout returns VALKEY_TIMEOUT of the check function.
func (p *Props) Timeout() time.Duration {
	if d, err := time.ParseDuration(p.Check["VALKEY_TIMEOUT"]); err == nil {
		return d
	}
	return defaultStoreTimeout
}

// DenialInContext reports whether calls over a limit pass an HTTP API, with the denial in
// the context.
func (p *Props) DenialInContext() bool { return p.Check["HTTP_API_DENY"] == "context" }
