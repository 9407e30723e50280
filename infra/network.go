package main

import (
	"github.com/aws/aws-cdk-go/awscdk/v2/awsec2"
	"github.com/aws/jsii-runtime-go"

	"tidegate/infra/settings"
)

// Ports of a serverless cache: 6379 is for the primaries, 6380 for the readers, on one
// host name.
const (
	primaryPort = 6379
	readerPort  = 6380
)

// httpsPort is the port of connections to the internet.
const httpsPort = 443

// network holds the cache and the functions. Its isolated subnets have no connection to
// the internet. Lambda provides logs, metrics, traces and decryption from outside the
// network. Only a function that calls an identity provider is in subnets with a NAT
// gateway.
type network struct {
	vpc awsec2.Vpc
	// cache, check and admin are the security groups.
	cache, check, admin awsec2.SecurityGroup
}

func (s *Stack) newNetwork() *network {
	n := &network{vpc: s.newVPC()}
	n.cache = s.group(n.vpc, "CacheGroup", "The cache: only the functions reach it")
	n.check = s.group(n.vpc, "CheckGroup", "The check function")
	n.admin = s.group(n.vpc, "AdminGroup", "The admin function")
	for _, port := range s.ports() {
		tcp := awsec2.Port_Tcp(jsii.Number(port))
		n.check.Connections().AllowTo(n.cache, tcp, jsii.String("check to cache"))
		n.admin.Connections().AllowTo(n.cache, tcp, jsii.String("admin to cache"))
	}
	check, admin := s.props.Egress()
	for group, out := range map[awsec2.SecurityGroup]bool{n.check: check, n.admin: admin} {
		if out {
			group.AddEgressRule(awsec2.Peer_AnyIpv4(), awsec2.Port_Tcp(jsii.Number(httpsPort)),
				jsii.String("to the identity provider"), nil)
		}
	}
	return n
}

func (s *Stack) ports() []int {
	if s.props.Store.Kind == settings.Serverless {
		return []int{primaryPort, readerPort}
	}
	return []int{primaryPort}
}

func (s *Stack) newVPC() awsec2.Vpc {
	props := &awsec2.VpcProps{
		VpcName:     jsii.String(s.props.Name()),
		IpAddresses: awsec2.IpAddresses_Cidr(&s.props.CIDR),
		NatGateways: jsii.Number(0),
		// The default group is unused. The CDK would close it by a function with rights
		// of its own.
		RestrictDefaultSecurityGroup: jsii.Bool(false),
		SubnetConfiguration:          s.layout(),
	}
	if check, admin := s.props.Egress(); check || admin {
		props.NatGateways = jsii.Number(s.props.NATGateways)
	}
	if len(s.props.Zones) > 0 {
		props.AvailabilityZones = jsii.Strings(s.props.Zones...)
	} else {
		props.MaxAzs = jsii.Number(2)
	}
	return awsec2.NewVpc(s.Stack, jsii.String("Network"), props)
}

// layout returns the groups of subnets. Those with internet have their ranges also while
// no function needs them: a subnet that moved would replace the cache, which cannot be
// created beside itself under the same name.
func (s *Stack) layout() *[]*awsec2.SubnetConfiguration {
	check, admin := s.props.Egress()
	mask := jsii.Number(s.props.PrefixBits() + settings.SubnetBits)
	group := func(name string, kind awsec2.SubnetType, used bool) *awsec2.SubnetConfiguration {
		return &awsec2.SubnetConfiguration{Name: &name, SubnetType: kind, CidrMask: mask,
			Reserved: jsii.Bool(!used)}
	}
	public := group("public", awsec2.SubnetType_PUBLIC, check || admin)
	public.MapPublicIpOnLaunch = jsii.Bool(false)
	return &[]*awsec2.SubnetConfiguration{
		group("isolated", awsec2.SubnetType_PRIVATE_ISOLATED, true), public,
		group("egress", awsec2.SubnetType_PRIVATE_WITH_EGRESS, check || admin),
	}
}

func (s *Stack) group(vpc awsec2.Vpc, id, description string) awsec2.SecurityGroup {
	return awsec2.NewSecurityGroup(s.Stack, &id, &awsec2.SecurityGroupProps{
		Vpc: vpc, Description: &description, AllowAllOutbound: jsii.Bool(false),
	})
}

// subnets returns a function's subnets: with egress to the internet, or isolated.
func (n *network) subnets(egress bool) *awsec2.SubnetSelection {
	if egress {
		return &awsec2.SubnetSelection{SubnetType: awsec2.SubnetType_PRIVATE_WITH_EGRESS}
	}
	return n.isolated()
}

// isolated returns the subnets without internet.
func (n *network) isolated() *awsec2.SubnetSelection {
	return &awsec2.SubnetSelection{SubnetType: awsec2.SubnetType_PRIVATE_ISOLATED}
}
