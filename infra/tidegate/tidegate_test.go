package tidegate_test

import (
	"strings"
	"testing"

	"github.com/aws/aws-cdk-go/awscdk/v2"
	"github.com/aws/aws-cdk-go/awscdk/v2/assertions"
	"github.com/aws/aws-cdk-go/awscdk/v2/awsapigateway"
	"github.com/aws/aws-cdk-go/awscdk/v2/awsec2"
	"github.com/aws/aws-cdk-go/awscdk/v2/awslambda"
	"github.com/aws/constructs-go/constructs/v10"
	"github.com/aws/jsii-runtime-go"

	"tidegate/infra/authorizer"
	"tidegate/infra/settings"
	"tidegate/infra/tidegate"
)

// team makes a team's two stacks of an environment: a deployment in a network that it has,
// and an API behind it.
func team(t *testing.T, scope constructs.Construct, stage string) (limits, shop awscdk.Stack) {
	t.Helper()
	limits = awscdk.NewStack(scope, jsii.String("Limits"+stage), nil)
	vpc := awsec2.NewVpc(limits, jsii.String("Vpc"), nil)
	props := settings.Default(stage)
	props.VPC, props.Kind, props.URLSecret = *vpc.VpcId(), settings.URL, "valkey"
	for _, subnet := range *vpc.PrivateSubnets() {
		props.Subnets = append(props.Subnets, *subnet.SubnetId())
	}
	path := t.TempDir()
	made := tidegate.NewTidegate(limits, jsii.String("Tidegate"), &tidegate.Props{Props: props,
		Code: func(string) awslambda.Code { return awslambda.Code_FromAsset(&path, nil) }})
	shop = awscdk.NewStack(scope, jsii.String("Shop"+stage), nil)
	api := awsapigateway.NewRestApi(shop, jsii.String("Api"), nil)
	guard := authorizer.NewRateLimitAuthorizer(shop, jsii.String("Limits"),
		&authorizer.Props{Function: made.Check, RestAPI: api})
	api.Root().AddMethod(jsii.String("GET"), awsapigateway.NewMockIntegration(nil),
		&awsapigateway.MethodOptions{Authorizer: guard.REST})
	return limits, shop
}

// One app has a deployment for each environment, also in the stages of a pipeline, in
// networks that it makes itself, and attaches them to APIs of other stacks.
func TestEnvironmentsOfOneApp(t *testing.T) {
	for name, scopes := range map[string]func(app awscdk.App) [2]constructs.Construct{
		"stacks": func(app awscdk.App) [2]constructs.Construct { return [2]constructs.Construct{app, app} },
		"stages": func(app awscdk.App) [2]constructs.Construct {
			return [2]constructs.Construct{awscdk.NewStage(app, jsii.String("A"), nil),
				awscdk.NewStage(app, jsii.String("B"), nil)}
		},
	} {
		t.Run(name, func(t *testing.T) {
			folder := t.TempDir()
			app := awscdk.NewApp(&awscdk.AppProps{Outdir: &folder, AnalyticsReporting: jsii.Bool(false)})
			both := scopes(app)
			stages := []string{"dev", "prod"}
			var made [2][2]awscdk.Stack
			for i, stage := range stages {
				made[i][0], made[i][1] = team(t, both[i], stage)
			}
			for i, stage := range stages {
				limits, shop := made[i][0], made[i][1]
				template := assertions.Template_FromStack(limits, nil)
				template.HasResourceProperties(jsii.String("AWS::Lambda::Function"), map[string]any{
					"FunctionName": "tidegate-" + stage + "-check",
					"VpcConfig": assertions.Match_ObjectLike(&map[string]any{"SubnetIds": []any{
						map[string]any{
							"Ref": assertions.Match_StringLikeRegexp(jsii.String("^VpcPrivateSubnet1")),
						},
						map[string]any{
							"Ref": assertions.Match_StringLikeRegexp(jsii.String("^VpcPrivateSubnet2")),
						}}}),
				})
				template.ResourceCountIs(jsii.String("AWS::EC2::VPC"), jsii.Number(1))
				assertions.Template_FromStack(shop, nil).
					ResourceCountIs(jsii.String("AWS::Lambda::Permission"),
						jsii.Number(1))
			}
		})
	}
}

// Props that are not valid are refused with the construct's path.
func TestRefusesProps(t *testing.T) {
	defer func() {
		problem, _ := recover().(error)
		if problem == nil || !strings.Contains(problem.Error(), "Team/Tidegate: store=redis: must be") {
			t.Errorf("got %v, want store refused", problem)
		}
	}()
	props := settings.Default("dev")
	props.Kind = "redis"
	stack := awscdk.NewStack(awscdk.NewApp(nil), jsii.String("Team"), nil)
	tidegate.NewTidegate(stack, jsii.String("Tidegate"), &tidegate.Props{Props: props})
}
