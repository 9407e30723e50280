package main

import "strings"

// adminTimeout is in seconds. An HTTP API's maximum is 30.
const adminTimeout = 25

// newAdmin is the dashboard's function.
func (s *Stack) newAdmin() *function {
	_, egress := s.props.egress()
	login := s.props.Login
	environment := map[string]string{
		"ADMIN_URL": strings.TrimSuffix(s.panel.url, "/"), "ADMIN_USERS": secretNamed(login.Users),
		"RELEASE": s.props.Release, "STAGE": s.props.Stage,
		"SESSION_IDLE": duration(login.SessionIdle), "SESSION_LIFETIME": duration(login.SessionLifetime),
		"ADMIN_NETWORKS": strings.Join(login.Networks, ","),
		"OWNER_VIEW":     login.OwnerView, "OWNER_NETWORKS": strings.Join(login.OwnerNetworks, ","),
		"JOURNAL":      s.journal.address(),
		"JOURNAL_AWAY": s.props.JournalAway, "JOURNAL_RESTORE": s.props.JournalRestore,
		"AUDIT_RETENTION":   duration(s.props.AuditRetention),
		"RESERVATION_LEASE": duration(s.props.Decision.ReservationLease),
		"FOREIGN_KEYS":      whenTrue(s.props.Identity.ForeignKeys),
	}
	if s.secrets.password != nil {
		environment["ADMIN_USER"], environment["ADMIN_PASSWORD"] = login.User, reference(s.secrets.password)
	}
	return s.newFunction(functionSpec{
		id: "Admin", name: "admin", description: "Tidegate's dashboard",
		props: s.props.Admin, timeout: adminTimeout, group: s.network.admin, egress: egress,
		environment: joined(environment, login.OIDC.environment()),
	})
}

// environment sets the OpenID provider of the admin function.
func (o *OIDCProps) environment() map[string]string {
	return map[string]string{
		"OIDC_ISSUER":        o.Issuer,
		"OIDC_CLIENT_ID":     o.ClientID,
		"OIDC_ROLE_CLAIM":    o.RoleClaim,
		"OIDC_EDITOR_VALUES": strings.Join(o.Editors, ","),
		"OIDC_VIEWER_VALUES": strings.Join(o.Viewers, ","),
		"OIDC_SCOPES":        strings.Join(o.Scopes, " "),
		"OIDC_CLIENT_SECRET": secretNamed(o.ClientSecret),
	}
}
