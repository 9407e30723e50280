package main

import (
	"github.com/aws/aws-cdk-go/awscdk/v2/awsapigateway"
	"github.com/aws/aws-cdk-go/awscdk/v2/awswafv2"
	"github.com/aws/jsii-runtime-go"
)

// floodLimit is the number of calls in five minutes above which WAF blocks an address. It
// blocks before the authorizer, since each call of a flood would cost an invocation,
// authenticated or not.
const floodLimit = 10_000

// newWebACL guards the stage of a REST API. An HTTP API cannot have a web ACL.
func (s *Stack) newWebACL(api awsapigateway.RestApi) {
	acl := awswafv2.NewCfnWebACL(s.Stack, jsii.String("WebAcl"), &awswafv2.CfnWebACLProps{
		Name:  jsii.String(s.props.Name()),
		Scope: jsii.String("REGIONAL"),
		DefaultAction: &awswafv2.CfnWebACL_DefaultActionProperty{
			Allow: &awswafv2.CfnWebACL_AllowActionProperty{}},
		VisibilityConfig: visibility(s.props.Name()),
		Rules: &[]any{
			&awswafv2.CfnWebACL_RuleProperty{
				Name: jsii.String("flood"), Priority: jsii.Number(0), VisibilityConfig: visibility("flood"),
				Action: &awswafv2.CfnWebACL_RuleActionProperty{
					Block: &awswafv2.CfnWebACL_BlockActionProperty{}},
				Statement: &awswafv2.CfnWebACL_StatementProperty{
					RateBasedStatement: &awswafv2.CfnWebACL_RateBasedStatementProperty{
						AggregateKeyType: jsii.String("IP"), Limit: jsii.Number(floodLimit),
						EvaluationWindowSec: jsii.Number(300),
					}},
			},
			&awswafv2.CfnWebACL_RuleProperty{
				Name: jsii.String("known-bad-inputs"), Priority: jsii.Number(1),
				VisibilityConfig: visibility("known-bad-inputs"),
				OverrideAction:   &awswafv2.CfnWebACL_OverrideActionProperty{None: map[string]any{}},
				Statement: &awswafv2.CfnWebACL_StatementProperty{
					ManagedRuleGroupStatement: &awswafv2.CfnWebACL_ManagedRuleGroupStatementProperty{
						VendorName: jsii.String("AWS"),
						Name:       jsii.String("AWSManagedRulesKnownBadInputsRuleSet"),
					}},
			},
		},
	})
	awswafv2.NewCfnWebACLAssociation(s.Stack, jsii.String("WebAclAssociation"),
		&awswafv2.CfnWebACLAssociationProps{
			WebAclArn: acl.AttrArn(), ResourceArn: api.DeploymentStage().StageArn(),
		})
}

func visibility(metric string) *awswafv2.CfnWebACL_VisibilityConfigProperty {
	return &awswafv2.CfnWebACL_VisibilityConfigProperty{
		CloudWatchMetricsEnabled: jsii.Bool(true), SampledRequestsEnabled: jsii.Bool(true),
		MetricName: &metric,
	}
}
