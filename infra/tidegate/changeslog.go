package tidegate

import (
	"github.com/aws/aws-cdk-go/awscdk/v2"
	"github.com/aws/aws-cdk-go/awscdk/v2/awsec2"
	"github.com/aws/aws-cdk-go/awscdk/v2/awsevents"
	"github.com/aws/aws-cdk-go/awscdk/v2/awseventstargets"
	"github.com/aws/aws-cdk-go/awscdk/v2/awsiam"
	"github.com/aws/aws-cdk-go/awscdk/v2/awss3"
	"github.com/aws/constructs-go/constructs/v10"
	"github.com/aws/jsii-runtime-go"
)

// oldCheckpointDays is how many days a replaced checkpoint is kept.
const oldCheckpointDays = 90

// changesLog is the bucket of the log of changes. No function may delete from it, and it
// stays when the stack is deleted.
type changesLog struct{ bucket awss3.IBucket }

func (t *Tidegate) newChangesLog() *changesLog {
	own, name := t.choices.changes, t.props.ChangesBucket
	if own.maybe() {
		name = own.text(*t.newBucket(t.part("Log", own)).BucketName(), name)
	}
	t.ChangesLog = "s3://" + name
	return &changesLog{awss3.Bucket_FromBucketName(t.Construct, jsii.String("ChangesLog"), &name)}
}

func (t *Tidegate) newBucket(scope constructs.Construct) awss3.Bucket {
	props := &awss3.BucketProps{
		Versioned:         jsii.Bool(true),
		ObjectLockEnabled: jsii.Bool(true), // only a new bucket can have it; ChangesLockDays uses it
		Encryption:        awss3.BucketEncryption_KMS,
		EncryptionKey:     t.key,
		BucketKeyEnabled:  jsii.Bool(true), // one request of the key for many objects
		EnforceSSL:        jsii.Bool(true),
		BlockPublicAccess: awss3.BlockPublicAccess_BLOCK_ALL(),
		ObjectOwnership:   awss3.ObjectOwnership_BUCKET_OWNER_ENFORCED,
		RemovalPolicy:     awscdk.RemovalPolicy_RETAIN_ON_UPDATE_OR_DELETE,
		LifecycleRules: &[]*awss3.LifecycleRule{{
			NoncurrentVersionExpiration: awscdk.Duration_Days(jsii.Number(oldCheckpointDays)),
		}},
	}
	if days := t.props.ChangesLockDays; days > 0 {
		props.ObjectLockDefaultRetention = awss3.ObjectLockRetention_Compliance(
			awscdk.Duration_Days(jsii.Number(days)))
	}
	bucket := awss3.NewBucket(scope, jsii.String("Changes"), props)
	bucket.AddToResourcePolicy(deny(bucket, "CreateOnly", map[string]any{
		"Null": map[string]any{"s3:if-none-match": "true"}}, "s3:PutObject"))
	bucket.AddToResourcePolicy(deny(bucket, "KeepChanges", nil, "s3:DeleteObject", "s3:DeleteObjectVersion"))
	return bucket
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

// grantAccess lets only the admin function read and write the bucket. In an own network
// it does so through a gateway endpoint for this bucket, which costs nothing.
func (l *changesLog) grantAccess(t *Tidegate) {
	objects := &[]*string{l.bucket.ArnForObjects(jsii.String("*"))}
	rights := []awsiam.PolicyStatement{
		statement("Changes", jsii.Strings("s3:GetObject", "s3:PutObject"), objects),
		// Without s3:ListBucket, S3 answers 403 instead of 404 for a missing object.
		statement("ChangesList", jsii.Strings("s3:ListBucket"), &[]*string{l.bucket.BucketArn()}),
	}
	through := awsiam.NewPolicyDocument(nil)
	for _, right := range rights {
		t.Admin.AddToRolePolicy(right)
		anybody := right.Copy(nil)
		anybody.AddAnyPrincipal()
		through.AddStatements(anybody)
	}
	t.Admin.AddToRolePolicy(statement("ChangesKey", jsii.Strings("kms:Decrypt", "kms:GenerateDataKey"),
		&[]*string{&t.keyARN}))
	if t.choices.network.maybe() {
		awsec2.NewCfnVPCEndpoint(t.part("ChangesNetwork", t.choices.network), jsii.String("Endpoint"),
			&awsec2.CfnVPCEndpointProps{
				VpcId: &t.network.own.id, RouteTableIds: anys(t.network.own.tables), PolicyDocument: through,
				ServiceName:     jsii.String("com.amazonaws." + *t.stack().Region() + ".s3"),
				VpcEndpointType: jsii.String("Gateway"),
			})
	}
}

// scheduleMinute calls the admin function once a minute. It brings Valkey to the newest
// change. A call that fails is not repeated: the next minute does the same.
func (t *Tidegate) scheduleMinute() {
	awsevents.NewRule(t.Construct, jsii.String("Minute"), &awsevents.RuleProps{
		Description: jsii.String("Brings Valkey to the newest change of the log"),
		Schedule:    awsevents.Schedule_Rate(awscdk.Duration_Minutes(jsii.Number(1))),
		Targets: &[]awsevents.IRuleTarget{awseventstargets.NewLambdaFunction(t.Admin,
			&awseventstargets.LambdaFunctionProps{
				Event:         awsevents.RuleTargetInput_FromObject(map[string]any{"tidegate": "minute"}),
				RetryAttempts: jsii.Number(0), MaxEventAge: awscdk.Duration_Minutes(jsii.Number(1)),
			})},
	})
}
