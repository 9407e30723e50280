package main

import (
	"github.com/aws/aws-cdk-go/awscdk/v2"
	"github.com/aws/aws-cdk-go/awscdk/v2/awselasticache"
	"github.com/aws/jsii-runtime-go"

	"tidegate/internal/store/acl"
)

// users are the cache's users, one for each function. They log in by IAM, so that there
// is no password to leak, and have only the rights that their function needs.
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
