package tidegate

import (
	"github.com/aws/aws-cdk-go/awscdk/v2"
	"github.com/aws/aws-cdk-go/awscdk/v2/awssecretsmanager"
	"github.com/aws/constructs-go/constructs/v10"
	"github.com/aws/jsii-runtime-go"
)

// secrets are references to secrets. CloudFormation resolves them into the functions'
// environments, which Lambda encrypts with the stack's key, so the functions need no access
// to Secrets Manager. docs/deploy.md weighs this against an interface endpoint.
type secrets struct {
	// pepper is part of every hash of an API key. Without it no key can be verified.
	pepper string
	// password is the first user's; "" without a first user.
	password string
}

const (
	pepperLength   = 64
	passwordLength = 32
)

// newSecrets lets Secrets Manager generate what is not given.
func (t *Tidegate) newSecrets() {
	t.secrets = &secrets{}
	pepper := t.props.PepperSecret
	if t.choices.pepper.maybe() {
		made := t.secret(t.part("Keys", t.choices.pepper), "Pepper", "pepper",
			"Tidegate's pepper: every hash of an API key depends on it. Never change it.", pepperLength)
		made.ApplyRemovalPolicy(t.removal(), nil)
		pepper = t.choices.pepper.text(*made.Ref(), pepper)
	}
	t.secrets.pepper = resolve(pepper)
	if t.choices.password.maybe() {
		made := t.secret(t.part("Login", t.choices.password), "Password", "password",
			"The first password of Tidegate's dashboard.", passwordLength)
		t.secrets.password = resolve(*made.Ref())
		t.FirstLogin = "aws secretsmanager get-secret-value --query SecretString --output text " +
			"--secret-id " + t.props.Name() + "/password"
	}
}

func (t *Tidegate) secret(scope constructs.Construct, id, name, description string,
	length int) awssecretsmanager.CfnSecret {
	return awssecretsmanager.NewCfnSecret(scope, &id, &awssecretsmanager.CfnSecretProps{
		Name:        jsii.String(t.props.Name() + "/" + name),
		Description: &description,
		KmsKeyId:    &t.keyARN,
		GenerateSecretString: &awssecretsmanager.CfnSecret_GenerateSecretStringProperty{
			PasswordLength: jsii.Number(length), ExcludePunctuation: jsii.Bool(true),
			RequireEachIncludedType: jsii.Bool(true),
		},
	})
}

// resolve returns a reference to the value of the secret with this name or ARN.
func resolve(secret string) string {
	return *awscdk.SecretValue_SecretsManager(&secret, nil).UnsafeUnwrap()
}
