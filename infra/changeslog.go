package main

import (
	"github.com/aws/aws-cdk-go/awscdk/v2"
	"github.com/aws/aws-cdk-go/awscdk/v2/awsec2"
	"github.com/aws/aws-cdk-go/awscdk/v2/awsevents"
	"github.com/aws/aws-cdk-go/awscdk/v2/awseventstargets"
	"github.com/aws/aws-cdk-go/awscdk/v2/awsiam"
	"github.com/aws/aws-cdk-go/awscdk/v2/awss3"
	"github.com/aws/jsii-runtime-go"
)

// oldCheckpointDays is how many days a replaced checkpoint is kept.
const oldCheckpointDays = 90

// changesLog is the bucket of the log of changes. No function may delete from it, and it
// stays when the stack is deleted.
type changesLog struct{ bucket awss3.Bucket }

func (s *Stack) newChangesLog() *changesLog {
	props := &awss3.BucketProps{
		Versioned:         jsii.Bool(true),
		ObjectLockEnabled: jsii.Bool(true), // only a new bucket can have it; ChangesLockDays uses it
		Encryption:        awss3.BucketEncryption_KMS,
		EncryptionKey:     s.key,
		BucketKeyEnabled:  jsii.Bool(true), // one request of the key for many objects
		EnforceSSL:        jsii.Bool(true),
		BlockPublicAccess: awss3.BlockPublicAccess_BLOCK_ALL(),
		ObjectOwnership:   awss3.ObjectOwnership_BUCKET_OWNER_ENFORCED,
		RemovalPolicy:     awscdk.RemovalPolicy_RETAIN_ON_UPDATE_OR_DELETE,
		LifecycleRules: &[]*awss3.LifecycleRule{{
			NoncurrentVersionExpiration: awscdk.Duration_Days(jsii.Number(oldCheckpointDays)),
		}},
	}
	if days := s.props.ChangesLockDays; days > 0 {
		props.ObjectLockDefaultRetention = awss3.ObjectLockRetention_Compliance(
			awscdk.Duration_Days(jsii.Number(days)))
	}
	bucket := awss3.NewBucket(s.Stack, jsii.String("Changes"), props)
	bucket.AddToResourcePolicy(deny(bucket, "CreateOnly", map[string]any{
		"Null": map[string]any{"s3:if-none-match": "true"}}, "s3:PutObject"))
	bucket.AddToResourcePolicy(deny(bucket, "KeepChanges", nil, "s3:DeleteObject", "s3:DeleteObjectVersion"))
	return &changesLog{bucket}
}

// deny denies everybody actions on changes: no change can be replaced or deleted.
// Checkpoints can.
func deny(bucket awss3.Bucket, sid string, conditions map[string]any,
	actions ...string) awsiam.PolicyStatement {
	props := &awsiam.PolicyStatementProps{
		Sid: &sid, Effect: awsiam.Effect_DENY,
		Principals: &[]awsiam.IPrincipal{awsiam.NewAnyPrincipal()},
		Actions:    jsii.Strings(actions...),
		Resources:  &[]*string{bucket.ArnForObjects(jsii.String("changes/*"))},
	}
	if conditions != nil {
		props.Conditions = &conditions
	}
	return awsiam.NewPolicyStatement(props)
}

// address returns CHANGES_LOG of the admin function.
func (l *changesLog) address() string { return "s3://" + *l.bucket.BucketName() }

// grantAccess lets only the admin function read and write the bucket, through a gateway
// endpoint for this bucket, which costs nothing.
func (l *changesLog) grantAccess(s *Stack) {
	objects := &[]*string{l.bucket.ArnForObjects(jsii.String("*"))}
	rights := []awsiam.PolicyStatement{
		statement("Changes", jsii.Strings("s3:GetObject", "s3:PutObject"), objects),
		// Without s3:ListBucket, S3 answers 403 instead of 404 for a missing object.
		statement("ChangesList", jsii.Strings("s3:ListBucket"), &[]*string{l.bucket.BucketArn()}),
	}
	endpoint := s.network.vpc.AddGatewayEndpoint(jsii.String("ChangesEndpoint"),
		&awsec2.GatewayVpcEndpointOptions{Service: awsec2.GatewayVpcEndpointAwsService_S3()})
	for _, right := range rights {
		s.admin.AddToRolePolicy(right)
		through := right.Copy(nil)
		through.AddAnyPrincipal()
		endpoint.AddToPolicy(through)
	}
	s.admin.AddToRolePolicy(statement("ChangesKey", jsii.Strings("kms:Decrypt", "kms:GenerateDataKey"),
		&[]*string{s.key.KeyArn()}))
	if _, egress := s.props.Egress(); !egress {
		// The isolated subnets have a route to S3 only.
		s.network.admin.AddEgressRule(awsec2.Peer_AnyIpv4(), awsec2.Port_Tcp(jsii.Number(httpsPort)),
			jsii.String("to the log of changes"), nil)
	}
}

// scheduleMinute calls the admin function once a minute. It brings Valkey to the newest
// change. A call that fails is not repeated: the next minute does the same.
func (s *Stack) scheduleMinute() {
	awsevents.NewRule(s.Stack, jsii.String("Minute"), &awsevents.RuleProps{
		Description: jsii.String("Brings Valkey to the newest change of the log"),
		Schedule:    awsevents.Schedule_Rate(awscdk.Duration_Minutes(jsii.Number(1))),
		Targets: &[]awsevents.IRuleTarget{awseventstargets.NewLambdaFunction(s.admin.Function,
			&awseventstargets.LambdaFunctionProps{
				Event:         awsevents.RuleTargetInput_FromObject(map[string]any{"tidegate": "minute"}),
				RetryAttempts: jsii.Number(0), MaxEventAge: awscdk.Duration_Minutes(jsii.Number(1)),
			})},
	})
}
