package tidegate

import (
	"fmt"

	"github.com/aws/aws-cdk-go/awscdk/v2"
	"github.com/aws/aws-cdk-go/awscdk/v2/awselasticache"
	"github.com/aws/aws-cdk-go/awscdk/v2/awsiam"
	"github.com/aws/constructs-go/constructs/v10"
	"github.com/aws/jsii-runtime-go"

	"tidegate/infra/settings"
	"tidegate/internal/store/acl"
)

// store is the Valkey: an own cache, serverless or of nodes, or one that exists.
type store struct {
	scope constructs.Construct // of an own cache
	// arn is the own cache's ARN in the functions' right to connect. host and options are
	// parts of their VALKEY_URL.
	arn, host *string
	options   string
}

// newStore creates the cache. Both kinds have TLS, cluster mode and log-in by IAM.
func (t *Tidegate) newStore() *store {
	if !t.choices.cache.maybe() {
		return &store{}
	}
	scope := t.part("Store", t.choices.cache)
	users := t.newUsers(scope)
	if t.props.Kind == settings.Nodes {
		return t.newNodes(scope, users)
	}
	return t.newServerless(scope, users)
}

// valkeyURL returns the VALKEY_URL of a function.
func (t *Tidegate) valkeyURL(function string) string {
	own, given := "", ""
	if t.choices.cache.maybe() {
		own = fmt.Sprintf("valkeys://%s@%s:%d?cluster=true&iam=%s%s", t.userName(function), *t.store.host,
			primaryPort, t.props.Name(), t.store.options)
	}
	if t.props.URLSecret != "" {
		given = resolve(t.props.URLSecret)
	}
	return t.choices.cache.text(own, given)
}

func (t *Tidegate) newServerless(scope constructs.Construct, users *string) *store {
	p := t.props.Store
	days := t.props.Snapshots()
	props := &awselasticache.CfnServerlessCacheProps{
		Engine:              jsii.String("valkey"),
		MajorEngineVersion:  jsii.String(p.MajorVersion()),
		ServerlessCacheName: jsii.String(t.props.Name()),
		Description:         jsii.String("Tidegate " + t.props.Stage + ": keys, limits and counts"),
		UserGroupId:         users,
		KmsKeyId:            &t.keyARN,
		SecurityGroupIds:    &[]any{t.network.cache},
		CacheUsageLimits: &awselasticache.CfnServerlessCache_CacheUsageLimitsProperty{
			DataStorage: &awselasticache.CfnServerlessCache_DataStorageProperty{
				Maximum: t.number("maxStorageGB", p.MaxStorageGB), Unit: jsii.String("GB")},
			EcpuPerSecond: &awselasticache.CfnServerlessCache_ECPUPerSecondProperty{
				Maximum: t.number("maxECPUs", p.MaxECPUs)},
		},
		SnapshotRetentionLimit: t.number("snapshotDays", days),
	}
	if days > 0 {
		props.DailySnapshotTime = jsii.String("03:00")
	}
	if t.props.Keep {
		props.FinalSnapshotName = t.finalSnapshot()
	}
	cache := awselasticache.NewCfnServerlessCache(scope, jsii.String("Cache"), props)
	cache.AddPropertyOverride(jsii.String("SubnetIds"), t.network.subnets)
	if t.choices.restored.maybe() {
		cache.AddPropertyOverride(jsii.String("SnapshotArnsToRestore"),
			t.choices.restored.value([]string{p.Snapshot}, awscdk.Aws_NO_VALUE()))
	}
	return &store{
		scope: scope, arn: t.arn("elasticache", "serverlesscache", t.props.Name()),
		host: cache.AttrEndpointAddress(), options: "&serverless=true",
	}
}

// finalSnapshot returns the name of the snapshot that ElastiCache takes before it deletes a
// serverless cache. It ends in a part of the stack's id, since a name that an earlier
// stack of the stage took would make the deletion fail.
func (t *Tidegate) finalSnapshot() *string {
	id := awscdk.Fn_Select(jsii.Number(2), awscdk.Fn_Split(jsii.String("/"), t.stack().StackId(), nil))
	part := awscdk.Fn_Select(jsii.Number(0), awscdk.Fn_Split(jsii.String("-"), id, nil))
	return awscdk.Fn_Join(jsii.String("-"), &[]*string{jsii.String(t.props.Name() + "-final"), part})
}

func (t *Tidegate) newNodes(scope constructs.Construct, users *string) *store {
	p := t.props.Store
	subnets := awselasticache.NewCfnSubnetGroup(scope, jsii.String("CacheSubnets"),
		&awselasticache.CfnSubnetGroupProps{Description: jsii.String("Subnets of Tidegate's cache"),
			SubnetIds: &[]any{}})
	subnets.AddPropertyOverride(jsii.String("SubnetIds"), t.network.subnets)
	// When memory is full, Valkey evicts counts only, never configuration. It evicts the
	// counts of infrequent callers first, so that a flood of new callers evicts its own.
	parameters := awselasticache.NewCfnParameterGroup(scope, jsii.String("CacheParameters"),
		&awselasticache.CfnParameterGroupProps{
			CacheParameterGroupFamily: jsii.String("valkey" + p.MajorVersion()),
			Description: jsii.String("Tidegate: cluster mode; under pressure counts may go, " +
				"never configuration"),
			Properties: map[string]any{"cluster-enabled": "yes", "maxmemory-policy": "volatile-lfu"},
		})
	group := awselasticache.NewCfnReplicationGroup(scope, jsii.String("Nodes"),
		&awselasticache.CfnReplicationGroupProps{
			ReplicationGroupId: jsii.String(t.props.Name()),
			ReplicationGroupDescription: jsii.String("Tidegate " + t.props.Stage +
				": keys, limits and counts"),
			Engine:                     jsii.String("valkey"),
			EngineVersion:              jsii.String(p.Version),
			CacheNodeType:              &p.NodeType,
			NumNodeGroups:              jsii.Number(p.Shards),
			ReplicasPerNodeGroup:       jsii.Number(p.Replicas),
			AutomaticFailoverEnabled:   true,
			MultiAzEnabled:             true,
			AutoMinorVersionUpgrade:    true,
			TransitEncryptionEnabled:   true,
			TransitEncryptionMode:      jsii.String("required"),
			AtRestEncryptionEnabled:    true,
			KmsKeyId:                   &t.keyARN,
			UserGroupIds:               &[]*string{users},
			CacheSubnetGroupName:       subnets.Ref(),
			CacheParameterGroupName:    parameters.Ref(),
			SecurityGroupIds:           &[]*string{&t.network.cache},
			Port:                       jsii.Number(primaryPort),
			SnapshotRetentionLimit:     jsii.Number(t.props.Snapshots()),
			SnapshotWindow:             jsii.String("03:00-04:00"),
			PreferredMaintenanceWindow: jsii.String("sun:04:30-sun:05:30"),
		})
	if p.Snapshot != "" {
		group.SetSnapshotName(&p.Snapshot)
	}
	group.CfnOptions().SetUpdatePolicy(&awscdk.CfnUpdatePolicy{UseOnlineResharding: jsii.Bool(true)})
	if t.props.Keep {
		group.ApplyRemovalPolicy(awscdk.RemovalPolicy_SNAPSHOT, nil)
	}
	return &store{
		scope: scope, arn: t.arn("elasticache", "replicationgroup", t.props.Name()),
		host: group.AttrConfigurationEndPointAddress(),
	}
}

// nodeNames returns the ids of the nodes in CloudWatch.
func (t *Tidegate) nodeNames() []string {
	var names []string
	for shard := range t.props.Shards {
		for node := range t.props.Replicas + 1 {
			names = append(names, fmt.Sprintf("%s-%04d-%03d", t.props.Name(), shard+1, node+1))
		}
	}
	return names
}

// newUsers returns the group of the cache's users: one for each function that uses the
// cache. They log in by IAM, so there is no password to leak, and have only the rights
// that their function needs.
func (t *Tidegate) newUsers(scope constructs.Construct) *string {
	check := t.user(scope, "CheckUser", "check", acl.Check())
	admin := t.user(scope, "AdminUser", "admin", acl.Admin())
	return awselasticache.NewCfnUserGroup(scope, jsii.String("Users"), &awselasticache.CfnUserGroupProps{
		Engine:      jsii.String("valkey"),
		UserGroupId: jsii.String(t.props.Name()),
		UserIds:     &[]*string{check.Ref(), admin.Ref()},
	}).Ref()
}

// user returns a user whose id is its name, as log-in by IAM requires.
func (t *Tidegate) user(scope constructs.Construct, id, function, access string) awselasticache.CfnUser {
	name := t.userName(function)
	return awselasticache.NewCfnUser(scope, &id, &awselasticache.CfnUserProps{
		Engine:             jsii.String("valkey"),
		UserId:             &name,
		UserName:           &name,
		AccessString:       &access,
		AuthenticationMode: map[string]any{"Type": "iam"},
	})
}

func (t *Tidegate) userName(function string) string { return t.props.Name() + "-" + function }

// allowConnect lets a function's role log in to an own cache as the function's user.
func (t *Tidegate) allowConnect(id, function string, role awsiam.Role) {
	if t.choices.cache.maybe() {
		user := t.arn("elasticache", "user", t.userName(function))
		awsiam.NewPolicy(t.store.scope, jsii.String(id+"Connect"), &awsiam.PolicyProps{
			Roles: &[]awsiam.IRole{role}, Statements: &[]awsiam.PolicyStatement{statement("Cache",
				jsii.Strings("elasticache:Connect"), &[]*string{t.store.arn, user})}})
	}
}
