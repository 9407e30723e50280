package main

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/aws/aws-cdk-go/awscdk/v2"
)

// flags are the context: what cdk -c name=value and cdk.json set.
type flags struct {
	values map[string]string
	nag    bool
}

// flagNames are those that flags.props reads.
var flagNames = []string{
	"stage",
	"keep",
	"cidr",
	"zones",
	"journal",
	"journalAway",
	"journalRestore",
	"journalLockDays",
	"auditRetention",
	"crossings",
	"store",
	"maxStorageGB",
	"maxECPUs",
	"nodeType",
	"shards",
	"replicas",
	"snapshotDays",
	"checkMemory",
	"adminMemory",
	"checkConcurrency",
	"adminConcurrency",
	"logLevel",
	"adminUser",
	"example",
	"waf",
	"callers",
	"domain",
	"certificate",
	"zone",
	"zoneId",
	"alarmEmail",
	"logDays",
	"tags",
	"natGateways",
	"identity",
	"ipv4Prefix",
	"ipv6Prefix",
	"jwtIssuer",
	"jwtAudience",
	"jwtJwksUrl",
	"jwtJwks",
	"jwtIdentityClaim",
	"jwtPlanClaim",
	"oidcIssuer",
	"oidcClientId",
	"oidcSecretName",
	"oidcRoleClaim",
	"oidcEditors",
	"oidcViewers",
	"oidcScopes",
	"jwtLeeway",
	"storeTimeout",
	"callerCache",
	"denyCache",
	"reservationLease",
	"httpApiDeny",
	"usageIdentifier",
	"foreignKeys",
	"corsOrigin",
	"adminUsersSecretName",
	"adminNetworks",
	"ownerView",
	"ownerNetworks",
	"sessionIdle",
	"sessionLifetime",
	"release",
	"tracing",
	"metrics",
	"cloudWatchDashboard",
	"valkeyVersion",
	"valkeyDurability",
	"accessLogs",
	"nag",
}

// contextFlags returns the context without the CDK's own names, which have a colon or a
// slash.
func contextFlags(app awscdk.App) (flags, error) {
	all, ok := app.Node().GetAllContext(nil).(map[string]any)
	if !ok {
		return flags{}, errors.New("the context cannot be read")
	}
	values := map[string]string{}
	for name, value := range all {
		if !strings.ContainsAny(name, ":/") {
			values[name] = fmt.Sprint(value)
		}
	}
	return newFlags(values)
}

// newFlags refuses unknown names.
func newFlags(values map[string]string) (flags, error) {
	var errs []error
	for _, name := range sorted(values) {
		if !slices.Contains(flagNames, name) {
			errs = append(errs, fmt.Errorf("-c %s=%s: there is no such flag; there are %s", name,
				values[name], strings.Join(flagNames, ", ")))
		}
	}
	r := reader{values: values, errs: errs}
	nag := r.boolean("nag", false)
	return flags{values, nag}, errors.Join(r.errs...)
}

// props returns the validated props of the flags, with defaults.
func (f flags) props() (Props, error) {
	r := &reader{values: f.values}
	stage := r.text("stage")
	prod := stage == "prod"
	p := Props{
		Stage: stage,
		Keep:  r.boolean("keep", prod),
		CIDR:  r.text("cidr"),
		Zones: r.list("zones"),

		Journal: r.boolean("journal", false), JournalAway: r.text("journalAway"),
		JournalRestore: r.text("journalRestore"), JournalLockDays: r.number("journalLockDays"),
		AuditRetention: r.duration("auditRetention"), Crossings: r.text("crossings"),
		Store: StoreProps{
			Kind: StoreKind(r.text("store")), MaxStorageGB: r.number("maxStorageGB"),
			MaxECPUs: r.number("maxECPUs"), NodeType: r.text("nodeType"),
			Shards: r.number("shards"), Replicas: r.number("replicas"),
			SnapshotDays: r.number("snapshotDays"),
			Version:      r.text("valkeyVersion"), Durability: Durability(r.text("valkeyDurability")),
		},
		Check: FunctionProps{Memory: r.number("checkMemory"),
			Concurrency: r.numberOrNone("checkConcurrency"), LogLevel: r.text("logLevel")},
		Admin: FunctionProps{Memory: r.number("adminMemory"),
			Concurrency: r.numberOrNone("adminConcurrency"), LogLevel: r.text("logLevel")},
		Identity:    r.identity(),
		Decision:    r.decision(),
		Login:       r.login(),
		NATGateways: r.number("natGateways"),
		Example:     r.boolean("example", !prod),
		CORSOrigin:  r.text("corsOrigin"),
		WAF:         r.boolean("waf", false),
		Callers:     r.list("callers"),
		Domain: DomainProps{Name: r.text("domain"), Certificate: r.text("certificate"),
			Zone: r.text("zone"), ZoneID: r.text("zoneId")},
		Observe:    r.observe(prod),
		Release:    r.text("release"),
		AlarmEmail: r.text("alarmEmail"),
		LogDays:    r.number("logDays"),
		Tags:       r.pairs("tags"),
	}
	p = Defaults(p)
	return p, errors.Join(append(r.errs, p.check())...)
}

func (r *reader) identity() IdentityProps {
	return IdentityProps{
		Sources: r.list("identity"), IPv4Prefix: r.number("ipv4Prefix"), IPv6Prefix: r.number("ipv6Prefix"),
		ForeignKeys: r.boolean("foreignKeys", false),
		JWT: JWTProps{
			Issuer: r.text("jwtIssuer"), Audiences: r.list("jwtAudience"), JWKSURL: r.text("jwtJwksUrl"),
			JWKS:          r.text("jwtJwks"),
			IdentityClaim: r.text("jwtIdentityClaim"), PlanClaim: r.text("jwtPlanClaim"),
			Leeway: r.duration("jwtLeeway"),
		},
	}
}

func (r *reader) decision() DecisionProps {
	return DecisionProps{
		StoreTimeout: r.duration("storeTimeout"), CallerCache: r.duration("callerCache"),
		DenyCache:        r.duration("denyCache"),
		ReservationLease: r.duration("reservationLease"),
		DenialInContext:  r.choice("httpApiDeny", "deny", "context") == "context",
		UsageIdentifier:  r.boolean("usageIdentifier", false),
	}
}

func (r *reader) login() LoginProps {
	return LoginProps{
		User: r.text("adminUser"), Users: r.text("adminUsersSecretName"), OIDC: r.oidc(),
		Networks:  r.list("adminNetworks"),
		OwnerView: r.text("ownerView"), OwnerNetworks: r.list("ownerNetworks"),
		SessionIdle: r.duration("sessionIdle"), SessionLifetime: r.duration("sessionLifetime"),
	}
}

func (r *reader) oidc() OIDCProps {
	return OIDCProps{
		Issuer: r.text("oidcIssuer"), ClientID: r.text("oidcClientId"),
		ClientSecret: r.text("oidcSecretName"),
		RoleClaim:    r.text("oidcRoleClaim"), Editors: r.list("oidcEditors"), Viewers: r.list("oidcViewers"),
		Scopes: r.list("oidcScopes"),
	}
}

// reader parses texts and collects errors.
type reader struct {
	values map[string]string
	errs   []error
}

func (r *reader) wrong(name, want string) {
	r.errs = append(r.errs, fmt.Errorf("-c %s=%s: %s", name, r.values[name], want))
}

func (r *reader) text(name string) string { return strings.TrimSpace(r.values[name]) }

func (r *reader) boolean(name string, fallback bool) bool {
	switch r.text(name) {
	case "":
		return fallback
	case "true":
		return true
	case "false":
		return false
	}
	r.wrong(name, "must be true or false")
	return fallback
}

// choice parses one of these values; the first unless it is set.
func (r *reader) choice(name string, options ...string) string {
	text := cmp.Or(r.text(name), options[0])
	if !slices.Contains(options, text) {
		r.wrong(name, "must be "+strings.Join(options, " or "))
	}
	return text
}

// duration parses a duration; nil unless it is set.
func (r *reader) duration(name string) *time.Duration {
	text := r.text(name)
	if text == "" {
		return nil
	}
	d, err := time.ParseDuration(text)
	if err != nil {
		r.wrong(name, "must be a time such as 500ms, 10m or 2h")
		return nil
	}
	return &d
}

// number parses a whole number. It refuses 0, which means the default.
func (r *reader) number(name string) int {
	text := r.text(name)
	if text == "" {
		return 0
	}
	n, err := strconv.Atoi(text)
	if err != nil || n < 1 {
		r.wrong(name, "must be a whole number, at least 1")
	}
	return n
}

func (r *reader) numberOrNone(name string) int {
	if r.text(name) == "none" {
		return Unreserved
	}
	return r.number(name)
}

func (r *reader) list(name string) []string {
	var list []string
	for item := range strings.SplitSeq(r.text(name), ",") {
		if item = strings.TrimSpace(item); item != "" {
			list = append(list, item)
		}
	}
	return list
}

func (r *reader) pairs(name string) map[string]string {
	pairs := map[string]string{}
	for _, item := range r.list(name) {
		key, value, found := strings.Cut(item, "=")
		if !found {
			r.wrong(name, "must be name=value,name=value")
		}
		pairs[key] = value
	}
	return pairs
}
