package main

import (
	"encoding/json"

	"github.com/aws/aws-cdk-go/awscdk/v2/awsapigatewayv2"
	"github.com/aws/aws-cdk-go/awscdk/v2/awsapigatewayv2integrations"
	"github.com/aws/aws-cdk-go/awscdk/v2/awscertificatemanager"
	"github.com/aws/aws-cdk-go/awscdk/v2/awsroute53"
	"github.com/aws/aws-cdk-go/awscdk/v2/awsroute53targets"
	"github.com/aws/jsii-runtime-go"
)

// Throttle of the pages in calls a second, enough for several people with live refresh.
const (
	dashboardRate  = 50
	dashboardBurst = 100
)

// dashboardRoute is a route of the dashboard's API with a separate throttle.
type dashboardRoute struct {
	id          string
	method      awsapigatewayv2.HttpMethod
	path        string // empty for $default, the route of all other requests
	rate, burst int
}

// dashboardRoutes are throttled separately, so that floods of log-ins or of keys' owners
// leave capacity for operators, machines and settlements, and the other way round. A
// log-in hashes a password; each call on a settling route makes a settlement.
var dashboardRoutes = []dashboardRoute{
	{id: "DashboardRoute", rate: dashboardRate, burst: dashboardBurst},
	{id: "DashboardLogin", method: awsapigatewayv2.HttpMethod_ANY, path: "/login", rate: 5, burst: 20},
	{id: "DashboardProvider", method: awsapigatewayv2.HttpMethod_ANY, path: "/login/{proxy+}",
		rate: 5, burst: 20},
	{id: "DashboardApi", method: awsapigatewayv2.HttpMethod_ANY, path: "/api/{proxy+}", rate: 50, burst: 100},
	{id: "DashboardOwner", method: awsapigatewayv2.HttpMethod_ANY, path: "/api/v1/self", rate: 20, burst: 40},
	{id: "DashboardSettle", method: awsapigatewayv2.HttpMethod_POST, path: "/api/v1/settlements",
		rate: 200, burst: 400},
}

func (r dashboardRoute) key() awsapigatewayv2.HttpRouteKey {
	if r.path == "" {
		return awsapigatewayv2.HttpRouteKey_DEFAULT()
	}
	return awsapigatewayv2.HttpRouteKey_With(&r.path, r.method)
}

// dashboardAPI is the HTTP API of the admin function, which authenticates requests
// itself.
type dashboardAPI struct {
	api   awsapigatewayv2.HttpApi
	stage awsapigatewayv2.CfnStage
	url   string
}

func (s *Stack) newDashboardAPI() *dashboardAPI {
	own := s.props.Domain.Name != ""
	api := awsapigatewayv2.NewHttpApi(s.Stack, jsii.String("Dashboard"), &awsapigatewayv2.HttpApiProps{
		ApiName:                   jsii.String(s.props.Name() + "-dashboard"),
		Description:               jsii.String("Tidegate's dashboard (" + s.props.Stage + ")"),
		CreateDefaultStage:        jsii.Bool(false),
		DisableExecuteApiEndpoint: jsii.Bool(own),
	})
	panel := &dashboardAPI{api: api}
	var mapping *awsapigatewayv2.DomainMappingOptions
	if own {
		mapping, panel.url = s.newDomain(), "https://"+s.props.Domain.Name+"/"
	} else {
		panel.url = *api.ApiEndpoint() + "/"
	}
	panel.stage = s.newStage("Dashboard", "dashboard", api, dashboardRate, dashboardBurst, mapping)
	return panel
}

// routeDashboard sends every call to the admin function, which needs the API's address
// first. The stage depends on the routes, since it names them.
func (s *Stack) routeDashboard() {
	integration := awsapigatewayv2integrations.NewHttpLambdaIntegration(jsii.String("Admin"),
		s.admin.Function, nil)
	settings := map[string]any{}
	for _, r := range dashboardRoutes {
		route := awsapigatewayv2.NewHttpRoute(s.Stack, &r.id, &awsapigatewayv2.HttpRouteProps{
			HttpApi: s.panel.api, RouteKey: r.key(), Integration: integration,
		})
		s.panel.stage.Node().AddDependency(route)
		settings[*r.key().Key()] = map[string]any{"ThrottlingRateLimit": r.rate,
			"ThrottlingBurstLimit": r.burst}
	}
	s.panel.stage.SetRouteSettings(settings)
}

// newStage returns the $default stage of an HTTP API with a throttle, and with an access
// log if AccessLogs is set.
func (s *Stack) newStage(
	id, log string, api awsapigatewayv2.HttpApi, rate, burst int,
	mapping *awsapigatewayv2.DomainMappingOptions,
) awsapigatewayv2.CfnStage {
	stage := awsapigatewayv2.NewHttpStage(s.Stack, jsii.String(id+"Stage"), &awsapigatewayv2.HttpStageProps{
		HttpApi:    api,
		StageName:  jsii.String("$default"),
		AutoDeploy: jsii.Bool(true),
		Throttle: &awsapigatewayv2.ThrottleSettings{RateLimit: jsii.Number(rate),
			BurstLimit: jsii.Number(burst)},
		DomainMapping: mapping,
	})
	resource, ok := stage.Node().DefaultChild().(awsapigatewayv2.CfnStage)
	if !ok {
		panic("the stage of an HTTP API has no resource")
	}
	if !s.props.Observe.AccessLogs {
		return resource
	}
	resource.SetAccessLogSettings(&awsapigatewayv2.CfnStage_AccessLogSettingsProperty{
		DestinationArn: s.optionalLogGroup(id+"Log", log).LogGroupArn(),
		Format:         jsii.String(accessLogFormat()),
	})
	return resource
}

// accessLogFormat returns the fields of an access log line. None identifies a caller.
func accessLogFormat() string {
	fields := map[string]string{}
	for _, name := range []string{"requestId", "requestTime", "httpMethod", "routeKey", "protocol", "status",
		"responseLength", "responseLatency",
		"integrationLatency", "integrationStatus", "integrationErrorMessage", "authorizer.error"} {
		fields[name] = "$context." + name
	}
	text, err := json.Marshal(fields)
	if err != nil {
		panic(err) // unreachable: a map of strings always encodes
	}
	return string(text)
}

// newDomain gives the dashboard its own host name.
func (s *Stack) newDomain() *awsapigatewayv2.DomainMappingOptions {
	d := s.props.Domain
	domain := awsapigatewayv2.NewDomainName(s.Stack, jsii.String("Domain"), &awsapigatewayv2.DomainNameProps{
		DomainName: &d.Name,
		Certificate: awscertificatemanager.Certificate_FromCertificateArn(s.Stack,
			jsii.String("Certificate"), &d.Certificate),
		SecurityPolicy: awsapigatewayv2.SecurityPolicy_TLS_1_2,
	})
	if d.Zone != "" {
		zone := awsroute53.HostedZone_FromHostedZoneAttributes(s.Stack, jsii.String("Zone"),
			&awsroute53.HostedZoneAttributes{
				HostedZoneId: &d.ZoneID, ZoneName: &d.Zone,
			})
		target := awsroute53targets.NewApiGatewayv2DomainProperties(domain.RegionalDomainName(),
			domain.RegionalHostedZoneId())
		awsroute53.NewARecord(s.Stack, jsii.String("Record"), &awsroute53.ARecordProps{
			Zone: zone, RecordName: jsii.String(d.Name + "."),
			Target: awsroute53.RecordTarget_FromAlias(target),
		})
	}
	return &awsapigatewayv2.DomainMappingOptions{DomainName: domain}
}
