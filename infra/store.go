package main

import (
	"fmt"

	"github.com/aws/aws-cdk-go/awscdk/v2"
	"github.com/aws/aws-cdk-go/awscdk/v2/awselasticache"
	"github.com/aws/jsii-runtime-go"

	"tidegate/infra/settings"
	"tidegate/internal/store/acl"
)

// store is the cache, serverless or of nodes.
type store struct {
	users *users
	// arn is the cache's ARN in the functions' right to connect.
	arn *string
	// host and options are parts of the functions' VALKEY_URL.
	host    *string
	options string
	// resource must exist before the functions.
	resource awscdk.CfnResource
}

// newStore creates the cache. Both kinds have TLS, cluster mode and log-in by IAM.
func (s *Stack) newStore() *store {
	u := s.newUsers()
	if s.props.Store.Kind == settings.Nodes {
		return s.newNodes(u)
	}
	return s.newServerless(u)
}

// url returns the VALKEY_URL of a function.
func (s *Stack) url(function string) string {
	return fmt.Sprintf("valkeys://%s@%s:%d?cluster=true&iam=%s%s", s.userName(function), *s.store.host,
		primaryPort, s.props.Name(), s.store.options)
}

func (s *Stack) newServerless(u *users) *store {
	p := s.props.Store
	props := &awselasticache.CfnServerlessCacheProps{
		Engine:              jsii.String("valkey"),
		MajorEngineVersion:  jsii.String(p.MajorVersion()),
		ServerlessCacheName: jsii.String(s.props.Name()),
		Description:         jsii.String("Tidegate " + s.props.Stage + ": keys, limits and counts"),
		UserGroupId:         u.group.Ref(),
		KmsKeyId:            s.key.KeyArn(),
		SecurityGroupIds:    &[]any{s.network.cache.SecurityGroupId()},
		SubnetIds:           anys(s.network.vpc.SelectSubnets(s.network.isolated()).SubnetIds),
		CacheUsageLimits: &awselasticache.CfnServerlessCache_CacheUsageLimitsProperty{
			DataStorage: &awselasticache.CfnServerlessCache_DataStorageProperty{
				Maximum: jsii.Number(p.MaxStorageGB), Unit: jsii.String("GB")},
			EcpuPerSecond: &awselasticache.CfnServerlessCache_ECPUPerSecondProperty{
				Maximum: jsii.Number(p.MaxECPUs)},
		},
		SnapshotRetentionLimit: jsii.Number(p.SnapshotDays),
	}
	if p.SnapshotDays > 0 {
		props.DailySnapshotTime = jsii.String("03:00")
	}
	if s.props.Keep {
		props.FinalSnapshotName = s.finalSnapshot()
	}
	cache := awselasticache.NewCfnServerlessCache(s.Stack, jsii.String("Cache"), props)
	return &store{
		users: u, arn: s.elastiCacheARN("serverlesscache", s.props.Name()),
		host: cache.AttrEndpointAddress(), options: "&serverless=true", resource: cache,
	}
}

// finalSnapshot returns the name of the snapshot that ElastiCache takes before it deletes a
// serverless cache. It ends in a part of the stack's id, since a name that an earlier
// stack of the stage took would make the deletion fail.
func (s *Stack) finalSnapshot() *string {
	id := awscdk.Fn_Select(jsii.Number(2), awscdk.Fn_Split(jsii.String("/"), s.StackId(), nil))
	part := awscdk.Fn_Select(jsii.Number(0), awscdk.Fn_Split(jsii.String("-"), id, nil))
	return awscdk.Fn_Join(jsii.String("-"), &[]*string{jsii.String(s.props.Name() + "-final"), part})
}

func (s *Stack) newNodes(u *users) *store {
	p := s.props.Store
	subnets := awselasticache.NewCfnSubnetGroup(s.Stack, jsii.String("CacheSubnets"),
		&awselasticache.CfnSubnetGroupProps{
			Description: jsii.String("Tidegate's isolated subnets"),
			SubnetIds:   anys(s.network.vpc.SelectSubnets(s.network.isolated()).SubnetIds),
		})
	// When memory is full, Valkey evicts counts only, never configuration. It evicts the
	// counts of infrequent callers first, so that a flood of new callers evicts its own.
	parameters := awselasticache.NewCfnParameterGroup(s.Stack, jsii.String("CacheParameters"),
		&awselasticache.CfnParameterGroupProps{
			CacheParameterGroupFamily: jsii.String("valkey" + p.MajorVersion()),
			Description: jsii.String(
				"Tidegate: cluster mode; under pressure counts may go, never configuration"),
			Properties: map[string]any{"cluster-enabled": "yes", "maxmemory-policy": "volatile-lfu"},
		})
	group := awselasticache.NewCfnReplicationGroup(s.Stack, jsii.String("Nodes"),
		&awselasticache.CfnReplicationGroupProps{
			ReplicationGroupId: jsii.String(s.props.Name()),
			ReplicationGroupDescription: jsii.String("Tidegate " + s.props.Stage +
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
			KmsKeyId:                   s.key.KeyArn(),
			UserGroupIds:               &[]*string{u.group.Ref()},
			CacheSubnetGroupName:       subnets.Ref(),
			CacheParameterGroupName:    parameters.Ref(),
			SecurityGroupIds:           &[]*string{s.network.cache.SecurityGroupId()},
			Port:                       jsii.Number(primaryPort),
			SnapshotRetentionLimit:     jsii.Number(p.SnapshotDays),
			SnapshotWindow:             jsii.String("03:00-04:00"),
			PreferredMaintenanceWindow: jsii.String("sun:04:30-sun:05:30"),
		})
	if p.Durability != "" {
		group.SetDurability(jsii.String(string(p.Durability)))
	}
	group.CfnOptions().SetUpdatePolicy(&awscdk.CfnUpdatePolicy{UseOnlineResharding: jsii.Bool(true)})
	if s.props.Keep {
		group.ApplyRemovalPolicy(awscdk.RemovalPolicy_SNAPSHOT, nil)
	}
	return &store{
		users: u, arn: s.elastiCacheARN("replicationgroup", s.props.Name()),
		host: group.AttrConfigurationEndPointAddress(), resource: group,
	}
}

// nodeNames returns the ids of the nodes in CloudWatch.
func (s *Stack) nodeNames() []string {
	var names []string
	for shard := range s.props.Store.Shards {
		for node := range s.props.Store.Replicas + 1 {
			names = append(names, fmt.Sprintf("%s-%04d-%03d", s.props.Name(), shard+1, node+1))
		}
	}
	return names
}

func anys(list *[]*string) *[]any {
	var all []any
	for _, item := range *list {
		all = append(all, item)
	}
	return &all
}

// users has the cache's users: one for each function that uses the cache. They log in by
// IAM, so there is no password to leak, and have only the rights that their function
// needs.
type users struct {
	check, admin awselasticache.CfnUser
	group        awselasticache.CfnUserGroup
}

func (s *Stack) newUsers() *users {
	u := &users{check: s.user("CheckUser", "check", acl.Check()),
		admin: s.user("AdminUser", "admin", acl.Admin())}
	u.group = awselasticache.NewCfnUserGroup(s.Stack, jsii.String("Users"), &awselasticache.CfnUserGroupProps{
		Engine:      jsii.String("valkey"),
		UserGroupId: jsii.String(s.props.Name()),
		UserIds:     &[]*string{u.check.Ref(), u.admin.Ref()},
	})
	return u
}

// user returns a user whose id is its name, as log-in by IAM requires.
func (s *Stack) user(id, function, access string) awselasticache.CfnUser {
	name := s.userName(function)
	return awselasticache.NewCfnUser(s.Stack, &id, &awselasticache.CfnUserProps{
		Engine:             jsii.String("valkey"),
		UserId:             &name,
		UserName:           &name,
		AccessString:       &access,
		AuthenticationMode: map[string]any{"Type": "iam"},
	})
}

func (s *Stack) userName(function string) string { return s.props.Name() + "-" + function }

func (s *Stack) userARN(function string) *string {
	return s.elastiCacheARN("user", s.userName(function))
}

func (s *Stack) elastiCacheARN(kind, name string) *string {
	return s.FormatArn(&awscdk.ArnComponents{
		Service: jsii.String("elasticache"), Resource: &kind, ResourceName: &name,
		ArnFormat: awscdk.ArnFormat_COLON_RESOURCE_NAME,
	})
}
