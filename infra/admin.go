package main

// adminTimeout in seconds. An HTTP API waits for 30 at most.
const adminTimeout = 25

// newAdmin is the dashboard's function.
func (s *Stack) newAdmin() *function {
	return s.newFunction(functionSpec{
		id: "Admin", name: "admin", description: "Tidegate's dashboard",
		props: s.props.Admin, timeout: adminTimeout, group: s.network.admin,
		environment: map[string]string{"ADMIN_USER": s.props.Login.User, "ADMIN_PASSWORD": reference(s.secrets.password)},
	})
}
