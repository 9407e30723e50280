package authorizer

import (
	"fmt"
	"regexp"

	"github.com/aws/aws-cdk-go/awscdk/v2/awsiam"
	"github.com/aws/aws-cdk-go/awscdk/v2/awslambda"
	"github.com/aws/jsii-runtime-go"
)

// authorizerARN is the ARN of one authorizer, of any partition.
var authorizerARN = regexp.MustCompile(`^arn:aws[a-z-]*:execute-api:[a-z0-9-]+:\d{12}:[a-z0-9]+/authorizers/[a-z0-9]+$`)

// CheckARN says what is wrong with the ARN of an authorizer. API Gateway calls the function in the authorizer's name, so any wildcard would let every
// API that it covers invoke the function.
func CheckARN(arn string) error {
	if !authorizerARN.MatchString(arn) {
		return fmt.Errorf("%q is not the ARN of one authorizer: want arn:aws:execute-api:REGION:ACCOUNT:API/authorizers/ID, without wildcards", arn)
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

func permission(arn *string) *awslambda.Permission {
	return &awslambda.Permission{
		Principal: awsiam.NewServicePrincipal(jsii.String("apigateway.amazonaws.com"), nil),
		SourceArn: arn,
	}
}
