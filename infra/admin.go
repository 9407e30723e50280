package main

import (
	"maps"
	"strings"

	"github.com/aws/aws-cdk-go/awscdk/v2"
	"github.com/aws/jsii-runtime-go"
)

// adminTimeout in seconds. An HTTP API waits for 30 at most.
const adminTimeout = 25

// newAdmin is the dashboard's function.
func (s *Stack) newAdmin() *function {
	_, egress := s.props.egress()
	environment := map[string]string{
		"ADMIN_USER": s.props.Login.User, "ADMIN_PASSWORD": reference(s.secrets.password), "ADMIN_URL": strings.TrimSuffix(s.panel.url, "/"),
	}
	maps.Copy(environment, s.props.Login.OIDC.environment())
	return s.newFunction(functionSpec{
		id: "Admin", name: "admin", description: "Tidegate's dashboard",
		props: s.props.Admin, timeout: adminTimeout, group: s.network.admin, egress: egress, environment: environment,
	})
}

// environment tells the admin function about the OpenID provider.
func (o *OIDCProps) environment() map[string]string {
	environment := map[string]string{
		"OIDC_ISSUER":        o.Issuer,
		"OIDC_CLIENT_ID":     o.ClientID,
		"OIDC_ROLE_CLAIM":    o.RoleClaim,
		"OIDC_EDITOR_VALUES": strings.Join(o.Editors, ","),
		"OIDC_VIEWER_VALUES": strings.Join(o.Viewers, ","),
	}
	if o.ClientSecret != "" {
		environment["OIDC_CLIENT_SECRET"] = *awscdk.SecretValue_SecretsManager(jsii.String(o.ClientSecret), nil).UnsafeUnwrap()
	}
	return environment
}
