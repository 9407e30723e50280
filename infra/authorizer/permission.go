package authorizer

import (
	"fmt"
	"regexp"

	"github.com/aws/aws-cdk-go/awscdk/v2"
	"github.com/aws/aws-cdk-go/awscdk/v2/awsiam"
	"github.com/aws/aws-cdk-go/awscdk/v2/awslambda"
	"github.com/aws/constructs-go/constructs/v10"
	"github.com/aws/jsii-runtime-go"
)

// authorizerARN is the ARN of one authorizer, of any partition.
var authorizerARN = regexp.MustCompile(
	`^arn:aws[a-z-]*:execute-api:[a-z0-9-]+:\d{12}:[a-z0-9]+/authorizers/[a-z0-9]+$`)

// CheckARN returns what is wrong with the ARN of an authorizer. With a wildcard, every
// matching API could invoke the function.
func CheckARN(arn string) error {
	if !authorizerARN.MatchString(arn) {
		return fmt.Errorf("%q is not the ARN of one authorizer: want "+
			"arn:aws:execute-api:REGION:ACCOUNT:API/authorizers/ID, without wildcards", arn)
	}
	return nil
}

// Allow lets one authorizer of another account or another deployment invoke the function.
func Allow(function awslambda.IFunction, id *string, arn string) error {
	if err := CheckARN(arn); err != nil {
		return err
	}
	function.AddPermission(id, permission(&arn))
	return nil
}

// permit adds a permission with this id for the authorizer where the CDK adds none: for
// an imported function when the stack's account is unknown, as in any stack without env.
func (p *Props) permit(scope constructs.Construct, authorizer *string, id string) {
	there, here := p.Function.Env().Account, awscdk.Stack_Of(scope).Account()
	if p.OtherAccount || p.Function.Node().TryFindChild(&id) != nil || differ(there, here) {
		return
	}
	const warning = "UnclearLambdaEnvironment"
	awscdk.Annotations_Of(p.Function).AcknowledgeWarning(jsii.String(warning),
		jsii.String("the authorizer has given the permission"))
	awslambda.NewCfnPermission(scope, jsii.String("Permission"), &awslambda.CfnPermissionProps{
		Action: jsii.String("lambda:InvokeFunction"), FunctionName: p.Function.FunctionArn(),
		Principal: jsii.String("apigateway.amazonaws.com"), SourceArn: authorizer,
	})
}

// differ reports whether both are known and different.
func differ(a, b *string) bool {
	return !*awscdk.Token_IsUnresolved(a) && !*awscdk.Token_IsUnresolved(b) && *a != *b
}

func permission(arn *string) *awslambda.Permission {
	return &awslambda.Permission{
		Principal: awsiam.NewServicePrincipal(jsii.String("apigateway.amazonaws.com"), nil),
		SourceArn: arn,
	}
}
