package main

import (
	"github.com/aws/aws-cdk-go/awscdk/v2"
	"github.com/aws/aws-cdk-go/awscdk/v2/awssecretsmanager"
	"github.com/aws/jsii-runtime-go"

	"tidegate/infra/settings"
)

// secrets are made by Secrets Manager when the stack is created. CloudFormation puts
// their values into the functions' environments, which Lambda keeps encrypted with our
// key: the template holds references, and the functions need no way to Secrets Manager.
// docs/deploy.md weighs this against an interface endpoint.
type secrets struct {
	// pepper is part of every hash of an API key. Without it no key can be verified.
	pepper awssecretsmanager.CfnSecret
	// password is the first login's; nil when there is none.
	password awssecretsmanager.CfnSecret
}

const (
	pepperLength   = 64
	passwordLength = 32
)

func (s *Stack) newSecrets() *secrets {
	made := &secrets{pepper: s.secret("Pepper", "pepper",
		"Tidegate's pepper: every hash of an API key depends on it. Never change it.", pepperLength)}
	if s.props.Login.User != settings.NoUser {
		made.password = s.secret("Password", "password", "The first password of Tidegate's dashboard.",
			passwordLength)
	}
	return made
}

// count is the number of secrets, for the bill.
func (s *secrets) count() int {
	if s.password == nil {
		return 1
	}
	return 2
}

func (s *Stack) secret(id, name, description string, length int) awssecretsmanager.CfnSecret {
	secret := awssecretsmanager.NewCfnSecret(s.Stack, &id, &awssecretsmanager.CfnSecretProps{
		Name:        jsii.String(s.props.Name() + "/" + name),
		Description: &description,
		KmsKeyId:    s.key.KeyArn(),
		GenerateSecretString: &awssecretsmanager.CfnSecret_GenerateSecretStringProperty{
			PasswordLength: jsii.Number(length), ExcludePunctuation: jsii.Bool(true),
			RequireEachIncludedType: jsii.Bool(true),
		},
	})
	secret.ApplyRemovalPolicy(s.removal(), nil)
	return secret
}

// secretNamed resolves to the value of a secret that the operator has made; nothing
// without a name.
func secretNamed(name string) string {
	if name == "" {
		return ""
	}
	return *awscdk.SecretValue_SecretsManager(&name, nil).UnsafeUnwrap()
}

// reference resolves to the secret's value when the stack is deployed.
func reference(secret awssecretsmanager.CfnSecret) string {
	return *awscdk.SecretValue_SecretsManager(secret.Ref(), nil).UnsafeUnwrap()
}
