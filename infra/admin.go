package main

import (
	"maps"
	"strings"
)

// adminTimeout is in seconds. An HTTP API's maximum is 30.
const adminTimeout = 25

// newAdmin is the dashboard's function.
func (s *Stack) newAdmin() *function {
	_, egress := s.props.Egress()
	login := s.props.Login
	environment := s.props.AdminVariables()
	maps.Copy(environment, map[string]string{
		"ADMIN_URL":          strings.TrimSuffix(s.panel.url, "/"),
		"ADMIN_USERS":        secretNamed(login.Users),
		"OIDC_CLIENT_SECRET": secretNamed(login.OIDC.ClientSecret),
		"JOURNAL":            s.journal.address(),
	})
	if s.secrets.password != nil {
		environment["ADMIN_USER"], environment["ADMIN_PASSWORD"] = login.User, reference(s.secrets.password)
	}
	return s.newFunction(functionSpec{
		id: "Admin", name: "admin", description: "Tidegate's dashboard",
		props: s.props.Admin, timeout: adminTimeout, group: s.network.admin, egress: egress,
		environment: environment,
	})
}
