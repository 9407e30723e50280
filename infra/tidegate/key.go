package tidegate

import (
	"github.com/aws/aws-cdk-go/awscdk/v2"
	"github.com/aws/aws-cdk-go/awscdk/v2/awsiam"
	"github.com/aws/aws-cdk-go/awscdk/v2/awskms"
	"github.com/aws/jsii-runtime-go"
)

// pendingDays is KMS's minimum time before it deletes a key.
const pendingDays = 7

// newKey sets the key that encrypts all data at rest. Snapshots and secrets cannot be read
// without the key, so it has the removal policy that they have.
func (t *Tidegate) newKey() {
	t.keyARN = t.props.Key
	if t.choices.key.maybe() {
		key := awskms.NewKey(t.part("Encryption", t.choices.key), jsii.String("Key"), &awskms.KeyProps{
			Description: jsii.String("Tidegate " + t.props.Stage +
				": cache, secrets, environments of the functions, logs, alarms"),
			EnableKeyRotation: jsii.Bool(true),
			PendingWindow:     awscdk.Duration_Days(jsii.Number(pendingDays)),
			RemovalPolicy:     t.removal(),
		})
		key.AddToResourcePolicy(t.useByLogs(), nil)
		key.AddToResourcePolicy(t.useByAlarms(), nil)
		t.keyARN = t.choices.key.text(*key.KeyArn(), t.props.Key)
	}
	t.key = awskms.Key_FromKeyArn(t.Construct, jsii.String("EncryptionKey"), &t.keyARN)
}

func (t *Tidegate) useByLogs() awsiam.PolicyStatement {
	groups := t.arn("logs", "log-group", *t.logGroupName("*"))
	return awsiam.NewPolicyStatement(&awsiam.PolicyStatementProps{
		Sid: jsii.String("Logs"),
		Principals: &[]awsiam.IPrincipal{
			awsiam.NewServicePrincipal(jsii.String("logs."+*t.stack().Region()+".amazonaws.com"), nil)},
		Actions: jsii.Strings("kms:Decrypt", "kms:DescribeKey", "kms:Encrypt", "kms:GenerateDataKey",
			"kms:GenerateDataKeyWithoutPlaintext", "kms:ReEncryptFrom", "kms:ReEncryptTo"),
		Resources:  jsii.Strings("*"), // this key
		Conditions: &map[string]any{"ArnLike": map[string]any{"kms:EncryptionContext:aws:logs:arn": groups}},
	})
}

func (t *Tidegate) useByAlarms() awsiam.PolicyStatement {
	return awsiam.NewPolicyStatement(&awsiam.PolicyStatementProps{
		Sid: jsii.String("Alarms"),
		Principals: &[]awsiam.IPrincipal{
			awsiam.NewServicePrincipal(jsii.String("cloudwatch.amazonaws.com"), nil)},
		Actions:    jsii.Strings("kms:Decrypt", "kms:GenerateDataKey"),
		Resources:  jsii.Strings("*"), // this key
		Conditions: &map[string]any{"StringEquals": map[string]any{"aws:SourceAccount": t.stack().Account()}},
	})
}
