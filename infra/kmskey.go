package main

import (
	"github.com/aws/aws-cdk-go/awscdk/v2"
	"github.com/aws/aws-cdk-go/awscdk/v2/awsiam"
	"github.com/aws/aws-cdk-go/awscdk/v2/awskms"
	"github.com/aws/jsii-runtime-go"
)

// pendingDays is KMS's minimum time before it deletes a key.
const pendingDays = 7

// newKey creates the key that encrypts all data at rest. Snapshots and secrets cannot be
// read without the key, so it has the removal policy that they have.
func (s *Stack) newKey() awskms.Key {
	key := awskms.NewKey(s.Stack, jsii.String("Key"), &awskms.KeyProps{
		Description: jsii.String("Tidegate " + s.props.Stage +
			": cache, secrets, environments of the functions, logs, alarms"),
		Alias:             jsii.String("alias/" + s.props.Name()),
		EnableKeyRotation: jsii.Bool(true),
		PendingWindow:     awscdk.Duration_Days(jsii.Number(pendingDays)),
		RemovalPolicy:     s.removal(),
	})
	key.AddToResourcePolicy(s.useByLogs(), nil)
	key.AddToResourcePolicy(s.useByAlarms(), nil)
	return key
}

func (s *Stack) useByLogs() awsiam.PolicyStatement {
	groups := s.FormatArn(&awscdk.ArnComponents{
		Service: jsii.String("logs"), Resource: jsii.String("log-group"),
		ArnFormat:    awscdk.ArnFormat_COLON_RESOURCE_NAME,
		ResourceName: s.logGroupName("*"),
	})
	return awsiam.NewPolicyStatement(&awsiam.PolicyStatementProps{
		Sid: jsii.String("Logs"),
		Principals: &[]awsiam.IPrincipal{
			awsiam.NewServicePrincipal(jsii.String("logs."+*s.Region()+".amazonaws.com"), nil)},
		Actions: jsii.Strings("kms:Decrypt", "kms:DescribeKey", "kms:Encrypt", "kms:GenerateDataKey",
			"kms:GenerateDataKeyWithoutPlaintext",
			"kms:ReEncryptFrom", "kms:ReEncryptTo"),
		Resources:  jsii.Strings("*"), // this key
		Conditions: &map[string]any{"ArnLike": map[string]any{"kms:EncryptionContext:aws:logs:arn": groups}},
	})
}

func (s *Stack) useByAlarms() awsiam.PolicyStatement {
	return awsiam.NewPolicyStatement(&awsiam.PolicyStatementProps{
		Sid: jsii.String("Alarms"),
		Principals: &[]awsiam.IPrincipal{
			awsiam.NewServicePrincipal(jsii.String("cloudwatch.amazonaws.com"), nil)},
		Actions:    jsii.Strings("kms:Decrypt", "kms:GenerateDataKey"),
		Resources:  jsii.Strings("*"), // this key
		Conditions: &map[string]any{"StringEquals": map[string]any{"aws:SourceAccount": s.Account()}},
	})
}
