package tidegate

import (
	"fmt"

	"github.com/aws/aws-cdk-go/awscdk/v2"
	"github.com/aws/aws-cdk-go/awscdk/v2/awsec2"
	"github.com/aws/constructs-go/constructs/v10"
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

// network holds the cache and the functions. An own one has no connection to the internet,
// unless a function calls an identity provider. Lambda provides logs, metrics, traces and
// decryption from outside the network.
type network struct {
	id      string
	subnets any // a list of ids
	tables  []string
	// check and admin are the ids of the functions' security groups, and cache is that of
	// an own cache.
	check, admin, cache string
	own                 *network // what the construct makes
}

func (t *Tidegate) newNetwork() *network {
	n := &network{id: t.props.VPC, subnets: t.props.Subnets, check: t.props.SecurityGroup,
		admin: t.props.SecurityGroup, own: &network{}}
	if t.props.template != nil {
		n.subnets = t.props.template.subnets
	}
	if t.choices.network.maybe() {
		n.own = t.newVPC()
		n.id = t.choices.network.text(n.own.id, n.id)
		n.subnets = t.choices.network.value(n.own.subnets, n.subnets)
	}
	if t.choices.inside.maybe() {
		t.newGroups(n)
	}
	return n
}

// newVPC makes the own network. Its functions and its cache stay in the same subnets,
// with and without internet: a subnet that moved would replace the cache, and Lambda holds
// a subnet's interfaces for minutes after a function has left it.
func (t *Tidegate) newVPC() *network {
	scope := t.part("Network", t.choices.network)
	vpc := awsec2.NewCfnVPC(scope, jsii.String("Vpc"), &awsec2.CfnVPCProps{
		CidrBlock: &t.props.CIDR, EnableDnsHostnames: true, EnableDnsSupport: true,
		Tags: named(t.props.Name()),
	})
	// The range of IPv6 costs nothing, and is there whether it is used or not: Lambda holds
	// addresses of it for minutes after a function has left it.
	range6 := awsec2.NewCfnVPCCidrBlock(scope, jsii.String("Range6"), &awsec2.CfnVPCCidrBlockProps{
		VpcId: vpc.Ref(), AmazonProvidedIpv6CidrBlock: true})
	blocks6 := awscdk.Fn_Cidr(awscdk.Fn_Select(jsii.Number(0), vpc.AttrIpv6CidrBlocks()),
		jsii.Number(maxZones), jsii.String(fmt.Sprint(ipv6HostBits)))
	n := &network{id: *vpc.Ref()}
	var subnets []string
	for i := range t.props.ZoneCount() {
		subnet := t.subnet(scope, *vpc.Ref(), "Private", i, i)
		subnet.SetIpv6CidrBlock(awscdk.Fn_Select(jsii.Number(i), blocks6))
		subnet.AddResourceDependency(range6, nil)
		table := awsec2.NewCfnRouteTable(scope, jsii.String(fmt.Sprintf("PrivateTable%d", i+1)),
			&awsec2.CfnRouteTableProps{VpcId: vpc.Ref()})
		awsec2.NewCfnSubnetRouteTableAssociation(scope, jsii.String(fmt.Sprintf("PrivateRoutes%d", i+1)),
			&awsec2.CfnSubnetRouteTableAssociationProps{RouteTableId: table.Ref(), SubnetId: subnet.Ref()})
		subnets, n.tables = append(subnets, *subnet.Ref()), append(n.tables, *table.Ref())
	}
	n.subnets = subnets
	if t.choices.nat.maybe() {
		t.newNAT(n.id, n.tables)
	}
	if t.choices.egressOnly.maybe() {
		t.newEgressOnly(n.id, n.tables)
	}
	return n
}

// templateHostBits are those of a subnet in a template, whose own network is a /20.
const templateHostBits = 8

// ipv6HostBits are those of a subnet's IPv6 range, which AWS fixes.
const ipv6HostBits = 64

// maxZones is how many zones have a place for their subnets in an own network.
const maxZones = 3

// subnet makes a subnet in a zone, in a sixteenth of the network.
func (t *Tidegate) subnet(scope constructs.Construct, vpc, kind string, zone, place int) awsec2.CfnSubnet {
	bits := templateHostBits
	if t.props.template == nil {
		bits = t.props.HostBits()
	}
	blocks := awscdk.Fn_Cidr(&t.props.CIDR, jsii.Number(2*maxZones), jsii.String(fmt.Sprint(bits)))
	return awsec2.NewCfnSubnet(scope, jsii.String(fmt.Sprintf("%s%d", kind, zone+1)), &awsec2.CfnSubnetProps{
		VpcId:               &vpc,
		CidrBlock:           awscdk.Fn_Select(jsii.Number(place), blocks),
		AvailabilityZone:    t.zone(zone),
		MapPublicIpOnLaunch: false,
		Tags:                named(fmt.Sprintf("%s-%s%d", t.props.Name(), kind, zone+1)),
	})
}

func named(name string) *[]*awscdk.CfnTag {
	return &[]*awscdk.CfnTag{{Key: jsii.String("Name"), Value: &name}}
}

// zone returns the name of a zone: of the settings, or of the region's first ones.
func (t *Tidegate) zone(i int) *string {
	if t.props.template != nil {
		return awscdk.Fn_Select(jsii.Number(i), t.props.template.zones)
	}
	if len(t.props.Zones) > 0 {
		return &t.props.Zones[i]
	}
	return awscdk.Fn_Select(jsii.Number(i), awscdk.Fn_GetAzs(nil))
}

// newNAT lets the private subnets call the internet, by a NAT gateway in one zone or, with
// Keep, in each.
func (t *Tidegate) newNAT(vpc string, tables []string) {
	scope := t.part("Internet", t.choices.nat)
	gateway := awsec2.NewCfnInternetGateway(scope, jsii.String("Gateway"), &awsec2.CfnInternetGatewayProps{})
	attached := awsec2.NewCfnVPCGatewayAttachment(scope, jsii.String("Attachment"),
		&awsec2.CfnVPCGatewayAttachmentProps{VpcId: &vpc, InternetGatewayId: gateway.Ref()})
	public := awsec2.NewCfnRouteTable(scope, jsii.String("PublicTable"),
		&awsec2.CfnRouteTableProps{VpcId: &vpc})
	out := t.defaultRoute(scope, "PublicRoute", *public.Ref())
	out.SetGatewayId(gateway.Ref())
	out.AddResourceDependency(attached, nil)
	var nat awsec2.CfnNatGateway
	for i, table := range tables {
		number := fmt.Sprint(i + 1)
		if i == 0 || t.props.Keep {
			subnet := t.subnet(scope, vpc, "Public", i, maxZones+i)
			routes := awsec2.NewCfnSubnetRouteTableAssociation(scope, jsii.String("PublicRoutes"+number),
				&awsec2.CfnSubnetRouteTableAssociationProps{RouteTableId: public.Ref(),
					SubnetId: subnet.Ref()})
			address := awsec2.NewCfnEIP(scope, jsii.String("Address"+number),
				&awsec2.CfnEIPProps{Domain: jsii.String("vpc")})
			address.AddResourceDependency(attached, nil)
			nat = awsec2.NewCfnNatGateway(scope, jsii.String("Nat"+number), &awsec2.CfnNatGatewayProps{
				SubnetId: subnet.Ref(), AllocationId: address.AttrAllocationId()})
			nat.AddResourceDependency(out, nil)
			nat.AddResourceDependency(routes, nil)
		}
		t.defaultRoute(scope, "PrivateRoute"+number, table).SetNatGatewayId(nat.Ref())
	}
}

// newEgressOnly lets the private subnets call the internet over IPv6. Nobody can call them.
func (t *Tidegate) newEgressOnly(vpc string, tables []string) {
	scope := t.part("Internet6", t.choices.egressOnly)
	gateway := awsec2.NewCfnEgressOnlyInternetGateway(scope, jsii.String("Gateway"),
		&awsec2.CfnEgressOnlyInternetGatewayProps{VpcId: &vpc})
	for i, table := range tables {
		awsec2.NewCfnRoute(scope, jsii.String(fmt.Sprint("Route", i+1)), &awsec2.CfnRouteProps{
			RouteTableId: &table, DestinationIpv6CidrBlock: jsii.String("::/0"),
			EgressOnlyInternetGatewayId: gateway.AttrId()})
	}
}

func (t *Tidegate) defaultRoute(scope constructs.Construct, id, table string) awsec2.CfnRoute {
	return awsec2.NewCfnRoute(scope, &id, &awsec2.CfnRouteProps{RouteTableId: &table,
		DestinationCidrBlock: jsii.String("0.0.0.0/0")})
}

// newGroups makes the security groups. No group lets anything in, except the cache's from
// the functions.
func (t *Tidegate) newGroups(n *network) {
	cache := t.choices.cache
	if cache.maybe() {
		made := t.group(t.part("CacheRules", cache), n, "CacheGroup",
			"The cache: only the functions reach it", nothing)
		n.cache = *made.Ref()
	}
	if t.choices.groups.maybe() {
		scope := t.part("Groups", t.choices.groups)
		n.own.check = *t.functionGroup(scope, n, "Check", t.choices.checkInternet).Ref()
		inS3 := choice{made: true} // the log of changes, which the admin function calls
		n.own.admin = *t.functionGroup(scope, n, "Admin", inS3).Ref()
		n.check = t.choices.groups.text(n.own.check, n.check)
		n.admin = t.choices.groups.text(n.own.admin, n.admin)
	}
	if cache.maybe() {
		t.allowFunctions(n)
	}
}

// nothing is the rule of a group that lets nothing out: without a rule AWS lets everything.
var nothing = map[string]any{
	"CidrIp":      "255.255.255.255/32",
	"IpProtocol":  "icmp",
	"FromPort":    252,
	"ToPort":      86,
	"Description": "nothing",
}

func (t *Tidegate) group(scope constructs.Construct, n *network, id, description string,
	out ...any) awsec2.CfnSecurityGroup {
	group := awsec2.NewCfnSecurityGroup(scope, &id, &awsec2.CfnSecurityGroupProps{
		VpcId: &n.id, GroupDescription: &description})
	group.AddPropertyOverride(jsii.String("SecurityGroupEgress"), out)
	return group
}

// functionGroup returns the group of a function. It lets calls out to the cache's ports,
// or to all ports of a Valkey that exists, and to the internet.
func (t *Tidegate) functionGroup(scope constructs.Construct, n *network, name string,
	internet choice) awsec2.CfnSecurityGroup {
	none := awscdk.Aws_NO_VALUE()
	var out []any
	for _, port := range t.ports() {
		rule := map[string]any{"IpProtocol": "tcp", "FromPort": port, "ToPort": port,
			"DestinationSecurityGroupId": n.cache, "Description": "to the cache"}
		if t.choices.cache.maybe() {
			out = append(out, t.choices.cache.value(rule, none))
		}
	}
	if t.choices.cache.condition != nil || !t.choices.cache.made {
		out = append(out, t.choices.cache.value(none, map[string]any{"IpProtocol": "tcp", "FromPort": 0,
			"ToPort": 65535, "CidrIp": "0.0.0.0/0", "Description": "to Valkey, wherever it is"}))
	}
	for _, to := range []struct {
		made      choice
		name, all string
	}{{choice{made: true}, "CidrIp", "0.0.0.0/0"}, {t.choices.ipv6, "CidrIpv6", "::/0"}} {
		if internet.maybe() && to.made.maybe() {
			rule := map[string]any{"IpProtocol": "tcp", "FromPort": httpsPort, "ToPort": httpsPort,
				to.name: to.all, "Description": "to S3 and identity providers"}
			out = append(out, internet.value(to.made.value(rule, none), none))
		}
	}
	return t.group(scope, n, name+"Group", "The "+name+" function", out...)
}

func (t *Tidegate) ports() []int {
	if t.props.Kind == settings.Nodes {
		return []int{primaryPort}
	}
	return []int{primaryPort, readerPort}
}

// allowFunctions lets the functions' groups into the cache's.
func (t *Tidegate) allowFunctions(n *network) {
	t.allow(t.part("CheckAccess", t.choices.cache), n.cache, n.check)
	if t.choices.adminAccess.maybe() {
		t.allow(t.part("AdminAccess", t.choices.adminAccess), n.cache, n.own.admin)
	}
}

func (t *Tidegate) allow(scope constructs.Construct, cache, function string) {
	for _, port := range t.ports() {
		awsec2.NewCfnSecurityGroupIngress(scope, jsii.String(fmt.Sprint("Port", port)),
			&awsec2.CfnSecurityGroupIngressProps{GroupId: &cache, SourceSecurityGroupId: &function,
				IpProtocol: jsii.String("tcp"), FromPort: jsii.Number(port), ToPort: jsii.Number(port)})
	}
}
