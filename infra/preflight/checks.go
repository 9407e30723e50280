package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"slices"
	"strconv"
	"strings"

	"tidegate/infra/settings"
	"tidegate/internal/awscli"
)

// look reads an account for a stage.
type look struct {
	ctx    context.Context
	aws    awscli.Command
	lookup func(ctx context.Context, network, host string) ([]net.IP, error)
	props  settings.Props
	// template means the published template, whose parameters have the settings' names.
	template bool
	// exists reports whether the stage's stack exists, which then owns the names.
	exists bool
}

// read runs a command and decodes its output.
func (l *look) read(into any, args ...string) error {
	text, err := l.aws(l.ctx, args...)
	if err != nil {
		return err
	}
	if err := json.Unmarshal(text, into); err != nil {
		return fmt.Errorf("aws %s %s: %w", args[0], args[1], err)
	}
	return nil
}

// checks are what preflight looks at, in the order of the deployment.
var checks = []struct {
	name string
	// check returns what would make the deployment fail, and the remedy; "" for nothing. It
	// may return an error of one look-up beside what others found.
	check func(*look) (string, error)
}{
	{"bootstrap", (*look).bootstrap},
	{"stack", (*look).stack},
	{"names", (*look).names},
	{"concurrency", (*look).concurrency},
	{"zones", (*look).zones},
	{"networks", (*look).networks},
	{"addresses", (*look).addresses},
	{"gateways", (*look).gateways},
	{"providers", (*look).providers},
}

// set returns how an operator sets settings of the stage.
func (l *look) set(values ...string) string {
	if !l.template {
		return "run ./scripts/stage " + l.props.Stage + " " + strings.Join(values, " ")
	}
	for i, value := range values {
		values[i] = strings.ToUpper(value[:1]) + value[1:]
	}
	return "set the parameters " + strings.Join(values, " ")
}

// bootstrapVersion is the oldest version of the bootstrap stack that templates of this CDK
// accept.
const bootstrapVersion = 6

func (l *look) bootstrap() (string, error) {
	if l.template {
		return "", nil
	}
	var version string
	err := l.read(&version, "ssm", "get-parameter", "--name", "/cdk-bootstrap/hnb659fds/version",
		"--query", "Parameter.Value")
	if missing(err, "ParameterNotFound") {
		return "account and region are not bootstrapped: npx cdk bootstrap", nil
	}
	if err != nil {
		return "", err
	}
	number, _ := strconv.Atoi(version) // 0 for another form
	if number < bootstrapVersion {
		return fmt.Sprintf("version %s, want at least %d: npx cdk bootstrap", version, bootstrapVersion), nil
	}
	return "", nil
}

// missing reports whether AWS has no such thing.
func missing(err error, code string) bool { return err != nil && strings.Contains(err.Error(), code) }

func (l *look) stack() (string, error) {
	var status string
	err := l.read(&status, "cloudformation", "describe-stacks", "--stack-name", l.props.Name(),
		"--query", "Stacks[0].StackStatus")
	if missing(err, "does not exist") {
		return "", nil
	}
	if err != nil {
		return "", err
	}
	l.exists = true
	if status == "ROLLBACK_COMPLETE" || status == "ROLLBACK_FAILED" {
		name := l.props.Name()
		return status + ", so the first deployment failed: aws cloudformation " +
			"update-termination-protection --no-enable-termination-protection --stack-name " + name +
			", then aws cloudformation delete-stack --stack-name " + name, nil
	}
	return "", nil
}

// named is a kind of resource whose names the stack wants.
type named struct {
	kind   string
	wanted []string
	args   []string // of the command that lists names, other stages' among them
}

// named returns the names that outlive a stack, or a failed deployment of it.
func (l *look) named() []named {
	name, logs := l.props.Name(), "/tidegate/"+l.props.Stage+"/"
	all := []named{
		{"log groups", []string{logs + "check", logs + "admin", logs + "forward"},
			[]string{"logs", "describe-log-groups", "--log-group-name-prefix", logs,
				"--query", "logGroups[].logGroupName"}},
		{"functions", []string{name + "-check", name + "-admin", name + "-forward"},
			[]string{"lambda", "list-functions", "--query", "Functions[].FunctionName"}},
	}
	secrets := []string{name + "/password"}
	if l.props.PepperSecret == "" {
		secrets = append(secrets, name+"/pepper")
	}
	all = append(all, named{"secrets", secrets, []string{"secretsmanager", "list-secrets",
		"--include-planned-deletion", "--filters", "Key=name,Values=" + name + "/",
		"--query", "SecretList[].Name"}})
	if l.props.Kind == settings.URL {
		return all
	}
	all = append(all, named{"users of the cache", []string{name + "-check", name + "-admin"},
		[]string{"elasticache", "describe-users", "--query", "Users[].UserId"}},
		named{"groups of users", []string{name},
			[]string{"elasticache", "describe-user-groups", "--query", "UserGroups[].UserGroupId"}})
	if l.props.Kind == settings.Nodes {
		return append(all, named{"caches", []string{name}, []string{"elasticache",
			"describe-replication-groups", "--query", "ReplicationGroups[].ReplicationGroupId"}})
	}
	return append(all, named{"caches", []string{name}, []string{"elasticache",
		"describe-serverless-caches", "--query", "ServerlessCaches[].ServerlessCacheName"}})
}

func (l *look) names() (problem string, failed error) {
	if l.exists {
		return "", nil
	}
	var taken []string
	for _, n := range l.named() {
		var list []string
		failed = errors.Join(failed, l.read(&list, n.args...))
		list = slices.DeleteFunc(list, func(name string) bool { return !slices.Contains(n.wanted, name) })
		if len(list) > 0 {
			taken = append(taken, n.kind+" "+strings.Join(list, ", "))
		}
	}
	if len(taken) > 0 {
		problem = "exist already: delete what an earlier stack of this stage left and nobody needs, take " +
			"over what it left with pepperSecret, changesBucket and key, or choose another stage: " +
			strings.Join(taken, "; ")
	}
	return problem, failed
}

// keptUnreserved are the environments of an account that AWS does not let be reserved.
const keptUnreserved = 100

func (l *look) concurrency() (string, error) {
	wanted := l.props.CheckConcurrency + l.props.AdminConcurrency
	if wanted == 0 || l.exists {
		return "", nil
	}
	var free int
	if err := l.read(&free, "lambda", "get-account-settings", "--query",
		"AccountLimit.UnreservedConcurrentExecutions"); err != nil {
		return "", err
	}
	if free-wanted < keptUnreserved {
		return fmt.Sprintf("%d environments are unreserved, and the stage reserves %d and leaves %d: raise "+
			"the quota of Lambda, or %s", free, wanted, keptUnreserved,
			l.set("checkConcurrency=0", "adminConcurrency=0")), nil
	}
	return "", nil
}

// unsupported are ids of zones in which Lambda has no functions with a network:
// https://github.com/keboola/developer-portal/issues/81 has the error.
var unsupported = []string{"use1-az3"}

// offers returns the zones in which EC2 has the instances of the cache's nodes; nil if
// nodes are not asked for, or EC2 does not know their type. ElastiCache has no such list.
func (l *look) offers() ([]string, error) {
	if l.props.Kind != settings.Nodes {
		return nil, nil
	}
	var zones []string
	err := l.read(&zones, "ec2", "describe-instance-type-offerings", "--location-type", "availability-zone",
		"--filters", "Name=instance-type,Values="+strings.TrimPrefix(l.props.NodeType, "cache."),
		"--query", "InstanceTypeOfferings[].Location")
	return zones, err
}

// zone is an availability zone. Its name differs between accounts, its id does not.
type zone struct{ ZoneName, ZoneID string }

func (l *look) zones() (string, error) {
	var all []zone
	if err := l.read(&all, "ec2", "describe-availability-zones", "--filters",
		"Name=zone-type,Values=availability-zone", "--query",
		"AvailabilityZones[].{ZoneName:ZoneName,ZoneID:ZoneId}"); err != nil {
		return "", err
	}
	if !l.props.OwnNetwork() {
		return "", nil
	}
	offers, err := l.offers()
	if err != nil {
		return "", err
	}
	var good []string
	chosen, bad := l.props.Zones, ""
	for i, zone := range all {
		why := ""
		switch {
		case slices.Contains(unsupported, zone.ZoneID):
			why = " is " + zone.ZoneID + ", where Lambda has no functions with a network"
		case len(offers) > 0 && !slices.Contains(offers, zone.ZoneName):
			why = " has no instances for nodes of " + l.props.NodeType
		default:
			good = append(good, zone.ZoneName)
		}
		if used := slices.Contains(chosen, zone.ZoneName) || len(chosen) == 0 && i < 2; used && why != "" {
			bad = zone.ZoneName + why
		}
	}
	for _, name := range chosen {
		if !slices.ContainsFunc(all, func(z zone) bool { return z.ZoneName == name }) {
			return name + " is no zone of this region", nil
		}
	}
	if bad == "" {
		return "", nil
	}
	return bad + ": " + l.set("zones="+strings.Join(good[:min(2, len(good))], ",")), nil
}

// quota compares a number of things with its quota.
func (l *look) quota(things, service, code string, more int, count ...string) (string, error) {
	var limit float64
	if err := l.read(&limit, "service-quotas", "get-service-quota", "--service-code", service,
		"--quota-code", code, "--query", "Quota.Value"); err != nil {
		return "", err
	}
	var used int
	if err := l.read(&used, count...); err != nil {
		return "", err
	}
	if used+more > int(limit) {
		return fmt.Sprintf("%d of %g %s are used, and the stage needs %d: raise quota %s", used, limit,
			things, more, code), nil
	}
	return "", nil
}

func (l *look) networks() (string, error) {
	if l.exists || !l.props.OwnNetwork() {
		return "", nil
	}
	return l.quota("VPCs", "vpc", "L-F678F1CE", 1, "ec2", "describe-vpcs", "--query", "length(Vpcs)")
}

func (l *look) addresses() (string, error) {
	if l.exists || l.props.Gateways() == 0 {
		return "", nil
	}
	return l.quota("Elastic IP addresses", "ec2", "L-0263D0A3", l.props.Gateways(),
		"ec2", "describe-addresses", "--query", "length(Addresses)")
}

func (l *look) gateways() (string, error) {
	if l.exists || !l.props.OwnInternet() || l.props.Internet != settings.IPv6 {
		return "", nil
	}
	return l.quota("egress-only internet gateways", "vpc", "L-45FE3B85", 1, "ec2",
		"describe-egress-only-internet-gateways", "--query", "length(EgressOnlyInternetGateways)")
}

// providers looks for identity providers that internet=ipv6 cannot reach.
func (l *look) providers() (problem string, failed error) {
	if l.props.Internet != settings.IPv6 {
		return "", nil
	}
	var without []string
	for _, host := range l.props.Providers() {
		_, err := l.lookup(l.ctx, "ip6", host)
		_, onlyIPv4 := errors.AsType[*net.AddrError](err)
		unknown, _ := errors.AsType[*net.DNSError](err)
		switch {
		case onlyIPv4, unknown != nil && unknown.IsNotFound:
			without = append(without, host)
		default:
			failed = errors.Join(failed, err)
		}
	}
	if len(without) > 0 {
		problem = strings.Join(without, ", ") + " has no IPv6 address, so the functions cannot call it: " +
			l.set("internet=nat")
	}
	return problem, failed
}
