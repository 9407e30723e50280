package tidegate

import (
	"github.com/aws/aws-cdk-go/awscdk/v2"
	"github.com/aws/aws-cdk-go/awscdk/v2/awsapigatewayv2"
	"github.com/aws/aws-cdk-go/awscdk/v2/awsiam"
	"github.com/aws/aws-cdk-go/awscdk/v2/awslambda"
	"github.com/aws/jsii-runtime-go"
)

// dashboardRoute is a route of the dashboard's API with a separate throttle, in calls a
// second.
type dashboardRoute struct {
	id, key     string
	rate, burst int
}

// dashboardRoutes are throttled separately, so that floods of log-ins or of keys' owners
// leave capacity for operators, machines and settlements, and the other way round. A
// log-in hashes a password; each call on a settling route makes a settlement.
var dashboardRoutes = []dashboardRoute{
	{"DashboardRoute", "$default", 50, 100}, // the pages, for several people with live refresh
	{"DashboardLogin", "ANY /login", 5, 20},
	{"DashboardProvider", "ANY /login/{proxy+}", 5, 20},
	{"DashboardApi", "ANY /api/{proxy+}", 50, 100},
	{"DashboardOwner", "ANY /api/v1/self", 20, 40},
	{"DashboardSettle", "POST /api/v1/settlements", 200, 400},
}

// dashboard is the HTTP API of the admin function, which authenticates requests itself.
type dashboard struct {
	api   awsapigatewayv2.CfnApi
	stage awsapigatewayv2.CfnStage
	// address is the dashboard's URL without a slash.
	address string
}

func (t *Tidegate) newDashboard() *dashboard {
	own := t.choices.domain
	api := awsapigatewayv2.NewCfnApi(t.Construct, jsii.String("Dashboard"), &awsapigatewayv2.CfnApiProps{
		Name: jsii.String(t.props.Name() + "-dashboard"), ProtocolType: jsii.String("HTTP"),
		Description: jsii.String("Tidegate's dashboard (" + t.props.Stage + ")"),
	})
	api.AddPropertyOverride(jsii.String("DisableExecuteApiEndpoint"), own.value(true, false))
	stage := awsapigatewayv2.NewCfnStage(t.Construct, jsii.String("DashboardStage"),
		&awsapigatewayv2.CfnStageProps{
			ApiId: api.Ref(), StageName: jsii.String("$default"), AutoDeploy: true,
			DefaultRouteSettings: &awsapigatewayv2.CfnStage_RouteSettingsProperty{
				ThrottlingRateLimit:  jsii.Number(dashboardRoutes[0].rate),
				ThrottlingBurstLimit: jsii.Number(dashboardRoutes[0].burst)},
		})
	d := &dashboard{api: api, stage: stage}
	d.address = *api.AttrApiEndpoint()
	if own.maybe() {
		t.newDomain(d)
	}
	t.DashboardURL = d.address + "/"
	return d
}

// newDomain gives the dashboard its own host name.
func (t *Tidegate) newDomain(d *dashboard) {
	own := t.choices.domain
	scope := t.part("Domain", own)
	domain := awsapigatewayv2.NewCfnDomainName(scope, jsii.String("Name"),
		&awsapigatewayv2.CfnDomainNameProps{
			DomainName: &t.props.Domain,
			DomainNameConfigurations: &[]any{&awsapigatewayv2.CfnDomainName_DomainNameConfigurationProperty{
				CertificateArn: &t.props.Certificate, EndpointType: jsii.String("REGIONAL"),
				SecurityPolicy: jsii.String("TLS_1_2")}},
		})
	awsapigatewayv2.NewCfnApiMapping(scope, jsii.String("Mapping"), &awsapigatewayv2.CfnApiMappingProps{
		ApiId: d.api.Ref(), DomainName: domain.Ref(), Stage: d.stage.Ref()})
	d.address = own.text("https://"+t.props.Domain, d.address)
	t.DashboardTarget = *domain.AttrRegionalDomainName()
}

// routeDashboard sends every call to the admin function, which needs the API's address
// first. The stage depends on the routes, since it names them.
func (t *Tidegate) routeDashboard() {
	d := t.api
	integration := awsapigatewayv2.NewCfnIntegration(t.Construct, jsii.String("DashboardIntegration"),
		&awsapigatewayv2.CfnIntegrationProps{
			ApiId: d.api.Ref(), IntegrationType: jsii.String("AWS_PROXY"),
			PayloadFormatVersion: jsii.String("2.0"),
			IntegrationUri:       t.Admin.FunctionArn(),
		})
	settings := map[string]any{}
	for _, r := range dashboardRoutes {
		route := awsapigatewayv2.NewCfnRoute(t.Construct, &r.id, &awsapigatewayv2.CfnRouteProps{
			ApiId: d.api.Ref(), RouteKey: &r.key, AuthorizationType: jsii.String("NONE"),
			Target: jsii.String("integrations/" + *integration.Ref()),
		})
		d.stage.AddResourceDependency(route, nil)
		settings[r.key] = map[string]any{"ThrottlingRateLimit": r.rate, "ThrottlingBurstLimit": r.burst}
	}
	d.stage.SetRouteSettings(settings)
	t.Admin.AddPermission(jsii.String("Dashboard"), &awslambda.Permission{
		Principal: awsiam.NewServicePrincipal(jsii.String("apigateway.amazonaws.com"), nil),
		SourceArn: t.stack().FormatArn(&awscdk.ArnComponents{Service: jsii.String("execute-api"),
			Resource: d.api.Ref(), ResourceName: jsii.String("*/*")}),
	})
}
