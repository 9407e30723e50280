package main

import (
	"github.com/aws/aws-cdk-go/awscdk/v2"
	"github.com/aws/aws-cdk-go/awscdk/v2/awsec2"
	"github.com/aws/aws-cdk-go/awscdk/v2/awsiam"
	"github.com/aws/aws-cdk-go/awscdk/v2/awslogs"
	"github.com/aws/aws-cdk-go/awscdk/v2/awss3"
	"github.com/aws/jsii-runtime-go"

	"tidegate/internal/telemetry"
)

// oldCheckpointDays is how many days a replaced checkpoint is kept.
const oldCheckpointDays = 90

// journal is the bucket that stores every change. No function may delete from it, and
// it stays when the stack is deleted.
type journal struct{ bucket awss3.Bucket }

func (s *Stack) newJournal() *journal {
	props := &awss3.BucketProps{
		Versioned:         jsii.Bool(true),
		ObjectLockEnabled: jsii.Bool(true), // only a new bucket can have it; LockDays uses it
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
	if days := s.props.Journal.LockDays; days > 0 {
		props.ObjectLockDefaultRetention = awss3.ObjectLockRetention_Compliance(
			awscdk.Duration_Days(jsii.Number(days)))
	}
	bucket := awss3.NewBucket(s.Stack, jsii.String("Journal"), props)
	bucket.AddToResourcePolicy(createOnly(bucket))
	return &journal{bucket}
}

// createOnly denies a put of an entry without If-None-Match, so that no entry can be
// replaced. Checkpoints can.
func createOnly(bucket awss3.Bucket) awsiam.PolicyStatement {
	return awsiam.NewPolicyStatement(&awsiam.PolicyStatementProps{
		Sid: jsii.String("CreateOnly"), Effect: awsiam.Effect_DENY,
		Principals: &[]awsiam.IPrincipal{awsiam.NewAnyPrincipal()},
		Actions:    jsii.Strings("s3:PutObject"),
		Resources:  &[]*string{bucket.ArnForObjects(jsii.String("entry/*"))},
		Conditions: &map[string]any{"Null": map[string]any{"s3:if-none-match": "true"}},
	})
}

// address returns JOURNAL of the admin function; empty without a journal.
func (j *journal) address() string {
	if j == nil {
		return ""
	}
	return "s3://" + *j.bucket.BucketName()
}

// grantAccess lets only the admin function read and write the bucket, through a gateway
// endpoint for this bucket, which costs nothing.
func (j *journal) grantAccess(s *Stack) {
	objects := &[]*string{j.bucket.ArnForObjects(jsii.String("*"))}
	rights := []awsiam.PolicyStatement{
		statement("Journal", jsii.Strings("s3:GetObject", "s3:PutObject"), objects),
		// Without s3:ListBucket, S3 answers 403 instead of 404 for a missing object.
		statement("JournalList", jsii.Strings("s3:ListBucket"), &[]*string{j.bucket.BucketArn()}),
	}
	endpoint := s.network.vpc.AddGatewayEndpoint(jsii.String("JournalEndpoint"),
		&awsec2.GatewayVpcEndpointOptions{Service: awsec2.GatewayVpcEndpointAwsService_S3()})
	for _, right := range rights {
		s.admin.AddToRolePolicy(right)
		through := right.Copy(nil)
		through.AddAnyPrincipal()
		endpoint.AddToPolicy(through)
	}
	s.admin.AddToRolePolicy(statement("JournalKey", jsii.Strings("kms:Decrypt", "kms:GenerateDataKey"),
		&[]*string{s.key.KeyArn()}))
	awslogs.NewMetricFilter(s.Stack, jsii.String("JournalErrors"), &awslogs.MetricFilterProps{
		LogGroup: s.admin.log,
		FilterPattern: awslogs.FilterPattern_StringValue(jsii.String("$.msg"), jsii.String("="),
			jsii.String(telemetry.JournalAlarm)),
		MetricNamespace: jsii.String(journalMetrics), MetricName: jsii.String(s.journalMetric()),
		MetricValue: jsii.String("1"),
	})
	if _, egress := s.props.Egress(); !egress {
		// The isolated subnets have a route to S3 only.
		s.network.admin.AddEgressRule(awsec2.Peer_AnyIpv4(), awsec2.Port_Tcp(jsii.Number(httpsPort)),
			jsii.String("to the journal"), nil)
	}
}

// journalMetrics is the namespace of the metrics from the admin function's log.
const journalMetrics = "Tidegate/Journal"

func (s *Stack) journalMetric() string { return "Errors-" + s.props.Stage }

// journalAlarms are alarms on the admin function's log lines of the journal.
func (s *Stack) journalAlarms() []alarm {
	if s.journal == nil {
		return nil
	}
	return []alarm{{
		"JournalUnsafe", "Changes are not in the journal yet, or Valkey lost changes that the journal has.",
		"open the dashboard: every page shows which. Restore, or wait for S3.",
		metric(journalMetrics, s.journalMetric(), "Sum", nil), 0, 1,
	}}
}
